"""One row per list and per evaluated query: what every measure is computed from."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from recallk_spark import Evaluation, Protocol, evaluate
from recallk_spark.lists import LISTS, gather_lists
from recallk_spark.schema import PER_QUERY
from tests import frames

JUDGED_AND_REPEATS = (
    "run_id string, query_id string, item_id string, rank int, grade double, hit_number int, num_relevant int, "
    "repeats int"
)
LISTS_SCHEMA = (
    "run_id string, query_id string, num_retrieved int, ranks array<int>, grades array<double>, repeats bigint"
)


def same(found: DataFrame, rows: Sequence[tuple], columns: str) -> None:
    expected = found.sparkSession.createDataFrame(rows, columns)
    assert_df_equality(found, expected, ignore_row_order=True, ignore_nullable=True)


def lists(spark: SparkSession, judged: list[tuple]) -> DataFrame:
    found = gather_lists(spark.createDataFrame(judged, JUDGED_AND_REPEATS))
    assert found.columns == list(LISTS)
    return found


# lists


def test_a_list_is_its_length_and_its_judged_results_in_rank_order(spark: SparkSession) -> None:
    judged = [
        ("r", "q", "x", 4, None, None, 2, None),
        ("r", "q", "b", 3, 0.0, None, 2, None),
        ("r", "q", "c", 1, 2.0, 1, 2, None),
        ("r", "q", "a", 2, 1.0, 2, 2, None),
        ("s", "q", "a", 1, 1.0, 1, 2, None),
        ("r", "p", "x", 1, None, None, None, None),
    ]
    same(
        lists(spark, judged),
        [
            ("r", "q", 4, [1, 2, 3], [2.0, 1.0, 0.0], 0),
            ("s", "q", 1, [1], [1.0], 0),
            ("r", "p", 1, [], [], 0),
        ],
        LISTS_SCHEMA,
    )


def test_a_judged_item_stands_once_at_its_best_rank_and_its_other_rows_are_counted(spark: SparkSession) -> None:
    # a: hit at 2, again at 3 and 5; b: judged, not relevant, at 1 and 4; x: not judged, its repeats do not count
    judged = [
        ("r", "q", "b", 1, 0.0, None, 1, None),
        ("r", "q", "a", 2, 1.0, 1, 1, None),
        ("r", "q", "a", 3, 1.0, None, 1, None),
        ("r", "q", "b", 4, 0.0, None, 1, None),
        ("r", "q", "a", 5, 1.0, None, 1, None),
        ("r", "q", "x", 6, None, None, 1, None),
        ("r", "q", "x", 7, None, None, 1, None),
    ]
    same(lists(spark, judged), [("r", "q", 7, [1, 2], [0.0, 1.0], 3)], LISTS_SCHEMA)


def test_repeats_that_ranking_counted_are_taken_as_they_are(spark: SparkSession) -> None:
    judged = [
        ("r", "q", "a", 1, 1.0, 1, 1, 0),
        ("r", "q", "x", 2, None, None, 1, 4),
        ("r", "q", "x", 3, None, None, 1, 1),
    ]
    same(lists(spark, judged), [("r", "q", 3, [1], [1.0], 5)], LISTS_SCHEMA)


def test_a_list_of_length_zero_is_a_list(spark: SparkSession) -> None:
    judged = [
        ("r", "empty", None, None, None, None, 1, None),
        ("r", "dropped", "a", None, None, None, 1, None),
        ("r", "dropped", "b", None, None, None, 1, None),
    ]
    same(lists(spark, judged), [("r", "empty", 0, [], [], 0), ("r", "dropped", 0, [], [], 0)], LISTS_SCHEMA)


# per query

SCORES = [
    ("r", "q", "a", 3.0),
    ("r", "q", "b", 2.0),
    ("r", "q", "c", 1.0),
    ("r", "bare", "a", 1.0),
    ("r", "unjudged", "a", 1.0),
    ("s", "lost", "a", 1.0),
]
RELEVANCE = [
    ("q", "a", 0),
    ("q", "c", 2),
    ("q", "x", 1),
    ("bare", "a", 0),
    ("lost", "a", 1),
    ("lost bare", "a", -1),
]


def an_evaluation(spark: SparkSession, **settings: object) -> Evaluation:
    protocol = Protocol(**{"cutoffs": (2,), **settings})
    return evaluate(frames.scores(spark, SCORES), frames.relevance(spark, RELEVANCE), protocol=protocol)


def test_every_judged_query_has_a_row_for_every_run(spark: SparkSession) -> None:
    found = an_evaluation(spark, depth=3).per_query()
    assert found.columns == PER_QUERY.names
    assert [field.dataType for field in found.schema] == [field.dataType for field in PER_QUERY]
    columns = ["run_id", "query_id", "in_run", "counted", "num_relevant", "num_judged", "num_retrieved", "ranks"]
    same(
        found.where("size(slices) = 0 and weight is null and num_relevant_returned is null").select(
            *columns, "grades", "ideal_grades", "relevance_set", "fingerprint"
        ),
        [
            (*row, "all", Protocol().fingerprint)
            for row in [
                # absent queries count with an empty list, unless they have no relevant item
                ("r", "q", True, True, 2, 3, 3, [1, 3], [0.0, 2.0], [2.0, 1.0]),
                ("r", "bare", True, False, 0, 1, 1, [1], [0.0], []),
                ("r", "lost", False, True, 1, 1, 0, [], [], [1.0]),
                ("r", "lost bare", False, False, 0, 1, 0, [], [], []),
                ("s", "q", False, True, 2, 3, 0, [], [], [2.0, 1.0]),
                ("s", "bare", False, False, 0, 1, 0, [], [], []),
                ("s", "lost", True, True, 1, 1, 1, [1], [1.0], [1.0]),
                ("s", "lost bare", False, False, 0, 1, 0, [], [], []),
            ]
        ],
        "run_id string, query_id string, in_run boolean, counted boolean, num_relevant int, num_judged int, "
        "num_retrieved int, ranks array<int>, grades array<double>, ideal_grades array<double>, "
        "relevance_set string, fingerprint string",
    )


def test_what_lies_beyond_depth_is_not_in_a_row(spark: SparkSession) -> None:
    row = frames.per_query_rows(an_evaluation(spark))["r", "q"]
    assert (row["num_retrieved"], row["ranks"], row["grades"]) == (2, [1], [0.0])
    assert (row["num_relevant"], row["num_judged"], row["ideal_grades"]) == (2, 3, [2.0, 1.0])


@pytest.mark.parametrize(
    ("no_relevant", "missing_queries", "counted"),
    [
        ("exclude", "zero", {"q", "lost"}),
        ("exclude", "exclude", {"q"}),
        ("zero", "zero", {"q", "bare", "lost", "lost bare"}),
        ("one", "zero", {"q", "bare", "lost", "lost bare"}),
        ("one", "exclude", {"q", "bare"}),
    ],
)
def test_the_policies_say_which_queries_are_counted(
    spark: SparkSession, no_relevant: str, missing_queries: str, counted: set[str]
) -> None:
    evaluation = an_evaluation(spark, no_relevant=no_relevant, missing_queries=missing_queries)
    rows = evaluation.per_query().where("run_id = 'r'").select("query_id", "counted").collect()
    assert {row["query_id"]: row["counted"] for row in rows} == {
        query: query in counted for query in ("q", "bare", "lost", "lost bare")
    }


def test_a_list_of_queries_decides_which_rows_there_are_and_brings_their_slices(spark: SparkSession) -> None:
    evaluation = evaluate(
        frames.scores(spark, SCORES).drop("run_id"),
        frames.relevance(spark, RELEVANCE),
        queries=frames.queries(
            spark,
            [("q", "de", "app"), ("lost", None, "web"), ("unjudged", "at", None)],
            columns=("land", "device"),
        ),
        slices=("land", "land*device"),
        protocol=Protocol(cutoffs=(2,)),
    )
    rows = frames.per_query_rows(evaluation)
    assert {key: row["slices"] for key, row in rows.items()} == {
        ("run", "q"): {"land": "de", "land*device": "de*app"},
        ("run", "lost"): {"land": "(null)", "land*device": "(null)*web"},
        ("run", "unjudged"): {"land": "at", "land*device": "at*(null)"},
    }
    # a listed query without labels is judged, with no relevant item
    unjudged = rows["run", "unjudged"]
    assert (unjudged["in_run"], unjudged["counted"], unjudged["num_relevant"]) == (True, False, 0)


def test_integer_ids_stay_integers(spark: SparkSession) -> None:
    evaluation = evaluate(
        spark.createDataFrame([(7, 1, 1.0)], "query_id int, item_id int, score double"),
        frames.relevance(spark, [(7, 1, 1), (2**53 + 1, 1, 1)]),
    )
    found = evaluation.per_query().select("query_id", "ranks")
    same(found, [(7, [1]), (2**53 + 1, [])], "query_id bigint, ranks array<int>")
