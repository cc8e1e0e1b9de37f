"""Recall at every depth, macro and micro, from score and relevance tables on Spark."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from recallk_spark.errors import ConfigError, ContractError, ProtocolError, ProtocolMismatch, RecallkError
from recallk_spark.protocol import Protocol

if TYPE_CHECKING:
    from recallk_spark.arrays import from_arrays
    from recallk_spark.evaluation import Evaluation, audit, evaluate

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
    "from_arrays",
]

# Loaded when they are asked for: what reads published results needs neither pyspark nor its start-up time
_ON_DEMAND = {"Evaluation": "evaluation", "audit": "evaluation", "evaluate": "evaluation", "from_arrays": "arrays"}


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return getattr(import_module(f"recallk_spark.{_ON_DEMAND[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
