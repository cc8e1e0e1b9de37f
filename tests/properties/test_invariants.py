"""What holds for every input: bounds, curves that never fall, and the same bits however the rows are laid out."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from recallk_spark import Protocol, evaluate
from recallk_spark.schema import PROFILE
from tests import frames
from tests.golden.trec import qrels_rows, run_rows
from tests.properties.generated import Input, joined, some_inputs

NEVER_FALL = ("recall_macro", "recall_micro", "hits", "hit_rate", "mrr", "map", "retrieved", "queries_short")
MEASURES = [field.name for field in PROFILE if field.dataType.typeName() == "double" and field.name != "min_grade"]
SLICES = ("case", "land")
POLICIES = [
    {"no_relevant": "one", "duplicates": "occupy", "invalid_scores": "last"},
    {"no_relevant": "zero", "duplicates": "collapse", "invalid_scores": "drop", "gain": "exponential"},
    {"no_relevant": "exclude", "missing_queries": "exclude", "tie_break": "rank", "score_order": "asc"},
]


def generated(settings: dict[str, str]) -> tuple[Protocol, Input]:
    protocol = Protocol(cutoffs=(1, 3, 8), depth=12, **settings)
    rng = Random(str(sorted(settings.items())))
    inputs = some_inputs(rng, protocol, 25, ids="string", score_type="double", listed=True)
    return protocol, joined(inputs)


def evaluated(protocol: Protocol, tables: tuple[DataFrame, DataFrame, DataFrame | None]):
    scores, relevance, queries = tables
    slices = SLICES if queries is not None else ()
    return evaluate(scores, relevance, protocol=protocol, queries=queries, slices=slices)


def tables_of(spark: SparkSession, given: Input) -> tuple[DataFrame, DataFrame, DataFrame]:
    queries = [(row["query_id"], row["case"], row["land"]) for row in given.queries or ()]
    return (
        frames.scores(spark, given.scores),
        frames.relevance(spark, given.relevance),
        frames.queries(spark, queries, columns=("case", "land")),
    )


@pytest.mark.parametrize("settings", POLICIES, ids=lambda settings: settings["no_relevant"])
def test_measures_stay_in_bounds_and_curves_never_fall(spark: SparkSession, settings: dict[str, str]) -> None:
    protocol, given = generated(settings)
    curves: dict[tuple, list[dict[str, Any]]] = defaultdict(list)
    for (*group, _), row in sorted(frames.profile_rows(evaluated(protocol, tables_of(spark, given))).items()):
        curves[tuple(group)].append(row)
    assert len(curves) > 50
    for group, rows in curves.items():
        assert [row["k"] for row in rows] == list(range(1, protocol.depth + 1))
        for name in MEASURES:
            values = [row[name] for row in rows if row[name] is not None]
            assert all(0 <= value <= 1 for value in values), (group, name)
        for name in NEVER_FALL:
            values = [row[name] for row in rows]
            assert values == sorted(values, key=lambda value: value or 0), (group, name)
        for row in rows:
            if row["recall_macro_low"] is not None:
                assert row["recall_macro_low"] <= row["recall_macro"] <= row["recall_macro_high"], group
            if row["recall_micro_low"] is not None:
                assert row["recall_micro_low"] <= row["recall_micro"] <= row["recall_micro_high"], group


@pytest.mark.parametrize("settings", POLICIES, ids=lambda settings: settings["no_relevant"])
def test_order_and_splitting_of_the_input_change_no_bit(spark: SparkSession, settings: dict[str, str]) -> None:
    protocol, given = generated(settings)
    expected = all_bits(evaluated(protocol, tables_of(spark, given)))

    Random(1).shuffle(given.scores)
    Random(2).shuffle(given.relevance)
    shuffled = tuple(frame.repartition(5) for frame in tables_of(spark, given))
    assert all_bits(evaluated(protocol, shuffled)) == expected

    parts = [Input(given.scores[n::3], given.relevance[n::3], (given.queries or [])[n::3]) for n in (2, 0, 1)]
    split = tuple(reduce(DataFrame.unionByName, one) for one in zip(*(tables_of(spark, p) for p in parts), strict=True))
    assert all_bits(evaluated(protocol, split)) == expected


def test_the_number_of_partitions_changes_no_bit(spark: SparkSession) -> None:
    protocol, given = generated(POLICIES[1])
    results = []
    for partitions in (1, 7, 64):
        with shuffle_partitions(spark, partitions):
            results.append(all_bits(evaluated(protocol, tables_of(spark, given))))
    assert results[0] == results[1] == results[2]


def test_the_number_of_partitions_changes_no_bit_of_a_real_run(spark: SparkSession, golden: Path) -> None:
    folder = golden / "cast19_runs"
    scores = frames.scores(spark, run_rows(folder / "bert_base_run_raw.trec"))
    relevance = frames.relevance(spark, qrels_rows(folder / "qrels.cast2019.txt"))
    protocol = Protocol.from_settings({"cutoffs": (1, 10, 100)}, preset="trec_eval")
    results = []
    for partitions in (1, 7, 64):
        with shuffle_partitions(spark, partitions):
            results.append(all_bits(evaluated(protocol, (scores, relevance, None))))
    assert len(results[0]) == 100 + 173
    assert results[0] == results[1] == results[2]


@contextmanager
def shuffle_partitions(spark: SparkSession, count: int) -> Iterator[None]:
    """Exactly `count` partitions after every shuffle, not merged again at run time."""
    changed = {
        "spark.sql.shuffle.partitions": str(count),
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    before = {key: spark.conf.get(key) for key in changed}
    for key, value in changed.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def all_bits(evaluation: Any) -> list[str]:
    """Every row of the profile and of the per-query table, doubles by their bits, sorted."""
    rows = [*evaluation.profile().collect(), *evaluation.per_query().collect()]
    return sorted(repr(bits(row.asDict())) for row in rows)


def bits(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, dict):
        return sorted((key, bits(inner)) for key, inner in value.items())
    return [bits(inner) for inner in value] if isinstance(value, list) else value
