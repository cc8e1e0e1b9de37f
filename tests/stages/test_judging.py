"""Where results meet labels: the labels of each query, which queries are evaluated, and what a result is worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from recallk_spark import Protocol
from recallk_spark.contract import conform_queries, conform_relevance
from recallk_spark.judging import LABELS, TOPICS, judge, label_queries, may_be_judged, topics
from recallk_spark.schema import JUDGED
from tests import frames

LABELS_SCHEMA = (  # but for item_bits, which have a test of their own
    "query_id string, items array<string>, grades array<double>, num_relevant int, num_relevant_each array<int>, "
    "num_judged int, ideal_grades array<double>, repeated_labels bigint, conflicting_labels bigint"
)
RANKED_SCHEMA = "run_id string, query_id string, item_id string, rank int, repeats int"
JUDGED_SCHEMA = (
    "run_id string, query_id string, item_id string, rank int, grade double, hit_number int, num_relevant int"
)


def same(found: DataFrame, rows: Sequence[tuple], columns: str) -> None:
    expected = found.sparkSession.createDataFrame(rows, columns)
    assert_df_equality(found, expected, ignore_row_order=True, ignore_nullable=True)


def labels(relevance: DataFrame, *, refuse: bool = True, **settings: object) -> DataFrame:
    protocol = Protocol(**{"cutoffs": (1,), "depth": 10, **settings})
    return label_queries(conform_relevance(relevance, protocol=protocol), protocol=protocol, refuse=refuse)


def known(relevance: DataFrame, *, refuse: bool = True, **settings: object) -> DataFrame:
    return labels(relevance, refuse=refuse, **settings).drop("item_bits")


def judged(ranked: list[tuple], relevance: DataFrame, **settings: object) -> DataFrame:
    protocol = Protocol(**{"cutoffs": (1,), "depth": 10, **settings})
    results = relevance.sparkSession.createDataFrame(ranked, RANKED_SCHEMA)
    return judge(results, labels(relevance, **settings), protocol=protocol).select(*JUDGED.names)


# labels


def test_the_labels_of_a_query_stand_side_by_side_best_grade_first_then_by_item(spark: SparkSession) -> None:
    relevance = frames.relevance(
        spark, [("q", "c", 1), ("q", "a", 3), ("q", "b", 1), ("q", "d", 0), ("p", "a", 2), ("q", "e", 0.5)]
    )
    found = labels(relevance)
    assert found.columns == list(LABELS)
    same(
        found.drop("item_bits"),
        [
            ("q", ["a", "b", "c", "e", "d"], [3.0, 1.0, 1.0, 0.5, 0.0], 3, [3], 5, [3.0, 1.0, 1.0, 0.5], 0, 0),
            ("p", ["a"], [2.0], 1, [1], 1, [2.0], 0, 0),
        ],
        LABELS_SCHEMA,
    )


def test_relevant_is_a_grade_of_at_least_min_grade_and_fractions_are_never_truncated(spark: SparkSession) -> None:
    relevance = frames.relevance(spark, [("q", "a", 1), ("q", "b", 0.999), ("q", "c", 1.5), ("q", "d", 0)])
    columns = ("num_relevant", "num_judged", "ideal_grades")
    for min_grade, num_relevant in [(1, 2), (0.999, 3), (1.5, 1), (2, 0), (1e-9, 3)]:
        same(
            labels(relevance, min_grade=min_grade).select(*columns),
            [(num_relevant, 4, [1.5, 1.0, 0.999])],
            "num_relevant int, num_judged int, ideal_grades array<double>",
        )


def test_how_many_are_relevant_is_known_at_every_min_grade_and_first_at_the_lowest(spark: SparkSession) -> None:
    rows = [("q", "a", 3), ("q", "b", 1), ("q", "b", 1.5), ("q", "c", 0.999), ("p", "a", 1), ("n", "a", -1)]
    same(
        labels(frames.relevance(spark, rows), min_grade=(3, 1, 1.5)).select(
            "query_id", "num_relevant", "num_relevant_each"
        ),
        [("q", 2, [2, 2, 1]), ("p", 1, [1, 0, 0]), ("n", 0, [0, 0, 0])],
        "query_id string, num_relevant int, num_relevant_each array<int>",
    )


def test_a_negative_grade_is_a_label_that_judges_nothing(spark: SparkSession) -> None:
    relevance = frames.relevance(spark, [("q", "a", -1), ("q", "b", 0), ("p", "a", -0.5)])
    same(
        known(relevance),
        [("q", ["b"], [0.0], 0, [0], 2, [], 0, 0), ("p", [], [], 0, [0], 1, [], 0, 0)],
        LABELS_SCHEMA,
    )


def test_a_pair_labelled_twice_has_its_highest_grade_and_is_counted(spark: SparkSession) -> None:
    # a: three labels, two of them repeats, at odds; b: one repeat that agrees; c: judged by one label of two
    rows = [("q", "a", 0), ("q", "a", 2), ("q", "a", 1), ("q", "b", 1), ("q", "b", 1), ("q", "c", -1), ("q", "c", 0)]
    same(
        known(frames.relevance(spark, rows)),
        [("q", ["a", "b", "c"], [2.0, 1.0, 0.0], 2, [2], 3, [2.0, 1.0], 4, 2)],
        LABELS_SCHEMA,
    )


def test_repeats_are_counted_where_they_are_not_allowed_and_nothing_stops(spark: SparkSession) -> None:
    relevance = frames.relevance(spark, [("q", "a", 0), ("q", "a", 2), ("q", "b", 1)])
    same(
        known(relevance, duplicate_relevance="error", refuse=False),
        [("q", ["a", "b"], [2.0, 1.0], 2, [2], 2, [2.0, 1.0], 1, 1)],
        LABELS_SCHEMA,
    )


def test_the_ideal_list_is_cut_at_depth_and_the_labels_are_not(spark: SparkSession) -> None:
    relevance = frames.relevance(spark, [("q", "a", 1), ("q", "b", 4), ("q", "c", 2), ("q", "d", 3)])
    same(
        known(relevance, depth=2),
        [("q", ["b", "d", "c", "a"], [4.0, 3.0, 2.0, 1.0], 4, [4], 4, [4.0, 3.0], 0, 0)],
        LABELS_SCHEMA,
    )


@pytest.mark.parametrize("item", [str, lambda number: number * 2**40 - 2**50], ids=["string", "bigint"])
def test_bits_say_yes_to_every_judged_item_and_no_to_most_others(spark: SparkSession, item: Any) -> None:
    few, many = range(0, 4000, 2000), range(0, 4000, 20)
    rows = [("few", item(number), 0) for number in few]
    rows += [("many", item(number), 1) for number in many]
    rows += [("none", item(number), -1) for number in few]
    results = [(query, item(number)) for query in ("few", "many", "none") for number in range(4000)]
    asked = spark.createDataFrame(results, ["query_id", "item_id"])
    yes: dict[str, set[Any]] = {"few": set(), "many": set(), "none": set()}
    for row in asked.join(labels(frames.relevance(spark, rows)), on="query_id").where(may_be_judged()).collect():
        yes[row["query_id"]].add(row["item_id"])
    assert yes["few"] >= {item(number) for number in few}
    assert len(yes["few"]) < 4000 * 2 / 64 * 1.5  # each item sets one bit of 64
    assert yes["many"] >= {item(number) for number in many}
    assert yes["none"] == set()


# results


def test_every_result_gets_its_grade_and_the_hits_are_numbered_down_each_list(spark: SparkSession) -> None:
    relevance = frames.relevance(spark, [("q", "a", 1), ("q", "b", 2), ("q", "c", 0), ("q", "x", 1), ("p", "a", 1)])
    ranked = [
        ("r", "q", "d", 1, None),
        ("r", "q", "b", 2, None),
        ("r", "q", "c", 3, None),
        ("r", "q", "a", 4, None),
        ("r", "p", "b", 1, None),
        ("s", "q", "a", 1, None),
    ]
    found = judged(ranked, relevance)
    assert found.columns == JUDGED.names
    same(
        found,
        [
            ("r", "q", "d", 1, None, None, 3),
            ("r", "q", "b", 2, 2.0, 1, 3),
            ("r", "q", "c", 3, 0.0, None, 3),
            ("r", "q", "a", 4, 1.0, 2, 3),
            ("r", "p", "b", 1, None, None, 1),
            ("s", "q", "a", 1, 1.0, 1, 3),
        ],
        JUDGED_SCHEMA,
    )


def test_a_hit_is_a_grade_of_at_least_min_grade(spark: SparkSession) -> None:
    relevance = frames.relevance(spark, [("q", "a", 1.5), ("q", "b", 2), ("q", "c", -1)])
    ranked = [("r", "q", "a", 1, None), ("r", "q", "b", 2, None), ("r", "q", "c", 3, None)]
    same(
        judged(ranked, relevance, min_grade=2),
        [
            ("r", "q", "a", 1, 1.5, None, 1),
            ("r", "q", "b", 2, 2.0, 1, 1),
            ("r", "q", "c", 3, None, None, 1),
        ],
        JUDGED_SCHEMA,
    )


def test_of_several_min_grades_the_lowest_decides_what_a_hit_is(spark: SparkSession) -> None:
    relevance = frames.relevance(spark, [("q", "a", 1.5), ("q", "b", 2), ("q", "c", 0.7)])
    ranked = [("r", "q", "a", 1, None), ("r", "q", "b", 2, None), ("r", "q", "c", 3, None)]
    same(
        judged(ranked, relevance, min_grade=(2, 1)).select("item_id", "hit_number", "num_relevant"),
        [("a", 1, 2), ("b", 2, 2), ("c", None, 2)],
        "item_id string, hit_number int, num_relevant int",
    )


def test_an_item_returned_twice_is_one_hit_at_its_best_position(spark: SparkSession) -> None:
    relevance = frames.relevance(spark, [("q", "a", 1), ("q", "b", 1)])
    ranked = [("r", "q", "c", 1, None), ("r", "q", "a", 2, None), ("r", "q", "a", 3, None), ("r", "q", "b", 4, None)]
    same(
        judged(ranked, relevance).select("rank", "grade", "hit_number"),
        [(1, None, None), (2, 1.0, 1), (3, 1.0, None), (4, 1.0, 2)],
        "rank int, grade double, hit_number int",
    )


def test_a_query_without_labels_and_a_result_without_a_rank_stay_in(spark: SparkSession) -> None:
    relevance = frames.relevance(spark, [("q", "a", 1)])
    ranked = [
        ("r", "u", "a", 1, None),
        ("r", "q", "a", None, None),
        ("r", "q", "b", 1, None),
        ("s", "q", None, None, 0),
    ]
    same(
        judged(ranked, relevance),
        [
            ("r", "u", "a", 1, None, None, None),
            ("r", "q", "a", None, None, None, 1),
            ("r", "q", "b", 1, None, None, 1),
            ("s", "q", None, None, None, None, 1),
        ],
        JUDGED_SCHEMA,
    )


def test_ids_that_are_integers_meet_as_numbers(spark: SparkSession) -> None:
    # as doubles the two results would be one item
    relevance = frames.relevance(spark, [(1, 2**53, 1), (1, 7, 0)])
    ranked = [("r", 1, 2**53 + 1, 1, None), ("r", 1, 2**53, 2, None)]
    results = spark.createDataFrame(ranked, "run_id string, query_id bigint, item_id bigint, rank int, repeats int")
    found = judge(results, labels(relevance), protocol=Protocol()).select("item_id", "grade", "hit_number")
    same(found, [(2**53 + 1, None, None), (2**53, 1.0, 1)], "item_id bigint, grade double, hit_number int")


def test_strings_that_look_like_one_number_are_two_items(spark: SparkSession) -> None:
    relevance = frames.relevance(spark, [("1", "007", 1)])
    ranked = [("r", "1", "7", 1, None), ("r", "1", "007", 2, None), ("r", "01", "007", 1, None)]
    same(
        judged(ranked, relevance).select("query_id", "item_id", "hit_number"),
        [("1", "7", None), ("1", "007", 1), ("01", "007", None)],
        "query_id string, item_id string, hit_number int",
    )


# topics

TOPICS_SCHEMA = (
    "query_id string, listed boolean, copies bigint, num_relevant int, num_relevant_each array<int>, num_judged int, "
    "ideal_grades array<double>, repeated_labels bigint, conflicting_labels bigint"
)


def listed_topics(
    relevance: DataFrame, queries: DataFrame | None, slices: tuple[str, ...] = (), **settings: object
) -> DataFrame:
    """Topics with their slices as an array of entries, which can be compared."""
    conformed = None if queries is None else conform_queries(queries, slices=slices)
    labelled = labels(relevance, **settings)
    found = topics(labelled, conformed, slices=slices, protocol=Protocol(**settings), refuse=False)
    assert found.columns == list(TOPICS)
    return found.withColumn("slices", F.sort_array(F.map_entries("slices")))


def test_without_a_list_of_queries_the_labelled_ones_are_evaluated(spark: SparkSession) -> None:
    relevance = frames.relevance(spark, [("q", "a", 1), ("q", "b", 0), ("p", "a", -1)])
    found = listed_topics(relevance, None)
    same(
        found.where("size(slices) = 0").drop("slices"),
        [("q", True, 1, 1, [1], 2, [1.0], 0, 0), ("p", True, 1, 0, [0], 1, [], 0, 0)],
        TOPICS_SCHEMA,
    )


def test_a_list_of_queries_decides_and_what_it_leaves_out_is_marked(spark: SparkSession) -> None:
    relevance = frames.relevance(spark, [("q", "a", 1), ("q", "a", 2), ("unlisted", "a", 1)])
    queries = frames.queries(spark, [("q",), ("unlabelled",), ("twice",), ("twice",)])
    same(
        listed_topics(relevance, queries, min_grade=(1, 2)).drop("slices"),
        [
            ("q", True, 1, 1, [1, 1], 1, [2.0], 1, 1),
            ("unlabelled", True, 1, 0, [0, 0], 0, [], 0, 0),
            ("twice", True, 2, 0, [0, 0], 0, [], 0, 0),
            ("unlisted", False, 0, 1, [1, 0], 1, [1.0], 0, 0),
        ],
        TOPICS_SCHEMA,
    )


def test_each_slice_is_its_own_a_cross_joins_two_and_a_null_is_named(spark: SparkSession) -> None:
    relevance = frames.relevance(spark, [("q", "a", 1), ("p", "a", 1), ("unlisted", "a", 1)])
    queries = spark.createDataFrame([("q", "de", 7), ("p", None, None)], "query_id string, land string, age int")
    same(
        listed_topics(relevance, queries, slices=("land", "age", "land*age")).select("query_id", "slices"),
        [
            ("q", [("age", "7"), ("land", "de"), ("land*age", "de*7")]),
            ("p", [("age", "(null)"), ("land", "(null)"), ("land*age", "(null)*(null)")]),
            ("unlisted", []),
        ],
        "query_id string, slices array<struct<key:string,value:string>>",
    )


def test_a_slice_column_may_have_any_name_and_a_slice_named_twice_is_one(spark: SparkSession) -> None:
    relevance = frames.relevance(spark, [("q", "a", 1)])
    queries = spark.createDataFrame([("q", "x", "y")], "query_id string, copies string, listed string")
    slices = ("copies", "listed*copies", "query_id", "copies")
    same(
        listed_topics(relevance, queries, slices=slices).select("query_id", "copies", "listed", "slices"),
        [("q", 1, True, [("copies", "x"), ("listed*copies", "y*x"), ("query_id", "q")])],
        "query_id string, copies bigint, listed boolean, slices array<struct<key:string,value:string>>",
    )
