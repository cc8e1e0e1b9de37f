"""Recall at every depth, macro and micro, from score and relevance tables on Spark."""

from recallk_spark.errors import ConfigError, ContractError, ProtocolError, ProtocolMismatch, RecallkError
from recallk_spark.evaluation import Evaluation, audit, evaluate
from recallk_spark.protocol import Protocol

__all__ = [
    "ConfigError",
    "ContractError",
    "Evaluation",
    "Protocol",
    "ProtocolError",
    "ProtocolMismatch",
    "RecallkError",
    "audit",
    "evaluate",
]
