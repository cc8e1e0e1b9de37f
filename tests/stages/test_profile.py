"""The profile: every measure at every depth, intervals and counts, against values worked out by hand."""

from __future__ import annotations

from math import log2, sqrt
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recallk_spark import Protocol, evaluate
from recallk_spark.schema import PROFILE
from tests import frames

Rows = dict[tuple[str, str, str, int], dict[str, Any]]
Z = 1.959963984540054

# q1: hits at ranks 1 and 3 of 3 relevant items, d is judged and not relevant; q2: a hit at rank 2 of 1;
# q3 is missing: 2 relevant items, nothing returned; u is not judged
SCORES = [
    ("r", "q1", "a", 9.0),
    ("r", "q1", "b", 8.0),
    ("r", "q1", "c", 7.0),
    ("r", "q1", "d", 6.0),
    ("r", "q2", "b", 2.0),
    ("r", "q2", "a", 1.0),
    ("r", "u", "a", 1.0),
]
RELEVANCE = [
    ("q1", "a", 2),
    ("q1", "c", 1),
    ("q1", "x", 1),
    ("q1", "d", 0),
    ("q2", "a", 1),
    ("q3", "y", 1),
    ("q3", "z", 1),
]


@pytest.fixture(scope="module")
def worked(spark: SparkSession) -> Rows:
    evaluation = evaluate(
        frames.scores(spark, SCORES),
        frames.relevance(spark, RELEVANCE),
        protocol=Protocol(cutoffs=(1, 2, 3), depth=4),
    )
    assert evaluation.profile().schema.simpleString() == PROFILE.simpleString()
    return frames.profile_rows(evaluation)


def values(rows: Rows, name: str, run: str = "r", part: str = "", value: str = "") -> list[Any]:
    """A column of one run and slice, by k from 1."""
    depth = max(k for _, _, _, k in rows)
    return [rows[run, part, value, k][name] for k in range(1, depth + 1)]


def test_there_is_a_row_for_every_depth(worked: Rows) -> None:
    assert sorted(worked) == [("r", "", "", k) for k in (1, 2, 3, 4)]
    assert {(row["relevance_set"], row["min_grade"]) for row in worked.values()} == {("all", 1.0)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # h is 1, 1, 2, 2 of 3 in q1; 0, 1, 1, 1 of 1 in q2; 0 of 2 in q3
        ("recall_macro", [(1 / 3) / 3, (1 / 3 + 1) / 3, (2 / 3 + 1) / 3, (2 / 3 + 1) / 3]),
        ("recall_micro", [1 / 6, 2 / 6, 3 / 6, 3 / 6]),
        # over min(|R|, k): 1/1, 1/2, 2/3, 2/3 in q1
        ("recall_capped_macro", [1 / 3, (1 / 2 + 1) / 3, (2 / 3 + 1) / 3, (2 / 3 + 1) / 3]),
        # q2 has 2 results, its precision still divides by k
        ("precision_macro", [1 / 3, (1 / 2 + 1 / 2) / 3, (2 / 3 + 1 / 3) / 3, (2 / 4 + 1 / 4) / 3]),
        # 2h / (k + |R|)
        ("f1_macro", [(2 / 4) / 3, (2 / 5 + 2 / 3) / 3, (4 / 6 + 2 / 4) / 3, (4 / 7 + 2 / 5) / 3]),
        ("hit_rate", [1 / 3, 2 / 3, 2 / 3, 2 / 3]),
        ("mrr", [1 / 3, (1 + 1 / 2) / 3, (1 + 1 / 2) / 3, (1 + 1 / 2) / 3]),
        # q1: (1/1) / 3, then (1/1 + 2/3) / 3; q2: (1/2) / 1
        ("map", [(1 / 3) / 3, (1 / 3 + 1 / 2) / 3, (5 / 9 + 1 / 2) / 3, (5 / 9 + 1 / 2) / 3]),
        # q1: gains 2 at 1 and 1 at 3, ideal 2, 1, 1; q2: gain 1 at 2, ideal 1; null off the cutoffs
        (
            "ndcg",
            [
                1 / 3,
                (2 / (2 + 1 / log2(3)) + 1 / log2(3)) / 3,
                ((2 + 1 / 2) / (2 + 1 / log2(3) + 1 / 2) + 1 / log2(3)) / 3,
                None,
            ],
        ),
        # judged items within k: 1, 1, 2, 3 in q1; 0, 1, 1, 1 in q2
        ("judged_macro", [1 / 3, (1 / 2 + 1 / 2) / 3, (2 / 3 + 1 / 3) / 3, (3 / 4 + 1 / 4) / 3]),
    ],
)
def test_a_measure_is_the_mean_over_the_counted_queries(worked: Rows, name: str, expected: list[float | None]) -> None:
    assert values(worked, name) == [
        None if value is None else pytest.approx(value, rel=0, abs=1e-15) for value in expected
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hits", [1, 2, 3, 3]),
        ("relevant", [6, 6, 6, 6]),
        ("retrieved", [2, 4, 5, 6]),
        ("queries", [3, 3, 3, 3]),
        ("queries_missing", [1, 1, 1, 1]),
        ("queries_no_relevant", [0, 0, 0, 0]),
        ("queries_unjudged", [1, 1, 1, 1]),
        ("queries_short", [1, 1, 2, 2]),
    ],
)
def test_a_count_stands_beside_the_measures(worked: Rows, name: str, expected: list[int]) -> None:
    assert values(worked, name) == expected


def test_intervals_are_those_of_the_formula_and_stay_within_zero_and_one(worked: Rows) -> None:
    # macro at 1: x = 1/3, 0, 0, mean 1/9, squares (4 + 1 + 1)/81, se^2 = 3/2 * 6/81 / 9 = 1/81
    first = worked["r", "", "", 1]
    assert first["recall_macro_low"] == 0.0
    assert first["recall_macro_high"] == pytest.approx(1 / 9 + Z / 9, rel=0, abs=1e-12)
    # micro at 1: h - |R|/6 = 1/2, -1/6, -1/3, squares 14/36, se^2 = 3/2 * 14/36 / 36
    assert first["recall_micro_low"] == 0.0
    assert first["recall_micro_high"] == pytest.approx(1 / 6 + Z * sqrt(21) / 36, rel=0, abs=1e-12)
    # macro at 3: x = 2/3, 1, 0, mean 5/9, squares 42/81, se^2 = 7/81: the interval would end at 1.13
    third = worked["r", "", "", 3]
    assert (third["recall_macro_low"], third["recall_macro_high"]) == (0.0, 1.0)


def test_no_interval_for_a_single_query_and_none_for_no_spread(spark: SparkSession) -> None:
    scores = [("r", "q1", "a", 1.0), ("r", "q2", "a", 1.0), ("r", "q3", "b", 1.0)]
    queries = frames.queries(spark, [("q1", "two"), ("q2", "two"), ("q3", "one")], columns=("part",))
    relevance = frames.relevance(spark, [("q1", "a"), ("q2", "a"), ("q3", "b"), ("q3", "c")])
    rows = frames.profile_rows(
        evaluate(
            frames.scores(spark, scores),
            relevance,
            queries=queries,
            slices=("part",),
            protocol=Protocol(cutoffs=(1,)),
        )
    )
    ends = ("recall_macro_low", "recall_macro_high", "recall_micro_low", "recall_micro_high")
    assert [rows["r", "part", "two", 1][name] for name in ends] == [1.0, 1.0, 1.0, 1.0]
    assert [rows["r", "part", "one", 1][name] for name in ends] == [None, None, None, None]
    # x = 1, 1, 1/2: mean 5/6, squares 1/6, se^2 = 3/2 * 1/6 / 9; h - 3/4 |R| = 1/4, 1/4, -1/2, se^2 = 3/2 * 3/8 / 16
    total = rows["r", "", "", 1]
    assert total["recall_macro_low"] == pytest.approx(5 / 6 - Z / 6, rel=0, abs=1e-12)
    assert total["recall_micro_low"] == pytest.approx(3 / 4 - Z * sqrt(9 / 256), rel=0, abs=1e-12)


# several min_grades


def test_each_min_grade_has_a_profile_of_its_own(spark: SparkSession) -> None:
    # at 0.5 as at 1, for no grade lies between; at 1 as above; at 2 only a of q1 is relevant,
    # so that q2 and q3 do not count; at 5 no query does
    evaluation = evaluate(
        frames.scores(spark, SCORES),
        frames.relevance(spark, RELEVANCE),
        protocol=Protocol(cutoffs=(1, 2, 3), depth=4, min_grade=(5, 1, 2, 0.5)),
    )
    profiles = frames.profiles(evaluation)
    assert sorted(profiles) == [0.5, 1.0, 2.0, 5.0]
    assert [sorted(rows) for rows in profiles.values()] == [[("r", "", "", k) for k in (1, 2, 3, 4)]] * 4
    for grade in (0.5, 1.0):
        assert values(profiles[grade], "recall_micro") == [1 / 6, 2 / 6, 3 / 6, 3 / 6]
        assert values(profiles[grade], "map") == pytest.approx([(1 / 3) / 3, (5 / 6) / 3, (19 / 18) / 3, (19 / 18) / 3])
        assert values(profiles[grade], "queries") == [3] * 4
        assert values(profiles[grade], "queries_no_relevant") == [0] * 4
    expected = {
        "recall_macro": [1.0] * 4,
        "recall_macro_low": [None] * 4,
        "precision_macro": [1.0, 1 / 2, 1 / 3, 1 / 4],
        "f1_macro": [1.0, 2 / 3, 2 / 4, 2 / 5],
        "judged_macro": [1.0, 1 / 2, 2 / 3, 3 / 4],
        "relevant": [1] * 4,
        "hits": [1] * 4,
        "retrieved": [1, 2, 3, 4],
        "queries": [1] * 4,
        "queries_missing": [0] * 4,
        "queries_no_relevant": [2] * 4,
        "queries_unjudged": [1] * 4,
        "queries_short": [0] * 4,
    }
    assert {name: values(profiles[2.0], name) for name in expected} == expected
    # whatever is relevant, every positive grade gains: 2 at rank 1 and 1 at rank 3 of q1, whose ideal is 2, 1, 1
    third = (2 + 1 / 2) / (2 + 1 / log2(3) + 1 / 2)
    assert values(profiles[2.0], "ndcg") == [1.0, pytest.approx(2 / (2 + 1 / log2(3))), pytest.approx(third), None]
    assert values(profiles[5.0], "recall_macro") == values(profiles[5.0], "recall_micro") == [None] * 4
    assert values(profiles[5.0], "queries") == [0] * 4
    assert values(profiles[5.0], "queries_no_relevant") == [3] * 4


def test_a_slice_without_a_query_in_the_run_is_there_at_every_min_grade(spark: SparkSession) -> None:
    evaluation = evaluate(
        frames.scores(spark, [("r", "q", "a", 1.0), ("s", "u", "a", 1.0)]),
        frames.relevance(spark, [("q", "a", 1), ("lost", "a", 2), ("unlisted", "a", 2)]),
        queries=frames.queries(spark, [("q", "de"), ("lost", "at"), ("new", "at")], columns=("land",)),
        slices=("land",),
        protocol=Protocol(cutoffs=(1,), min_grade=(1, 2), no_relevant="one"),
    )
    names = ("recall_macro", "hits", "relevant", "queries", "queries_missing", "queries_no_relevant")
    found = {
        (grade, *key[:3:2]): tuple(row[name] for name in names)
        for grade, rows in frames.profiles(evaluation).items()
        for key, row in rows.items()
    }
    # q and new have nothing relevant at 2, lost keeps its item; s answers no listed query
    assert found == {
        (1.0, "r", ""): (2 / 3, 1, 2, 3, 2, 1),
        (1.0, "r", "de"): (1.0, 1, 1, 1, 0, 0),
        (1.0, "r", "at"): (1 / 2, 0, 1, 2, 2, 1),
        (1.0, "s", ""): (1 / 3, 0, 2, 3, 3, 1),
        (1.0, "s", "de"): (0.0, 0, 1, 1, 1, 0),
        (1.0, "s", "at"): (1 / 2, 0, 1, 2, 2, 1),
        (2.0, "r", ""): (2 / 3, 0, 1, 3, 2, 2),
        (2.0, "r", "de"): (1.0, 0, 0, 1, 0, 1),
        (2.0, "r", "at"): (1 / 2, 0, 1, 2, 2, 1),
        (2.0, "s", ""): (2 / 3, 0, 1, 3, 3, 2),
        (2.0, "s", "de"): (1.0, 0, 0, 1, 1, 1),
        (2.0, "s", "at"): (1 / 2, 0, 1, 2, 2, 1),
    }


# which queries count

POLICY_SCORES = [("r", "found", "a", 1.0), ("r", "bare", "a", 1.0)]
POLICY_RELEVANCE = [("found", "a", 1), ("found", "b", 1), ("bare", "a", 0), ("lost", "a", 1), ("lost bare", "a", -1)]
# recall at 1 is 1/2 in found, 0 in lost, the no_relevant value in bare and lost bare; the relevant item of found
# is at rank 1
POLICIES = {
    # no_relevant, missing_queries: macro, micro, capped, map, precision, judged; queries, missing, no relevant, short
    ("exclude", "zero"): (1 / 4, 1 / 3, 1 / 2, 1 / 4, 1 / 2, 1 / 2, 2, 1, 2, 1),
    ("exclude", "exclude"): (1 / 2, 1 / 2, 1.0, 1 / 2, 1.0, 1.0, 1, 1, 2, 0),
    ("zero", "zero"): (1 / 8, 1 / 3, 1 / 4, 1 / 8, 1 / 4, 2 / 4, 4, 2, 2, 2),
    ("one", "zero"): (5 / 8, 1 / 3, 3 / 4, 1 / 8, 1 / 4, 2 / 4, 4, 2, 2, 2),
}


@pytest.mark.parametrize(("no_relevant", "missing_queries"), POLICIES)
def test_the_policies_decide_who_counts_and_what_a_bare_query_is_worth(
    spark: SparkSession, no_relevant: str, missing_queries: str
) -> None:
    evaluation = evaluate(
        frames.scores(spark, POLICY_SCORES),
        frames.relevance(spark, POLICY_RELEVANCE),
        protocol=Protocol(cutoffs=(1,), no_relevant=no_relevant, missing_queries=missing_queries),
    )
    row = frames.profile_rows(evaluation)["r", "", "", 1]
    measures = ("recall_macro", "recall_micro", "recall_capped_macro", "map", "precision_macro", "judged_macro")
    counts = ("queries", "queries_missing", "queries_no_relevant", "queries_short")
    expected = POLICIES[no_relevant, missing_queries]
    assert tuple(row[name] for name in measures) == expected[:6]
    assert tuple(row[name] for name in counts) == expected[6:]
    assert (row["hits"], row["queries_unjudged"]) == (1, 0)


@pytest.mark.parametrize(("no_relevant", "macro", "queries"), [("exclude", None, 0), ("zero", 0.0, 1), ("one", 1.0, 1)])
def test_a_mean_over_nothing_is_null_and_its_rows_are_there(
    spark: SparkSession, no_relevant: str, macro: float | None, queries: int
) -> None:
    evaluation = evaluate(
        frames.scores(spark, [("r", "bare", "a", 1.0)]),
        frames.relevance(spark, [("bare", "a", 0)]),
        protocol=Protocol(cutoffs=(1, 3), no_relevant=no_relevant),
    )
    rows = frames.profile_rows(evaluation)
    assert values(rows, "recall_macro") == [macro] * 3
    assert values(rows, "recall_micro") == [None] * 3
    assert values(rows, "recall_micro_low") == [None] * 3
    assert values(rows, "ndcg") == ([None] * 3 if macro is None else [0.0, None, 0.0])
    assert values(rows, "queries") == [queries] * 3
    assert values(rows, "queries_no_relevant") == [1] * 3
    assert values(rows, "hits") == [0] * 3


# runs, slices, lists of queries


def test_every_run_is_measured_against_the_same_judged_queries(spark: SparkSession) -> None:
    scores = [("r", "q", "a", 1.0), ("r", "p", "a", 1.0), ("s", "p", "b", 1.0), ("s", "u", "b", 1.0)]
    evaluation = evaluate(
        frames.scores(spark, scores),
        frames.relevance(spark, [("q", "a", 1), ("p", "a", 1), ("p", "b", 1)]),
        protocol=Protocol(cutoffs=(1,)),
    )
    rows = frames.profile_rows(evaluation)
    names = ("recall_macro", "recall_micro", "queries", "queries_missing", "queries_unjudged")
    assert {key: tuple(row[name] for name in names) for key, row in rows.items()} == {
        ("r", "", "", 1): ((1 + 1 / 2) / 2, 2 / 3, 2, 0, 0),
        ("s", "", "", 1): ((0 + 1 / 2) / 2, 1 / 3, 2, 1, 1),
    }


def test_slices_divide_the_listed_queries_and_a_slice_that_a_run_never_met_is_there(spark: SparkSession) -> None:
    queries = frames.queries(
        spark,
        [("q1", "de", "app"), ("q2", "de", "web"), ("q3", None, "web"), ("lost", "at", "web")],
        columns=("land", "device"),
    )
    relevance = [("q1", "a", 1), ("q2", "a", 1), ("q3", "a", 1), ("lost", "a", 1), ("unlisted", "a", 1)]
    scores = [("r", query, item, 1.0) for query, item in [("q1", "a"), ("q2", "b"), ("q3", "a"), ("unlisted", "a")]]
    evaluation = evaluate(
        frames.scores(spark, scores),
        frames.relevance(spark, relevance),
        queries=queries,
        slices=("land", "land*device"),
        protocol=Protocol(cutoffs=(1,)),
    )
    rows = frames.profile_rows(evaluation)
    names = ("recall_macro", "hits", "relevant", "retrieved", "queries", "queries_missing", "queries_unjudged")
    assert {key[1:3]: tuple(row[name] for name in names) for key, row in rows.items()} == {
        ("", ""): (2 / 4, 2, 4, 3, 4, 1, 0),
        ("land", "de"): (1 / 2, 1, 2, 2, 2, 0, 0),
        ("land", "at"): (0.0, 0, 1, 0, 1, 1, 0),
        ("land", "(null)"): (1.0, 1, 1, 1, 1, 0, 0),
        ("land*device", "de*app"): (1.0, 1, 1, 1, 1, 0, 0),
        ("land*device", "de*web"): (0.0, 0, 1, 1, 1, 0, 0),
        ("land*device", "at*web"): (0.0, 0, 1, 0, 1, 1, 0),
        ("land*device", "(null)*web"): (1.0, 1, 1, 1, 1, 0, 0),
    }


def test_a_listed_query_without_labels_is_judged_and_has_no_relevant_item(spark: SparkSession) -> None:
    evaluation = evaluate(
        frames.scores(spark, [("r", "q", "a", 1.0), ("r", "new", "a", 1.0), ("r", "unlisted", "a", 1.0)]),
        frames.relevance(spark, [("q", "a", 1)]),
        queries=frames.queries(spark, [("q",), ("new",)]),
        protocol=Protocol(cutoffs=(1,), no_relevant="zero"),
    )
    row = frames.profile_rows(evaluation)["r", "", "", 1]
    names = ("recall_macro", "queries", "queries_missing", "queries_no_relevant", "queries_unjudged", "queries_short")
    assert tuple(row[name] for name in names) == (1 / 2, 2, 0, 1, 0, 0)


# grades and repeats


def test_an_item_returned_twice_counts_once_and_its_copy_takes_a_place(spark: SparkSession) -> None:
    scores = [("r", "q", "a", 9.0), ("r", "q", "a", 8.0), ("r", "q", "b", 7.0)]
    relevance = frames.relevance(spark, [("q", "a", 1), ("q", "b", 1)])
    expected = {
        "occupy": ([1, 1, 2], [1.0, 1 / 2, 2 / 3], [1 / 2, 1 / 2, (1 + 2 / 3) / 2], [1, 2, 3]),
        "collapse": ([1, 2, 2], [1.0, 2 / 2, 2 / 3], [1 / 2, 1.0, 1.0], [1, 2, 2]),
    }
    for policy, (hits, judged, average_precision, retrieved) in expected.items():
        protocol = Protocol(cutoffs=(3,), duplicates=policy)
        rows = frames.profile_rows(evaluate(frames.scores(spark, scores), relevance, protocol=protocol))
        assert values(rows, "hits") == hits
        assert values(rows, "judged_macro") == judged
        assert values(rows, "map") == pytest.approx(average_precision, abs=1e-15)
        assert values(rows, "retrieved") == retrieved


def test_every_positive_grade_gains_in_ndcg_whatever_is_relevant(spark: SparkSession) -> None:
    scores = frames.scores(spark, [("r", "q", "a", 3.0), ("r", "q", "b", 2.0), ("r", "q", "c", 1.0)])
    relevance = frames.relevance(spark, [("q", "a", 0.5), ("q", "b", 3), ("q", "c", -1)])
    # ideal 3, 0.5; linear gains are the grades, exponential ones 2^g - 1: 7 and sqrt(2) - 1
    small = sqrt(2) - 1
    expected = {
        "linear": (0.5 + 3 / log2(3)) / (3 + 0.5 / log2(3)),
        "exponential": (small + 7 / log2(3)) / (7 + small / log2(3)),
    }
    for gain, ndcg in expected.items():
        protocol = Protocol(cutoffs=(2,), min_grade=2, gain=gain)
        rows = frames.profile_rows(evaluate(scores, relevance, protocol=protocol))
        assert values(rows, "ndcg")[1] == pytest.approx(ndcg, rel=0, abs=1e-12)
        assert values(rows, "hits") == [0, 1]
        assert values(rows, "relevant") == [1, 1]
        assert rows["r", "", "", 1]["min_grade"] == 2.0


def test_the_same_bits_come_out_of_one_partition_and_of_many(spark: SparkSession) -> None:
    # recalls of 1/3, 1/7 and 1/11: their sum depends on the order of addition
    scores = [("r", f"q{n}", "i0", float(n)) for n in range(60)]
    relevance = [(f"q{n}", f"i{m}", 1 + m % 3) for n in range(60) for m in range((3, 7, 11)[n % 3])]
    once, shuffled = (
        frames.profile_rows(
            evaluate(
                frames.scores(spark, scores[::step]).repartition(partitions),
                frames.relevance(spark, relevance[::step]).repartition(partitions),
                protocol=Protocol(cutoffs=(1, 2)),
            )
        )
        for partitions, step in ((1, 1), (7, -1))
    )
    assert once == shuffled
    # 20 queries each with a hit at rank 1
    assert once["r", "", "", 1]["recall_macro"] == pytest.approx((20 / 3 + 20 / 7 + 20 / 11) / 60, abs=1e-15)
