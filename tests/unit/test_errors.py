"""The errors: which exit code each ends in, and what a fault tells a person."""

from __future__ import annotations

import inspect
import pickle

import pytest

from recallk_spark import errors
from recallk_spark.errors import ContractError, Fault, RecallkError, did_you_mean

EXIT_CODES = {
    "UsageError": 2,
    "ProtocolError": 2,
    "ConfigError": 2,
    "InputError": 3,
    "ContractError": 3,
    "ProtocolMismatch": 3,
    "SparkError": 4,
    "PublishError": 4,
    "RecallkError": 4,
}
CLASSES = {name: cls for name, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, BaseException)}


def test_every_error_has_the_exit_code_of_the_command_lines_contract() -> None:
    assert {name: cls.exit_code for name, cls in CLASSES.items()} == EXIT_CODES


@pytest.mark.parametrize("name", EXIT_CODES)
def test_one_root_catches_every_error(name: str) -> None:
    assert issubclass(CLASSES[name], RecallkError)
    assert name == "RecallkError" or str(CLASSES[name].__doc__).startswith("Raised when ")


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (
            Fault("scores", "score", "null or NaN score", 12_345, "run a, query q, item i"),
            "scores.score: null or NaN score [12,345 at fault] (for example run a, query q, item i)",
        ),
        (
            Fault("relevance", "grade", "is string; a grade is a number"),
            "relevance.grade: is string; a grade is a number",
        ),
        (Fault("scores", "", "no score rows at all"), "scores: no score rows at all"),
        (Fault("queries", "query_id", "null query_id", 1), "queries.query_id: null query_id [1 at fault]"),
    ],
)
def test_a_fault_names_table_column_count_and_example(fault: Fault, text: str) -> None:
    assert str(fault) == text


def test_a_refusal_of_one_fault_is_one_line() -> None:
    error = ContractError([Fault("scores", "item_id", "null item_id", 1, "query q")])
    assert str(error) == "input refused: scores.item_id: null item_id [1 at fault] (for example query q)"


def test_a_refusal_carries_every_fault_by_table_and_column() -> None:
    faults = [
        Fault("scores", "query_id", "no such column"),
        Fault("relevance", "item_id", "null item_id", 2, "query q"),
        Fault("scores", "item_id", "null item_id", 1),
        Fault("relevance", "item_id", "duplicate label", None),
    ]
    error = ContractError(iter(faults))
    assert error.faults == (faults[3], faults[1], faults[2], faults[0])
    assert str(error) == (
        "input refused, 4 faults:\n"
        "  - relevance.item_id: duplicate label\n"
        "  - relevance.item_id: null item_id [2 at fault] (for example query q)\n"
        "  - scores.item_id: null item_id [1 at fault]\n"
        "  - scores.query_id: no such column"
    )


def test_a_near_word_is_proposed_and_else_all_are_listed() -> None:
    assert did_you_mean("scroe", ["rank", "score"]) == "; did you mean 'score'?"
    assert did_you_mean("xyz", ["score", "rank"]) == "; known: rank, score"


def test_a_contract_error_survives_pickling() -> None:
    error = ContractError([Fault("scores", "score", "null score", 2, "query q1")])
    again = pickle.loads(pickle.dumps(error))
    assert (again.faults, str(again)) == (error.faults, str(error))
