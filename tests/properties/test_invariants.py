"""What holds for every input: bounds, curves that never fall, and the same bits however the rows are laid out."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from recallk_spark import Evaluation, Protocol, evaluate
from recallk_spark.schema import PROFILE
from tests import frames
from tests.golden.trec import qrels_rows, run_rows
from tests.properties.generated import Input, joined, some_inputs

NEVER_FALL = ("recall_macro", "recall_micro", "hits", "hit_rate", "mrr", "map", "retrieved", "queries_short")
MEASURES = [field.name for field in PROFILE if field.dataType.typeName() == "double" and field.name != "min_grade"]
SLICES = ("case", "land")
POLICIES = [
    {"no_relevant": "one", "duplicates": "occupy", "invalid_scores": "last", "missing_queries": "exclude"},
    {"no_relevant": "zero", "duplicates": "collapse", "invalid_scores": "drop", "gain": "exponential"},
]
Tables = tuple[DataFrame, DataFrame, DataFrame | None]


@dataclass(frozen=True)
class Generated:
    """A generated input, and its profile and per-query rows as the session's own settings give them."""

    protocol: Protocol
    given: Input
    rows: list[dict[str, Any]]


@pytest.fixture(scope="module", params=POLICIES, ids=["one", "zero"])
def generated(spark: SparkSession, request: pytest.FixtureRequest) -> Generated:
    protocol = Protocol(cutoffs=(1, 3, 8), depth=12, **request.param)
    given = joined(some_inputs(Random("25 inputs"), protocol, 25, ids="string", score_type="double", listed=True))
    return Generated(protocol, given, all_rows(protocol, tables_of(spark, given)))


def tables_of(spark: SparkSession, given: Input) -> Tables:
    queries = [(row["query_id"], row["case"], row["land"]) for row in given.queries or ()]
    return (
        frames.scores(spark, given.scores),
        frames.relevance(spark, given.relevance),
        frames.queries(spark, queries, columns=("case", "land")),
    )


def all_rows(protocol: Protocol, tables: Tables) -> list[dict[str, Any]]:
    """Every row of the profile and of the per-query table."""
    evaluation = evaluation_of(protocol, tables)
    profile, per_query = frames.side_by_side(rows_of, (evaluation.profile, evaluation.per_query))
    return profile + per_query


def evaluation_of(protocol: Protocol, tables: Tables) -> Evaluation:
    scores, relevance, queries = tables
    slices = SLICES if queries is not None else ()
    return evaluate(scores, relevance, protocol=protocol, queries=queries, slices=slices)


def rows_of(table: Callable[[], DataFrame]) -> list[dict[str, Any]]:
    return [row.asDict() for row in table().collect()]


def same_bits(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    """Whether the sorted rows are equal, doubles bit by bit."""
    return sorted(repr(bits(row)) for row in one) == sorted(repr(bits(row)) for row in other)


def bits(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, dict):
        return sorted((key, bits(inner)) for key, inner in value.items())
    return [bits(inner) for inner in value] if isinstance(value, list) else value


def exactly(partitions: int) -> dict[str, str]:
    """That many partitions after every shuffle, not merged again at run time."""
    return {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }


def curves(generated: Generated) -> dict[tuple, list[dict[str, Any]]]:
    """The profile rows of each run and slice, by ascending k."""
    found: dict[tuple, list[dict[str, Any]]] = defaultdict(list)
    for row in generated.rows:
        if "k" in row:
            found[row["run_id"], row["slice"], row["slice_value"]].append(row)
    return {group: sorted(rows, key=lambda row: row["k"]) for group, rows in found.items()}


def test_every_curve_has_every_depth(generated: Generated) -> None:
    assert len(curves(generated)) > 50
    for group, rows in curves(generated).items():
        assert [row["k"] for row in rows] == list(range(1, 13)), group


def test_measures_stay_between_0_and_1_and_inside_their_intervals(generated: Generated) -> None:
    for group, rows in curves(generated).items():
        for row in rows:
            assert all(0 <= row[name] <= 1 for name in MEASURES if row[name] is not None), (group, row)
            for name in ("recall_macro", "recall_micro"):
                low, mean, high = (row[name + end] for end in ("_low", "", "_high"))
                if mean is None or row["queries"] < 2:
                    assert (low, high) == (None, None), (group, row)
                else:
                    assert low <= mean <= high, (group, row)


def test_recall_and_its_like_never_fall_as_k_grows(generated: Generated) -> None:
    for group, rows in curves(generated).items():
        for name in NEVER_FALL:
            values = [row[name] for row in rows if row[name] is not None]
            assert values == sorted(values), (group, name)
            assert len(values) in (0, len(rows)), (group, name)


def test_a_single_partition_changes_no_bit(spark: SparkSession, generated: Generated) -> None:
    with frames.settings(spark, exactly(1)):
        again = all_rows(generated.protocol, tables_of(spark, generated.given))
    assert same_bits(again, generated.rows)


def test_the_order_of_rows_and_seven_partitions_change_no_bit(spark: SparkSession, generated: Generated) -> None:
    given = Input(*(list(rows) for rows in (generated.given.scores, generated.given.relevance)))
    given.queries = generated.given.queries
    Random(1).shuffle(given.scores)
    Random(2).shuffle(given.relevance)
    with frames.settings(spark, exactly(7)):
        again = all_rows(generated.protocol, tables_of(spark, given))
    assert same_bits(again, generated.rows)


def test_splitting_the_input_changes_no_bit(spark: SparkSession, generated: Generated) -> None:
    given = generated.given
    parts = [Input(given.scores[n::3], given.relevance[n::3], (given.queries or [])[n::3]) for n in (2, 0, 1)]
    pieces = zip(*(tables_of(spark, part) for part in parts), strict=True)
    scores, relevance, queries = (reduce(DataFrame.unionByName, frames_of_one) for frames_of_one in pieces)
    assert same_bits(all_rows(generated.protocol, (scores, relevance, queries)), generated.rows)


@pytest.mark.parametrize(
    ("generated", "no_relevant"),
    [(policies, no_relevant) for policies in POLICIES for no_relevant in (policies["no_relevant"], "exclude")],
    indirect=["generated"],
    ids=["one", "one-exclude", "zero", "zero-exclude"],
)
def test_each_min_grade_of_several_has_the_bits_it_has_alone(
    spark: SparkSession, generated: Generated, no_relevant: str
) -> None:
    protocol, tables = replace(generated.protocol, no_relevant=no_relevant), tables_of(spark, generated.given)
    several = evaluation_of(replace(protocol, min_grade=(0.7, 1, 2)), tables)
    alone = [evaluation_of(replace(protocol, min_grade=grade), tables) for grade in (0.7, 1.0, 2.0)]
    # the per-query table is that of the lowest
    read = [one.profile for one in (several, *alone)] + [one.per_query for one in (several, alone[0])]
    together, *profiles, per_query, per_query_alone = frames.side_by_side(rows_of, read)
    assert len(together) > 3 * 50 * protocol.depth
    for grade, rows in zip((0.7, 1.0, 2.0), profiles, strict=True):
        assert same_bits([row for row in together if row["min_grade"] == grade], rows)
    assert len(per_query) > 50
    assert same_bits(per_query, per_query_alone)


def test_the_number_of_partitions_changes_no_bit_of_a_real_run(spark: SparkSession, golden: Path) -> None:
    folder = golden / "cast19_runs"
    labels = qrels_rows(folder / "qrels.cast2019.txt")
    judged = {query for query, *_ in labels}
    results = [row for row in run_rows(folder / "bert_base_run_raw.trec") if row[1] in judged]
    scores, relevance = frames.scores(spark, results), frames.relevance(spark, labels)
    protocol = Protocol.from_settings({"cutoffs": (1, 10, 100)}, preset="trec_eval")
    answers = []
    for partitions in (1, 7, 64):
        with frames.settings(spark, exactly(partitions)):
            answers.append(all_rows(protocol, (scores, relevance, None)))
    assert len(answers[0]) == 100 + 173
    assert same_bits(answers[0], answers[1])
    assert same_bits(answers[0], answers[2])
