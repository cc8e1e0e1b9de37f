"""Ranks by counting are those of sorting, to the bit, for every type, order and tie that could tell them apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from recallk_spark import ContractError, Protocol, evaluate
from recallk_spark.chain import Chain, Inputs
from recallk_spark.counting import count_lists
from recallk_spark.judging import label_queries
from recallk_spark.lists import LISTS
from recallk_spark.plans import Plan
from tests import frames

INF = math.inf


def near(value: float, steps: int) -> list[float]:
    """Neighbouring doubles on both sides of a value."""
    up, down = [value], [value]
    for _ in range(steps):
        up.append(math.nextafter(up[-1], INF))
        down.append(math.nextafter(down[-1], -INF))
    return up + down[1:]


DOUBLES = [0.0, -0.0, INF, -INF, 1e300, -1e300, 5e-324, -5e-324, 2.0**53, *near(0.3, 3), *near(1.0, 2), *near(-7.5, 2)]
LONGS = [2**53, 2**53 + 1, 2**53 + 2, -(2**63), 2**63 - 1, 2**63 - 2, 0, -1, 1]
WORDS = ["", "a", "aa", "A", "ä", "z", "\U0001f600", "￿", "10", "9", "x" * 300, "x" * 300 + "y", "x" * 299 + "z"]

VALUES: dict[str, Sequence[Any]] = {
    "double": DOUBLES,
    "float": [0.0, -0.0, INF, -INF, 1.0, 1.0000001, 0.99999994, 3e38, 1e-45],
    "bigint": LONGS,
    "decimal(38,18)": [Decimal(text) for text in ("0", "1e-18", "2e-18", "-1e-18", "12345678901234567890", "0.3")],
}
SETTINGS: list[dict[str, Any]] = [
    {},
    {"tie_break": "item_desc"},
    {"score_order": "asc"},
    {"score_order": "asc", "tie_break": "item_desc", "cutoffs": (1, 3), "depth": 7},
    {"score_precision": "float32"},
    {"invalid_scores": "last"},
    {"invalid_scores": "last", "score_order": "asc", "tie_break": "item_desc"},
    {"invalid_scores": "drop", "cutoffs": (9,)},
    {"tie_break": "rank", "cutoffs": (4,), "depth": 4},
]


def adversarial(score_type: str, items: Sequence[Any], *, invalid: bool, seed: int) -> tuple[list[tuple], list[tuple]]:
    """Scores and labels of three queries in two runs, full of ties, copies and neighbours."""
    draw = Random(seed)
    values = [*VALUES[score_type], *([None] if invalid else [])]
    scores = [
        (run, query, draw.choice(items), draw.choice(values), draw.randint(-2, 3))
        for run in ("r", "s")
        for query in ("p", "q", "unjudged")
        for _ in range(draw.choice([1, 25, 60]))
    ]
    scores += draw.sample(scores, len(scores) // 5)  # copies that are equal in everything
    labels = [(query, item, draw.choice([0, 1, 2])) for query in ("p", "q", "missing") for item in items[::2]]
    return scores, labels


@pytest.mark.parametrize("settings", SETTINGS, ids=[" ".join(map(str, one.values())) or "default" for one in SETTINGS])
@pytest.mark.parametrize("score_type", VALUES)
def test_counting_gives_the_bits_of_sorting(spark: SparkSession, score_type: str, settings: dict[str, Any]) -> None:
    seed = SETTINGS.index(settings) + list(VALUES).index(score_type)
    scores, labels = adversarial(score_type, (WORDS, LONGS)[seed % 2], invalid="invalid_scores" in settings, seed=seed)
    inputs = Inputs(frames.scores(spark, scores, score_type=score_type), frames.relevance(spark, labels), None, ())
    protocol = Protocol(**{"cutoffs": (1, 5, 100), **settings})
    sorted_, counted = (
        sorted(Chain(inputs, protocol, plan=plan).lists.collect()) for plan in (Plan.WINDOW, Plan.PRUNED)
    )
    assert counted == sorted_
    assert any(row["ranks"] for row in counted)


def test_a_rank_is_one_more_than_the_number_of_results_above(spark: SparkSession) -> None:
    rows = [
        ("r", "q", "a", 0.9),
        ("r", "q", "b", 0.9),
        ("r", "q", "b", 0.9),
        ("r", "q", "c", 0.5),
        ("r", "q", "b", 0.1),
    ]
    rows += [("r", "q", "d", 0.5), ("r", "unjudged", "a", 1.0), ("r", "unjudged", "b", 0.5)]
    scores = frames.scores(spark, rows)
    labels = label_queries(conformed(frames.relevance(spark, [("q", "b", 2), ("q", "d", 0)])), protocol=Protocol())
    lists = count_lists(scores, scores, labels, protocol=Protocol(cutoffs=(5,)))
    assert lists.columns == list(LISTS)
    found = {
        row["query_id"]: (row["num_retrieved"], row["ranks"], row["grades"], row["repeats"]) for row in lists.collect()
    }
    # a, b, b, c, d, b: the item b counts at rank 2; of its copies, the one at rank 3 is within depth, that at 6 is not
    assert found == {"q": (5, [2, 5], [2.0, 0.0], 1), "unjudged": (2, [], [], 0)}


def conformed(relevance: DataFrame) -> DataFrame:
    return relevance.selectExpr("*", "true as listed")


# input that changes between the scans


def test_a_judged_result_that_only_the_first_scan_met_stops_the_job(spark: SparkSession) -> None:
    rows = [("r", "q", "a", 0.9), ("r", "q", "b", 0.8)]
    labels = label_queries(conformed(frames.relevance(spark, [("q", "b", 1)])), protocol=Protocol())
    first, second = frames.scores(spark, rows), frames.scores(spark, rows[:1])
    with pytest.raises(frames.SPARK_ERRORS, match="changed while they were read twice"):
        count_lists(first, second, labels, protocol=Protocol()).collect()


@frames.COUNTED_ON_THE_WAY
def test_a_row_that_only_one_scan_met_is_reported(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Chain._conformed_scores

    def losing(chain: Chain, *, ahead: bool = False) -> DataFrame:
        if ahead:
            fewer = replace(chain.inputs, scores=chain.inputs.scores.where("item_id != 'x'"))
            chain = replace(chain, inputs=fewer)
        return whole(chain, ahead=ahead)

    monkeypatch.setattr(Chain, "_conformed_scores", losing)
    scores = frames.scores(spark, [("r", "q", "a", 0.9), ("r", "q", "x", 0.1)])
    evaluation = evaluate(scores, frames.relevance(spark, [("q", "a", 1)]), plan="pruned")
    with pytest.raises(ContractError, match="changed while they were read: 1 rows, then 2"):
        evaluation.report()


def test_a_first_scan_that_has_nothing_to_look_for_is_no_change(spark: SparkSession) -> None:
    scores = frames.scores(spark, [("r", "q", "a", 0.9)])
    no_labels = frames.relevance(spark, [("q", "a", 1)]).where("false")
    with pytest.raises(ContractError, match="no labels at all") as refused:
        evaluate(scores, no_labels, plan="pruned").report()
    assert "changed" not in str(refused.value)


# lists of any shape


def test_a_list_with_more_judged_results_than_depth_is_cut_like_any_other(spark: SparkSession, tmp_path: Path) -> None:
    items = list(range(5000))
    draw = Random(7)
    pq.write_table(
        pa.table({"query_id": [1] * 5000, "item_id": items, "score": [draw.randint(0, 40) / 8 for _ in items]}),
        tmp_path / "scores.parquet",
    )
    pq.write_table(pa.table({"query_id": [1] * 4000, "item_id": items[:4000]}), tmp_path / "relevance.parquet")
    tables = [spark.read.parquet(str(tmp_path / f"{name}.parquet")) for name in ("scores", "relevance")]
    protocol = Protocol(cutoffs=(10, 100), depth=100)
    sorted_, counted = (evaluate(*tables, protocol=protocol, plan=plan) for plan in ("window", "pruned"))
    assert frames.per_query_rows(counted) == frames.per_query_rows(sorted_)
