"""The order of results: scores, ties, repeats, invalid scores, and the cut at depth."""

from __future__ import annotations

from collections.abc import Sequence

from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from recallk_spark import Protocol
from recallk_spark.contract import conform_scores
from recallk_spark.ranking import top_k
from recallk_spark.schema import RANKED
from tests import frames

NAN, INF = float("nan"), float("inf")
REPLACEMENT, EMOJI = "\ufffd", "\U0001f600"


def ranked(scores: DataFrame, *, every_repeat: bool = False, refuse: bool = True, **settings: object) -> DataFrame:
    protocol = Protocol(**{"cutoffs": (1,), "depth": 10, **settings})
    return top_k(conform_scores(scores, protocol=protocol), protocol=protocol, every_repeat=every_repeat, refuse=refuse)


def same(found: DataFrame, rows: Sequence[tuple], *, item: str = "string") -> None:
    """Compares ranked rows, without `repeats` where the expected rows have none."""
    columns = f"run_id string, query_id string, item_id {item}, rank int, repeats int".split(", ")[: len(rows[0])]
    expected = found.sparkSession.createDataFrame(rows, ", ".join(columns))
    found = found.select(*found.columns[: len(columns)])
    assert_df_equality(found, expected, ignore_row_order=True, ignore_nullable=True)


# score order


def test_larger_scores_come_first_within_each_query_of_each_run(spark: SparkSession) -> None:
    scores = frames.scores(
        spark,
        [
            ("r", "q", "a", 0.5),
            ("r", "q", "b", 2.0),
            ("r", "q", "c", -3.0),
            ("r", "p", "a", 0.0),
            ("s", "q", "a", 9.0),
            ("s", "q", "c", 10.0),
        ],
    )
    found = ranked(scores)
    assert found.columns == [*RANKED.names, "repeats"]
    same(
        found,
        [
            ("r", "q", "b", 1, None),
            ("r", "q", "a", 2, None),
            ("r", "q", "c", 3, None),
            ("r", "p", "a", 1, None),
            ("s", "q", "c", 1, None),
            ("s", "q", "a", 2, None),
        ],
    )


def test_smaller_scores_come_first_where_they_are_distances(spark: SparkSession) -> None:
    scores = frames.scores(spark, [("r", "q", "a", 0.5), ("r", "q", "b", 2.0), ("r", "q", "c", -3.0)])
    same(ranked(scores, score_order="asc"), [("r", "q", "c", 1), ("r", "q", "a", 2), ("r", "q", "b", 3)])


def test_infinities_are_ordinary_scores(spark: SparkSession) -> None:
    scores = frames.scores(
        spark, [("r", "q", "a", -INF), ("r", "q", "b", 1e308), ("r", "q", "c", INF), ("r", "q", "d", -1e308)]
    )
    same(ranked(scores), [("r", "q", "c", 1), ("r", "q", "b", 2), ("r", "q", "d", 3), ("r", "q", "a", 4)])
    same(
        ranked(scores, score_order="asc"),
        [("r", "q", "a", 1), ("r", "q", "d", 2), ("r", "q", "b", 3), ("r", "q", "c", 4)],
    )


def test_neighbouring_doubles_are_no_tie(spark: SparkSession) -> None:
    # 0.1 + 0.2 is the double after 0.3
    scores = frames.scores(spark, [("r", "q", "a", 0.3), ("r", "q", "b", 0.1 + 0.2), ("r", "q", "c", 0.3)])
    same(ranked(scores), [("r", "q", "b", 1), ("r", "q", "a", 2), ("r", "q", "c", 3)])


def test_decimals_are_compared_in_all_their_digits(spark: SparkSession) -> None:
    # as doubles all three are 1.0
    scores = spark.sql(
        """select 'r' as run_id, 'q' as query_id, * from values
           ('a', 1.000000000000000000000001bd), ('b', 1.000000000000000000000003bd), ('c', 1.000000000000000000000002bd)
           as rows(item_id, score)"""
    )
    same(ranked(scores), [("r", "q", "b", 1), ("r", "q", "c", 2), ("r", "q", "a", 3)])


def test_integer_scores_beyond_the_precision_of_doubles_are_no_tie(spark: SparkSession) -> None:
    # 2^53 and 2^53 + 1 are one double
    rows = [
        ("r", "q", "a", 2**53),
        ("r", "q", "b", 2**53 + 1),
        ("r", "q", "c", -(2**53) - 1),
        ("r", "q", "d", -(2**53)),
    ]
    scores = frames.scores(spark, rows, score_type="bigint")
    same(ranked(scores), [("r", "q", "b", 1), ("r", "q", "a", 2), ("r", "q", "d", 3), ("r", "q", "c", 4)])


def test_single_precision_scores_are_compared_as_they_are(spark: SparkSession) -> None:
    # in single precision 16777217 = 2^24 + 1 is 2^24: a tie that goes to the item
    rows = [("r", "q", "b", 16777217.0), ("r", "q", "a", 16777216.0), ("r", "q", "c", 16777218.0)]
    in_order_of_double = [("r", "q", "c", 1), ("r", "q", "b", 2), ("r", "q", "a", 3)]
    with_a_tie = [("r", "q", "c", 1), ("r", "q", "a", 2), ("r", "q", "b", 3)]
    same(ranked(frames.scores(spark, rows)), in_order_of_double)
    same(ranked(frames.scores(spark, rows, score_type="float")), with_a_tie)
    same(ranked(frames.scores(spark, rows), score_precision="float32"), with_a_tie)


# ties


def test_zero_and_minus_zero_are_equal(spark: SparkSession) -> None:
    rows = [
        ("r", "q", "b", 0.0),
        ("r", "q", "a", -0.0),
        ("r", "q", "d", -0.0),
        ("r", "q", "c", 0.0),
        ("r", "q", "e", -5e-324),
        ("r", "q", "f", 5e-324),
    ]
    expected = [("f", 1), ("a", 2), ("b", 3), ("c", 4), ("d", 5), ("e", 6)]
    same(ranked(frames.scores(spark, rows)), [("r", "q", item, rank) for item, rank in expected])
    in_single = frames.scores(spark, rows[:4], score_type="float")
    same(ranked(in_single, score_order="asc"), [("r", "q", item, rank - 1) for item, rank in expected[1:5]])


def test_equal_scores_are_ordered_by_item_id_up_or_down(spark: SparkSession) -> None:
    rows = [("r", "q", "b", 1.0), ("r", "q", "c", 1.0), ("r", "q", "a", 1.0), ("r", "q", "d", 2.0)]
    scores = frames.scores(spark, rows)
    same(
        ranked(scores, tie_break="item_asc"),
        [("r", "q", "d", 1), ("r", "q", "a", 2), ("r", "q", "b", 3), ("r", "q", "c", 4)],
    )
    same(
        ranked(scores, tie_break="item_desc"),
        [("r", "q", "d", 1), ("r", "q", "c", 2), ("r", "q", "b", 3), ("r", "q", "a", 4)],
    )


def test_string_items_are_ordered_by_their_utf8_bytes(spark: SparkSession) -> None:
    # 1 30, 9 39, B 42, a 61, z 7a, é c3a9, U+FFFD efbfbd, the emoji f09f9880: in UTF-16, as Java compares,
    # the emoji (d83d de00) would come before U+FFFD; by number 9 would come before 10
    in_order = ["", " 9", "1", "10", "100", "9", "B", "a", "ab", "z", "é", "日本", REPLACEMENT, EMOJI]
    assert in_order == sorted(in_order, key=lambda item: item.encode())
    shuffled = in_order[::-2] + in_order[-2::-2]
    scores = frames.scores(spark, [("r", "q", item, 1.0) for item in shuffled])
    up = [("r", "q", item, rank) for rank, item in enumerate(in_order, 1)]
    down = [("r", "q", item, rank) for rank, item in enumerate(reversed(in_order), 1)]
    same(ranked(scores, depth=20), up)
    same(ranked(scores, depth=20, tie_break="item_desc"), down)


def test_integer_items_are_ordered_as_numbers_beyond_the_precision_of_doubles(spark: SparkSession) -> None:
    in_order = [-(2**63), -10, -9, 0, 9, 10, 2**53, 2**53 + 1, 2**63 - 1]
    scores = frames.scores(spark, [("r", "q", item, 1.0) for item in (in_order[::2] + in_order[1::2])[::-1]])
    same(ranked(scores), [("r", "q", item, rank) for rank, item in enumerate(in_order, 1)], item="bigint")


def test_given_ranks_are_the_order_whatever_their_gaps_repeats_and_scores(spark: SparkSession) -> None:
    scores = frames.scores(
        spark,
        [
            ("r", "q", "a", 1.0, 40),
            ("r", "q", "c", NAN, 7),
            ("r", "q", "b", None, 7),
            ("r", "q", "d", 9.0, 2_000_000_000),
            ("r", "q", "e", 5.0, 0),
            ("r", "q", "f", 5.0, -3),
        ],
    )
    same(
        ranked(scores, tie_break="rank"),
        [
            ("r", "q", "f", 1),
            ("r", "q", "e", 2),
            ("r", "q", "b", 3),
            ("r", "q", "c", 4),
            ("r", "q", "a", 5),
            ("r", "q", "d", 6),
        ],
    )


# depth


def test_lists_are_cut_at_depth(spark: SparkSession) -> None:
    rows = [("r", "q", item, score) for item, score in [("a", 1.0), ("b", 3.0), ("c", 2.0), ("d", 2.0)]]
    scores = frames.scores(spark, [*rows, ("r", "p", "a", 1.0)])
    same(ranked(scores, depth=1), [("r", "q", "b", 1), ("r", "p", "a", 1)])
    same(ranked(scores, depth=3), [("r", "q", "b", 1), ("r", "q", "c", 2), ("r", "q", "d", 3), ("r", "p", "a", 1)])


def test_a_list_is_cut_alike_beyond_what_spark_cuts_on_the_way(spark: SparkSession) -> None:
    # spark.sql.optimizer.windowGroupLimitThreshold is 1000
    scores = spark.range(1, 2001).selectExpr("'q' as query_id", "id as item_id", "-id as score")
    found = {}
    for depth in (1000, 1500):
        rows = ranked(scores, depth=depth).selectExpr(
            "count(*)", "min(rank)", "max(rank)", "sum(bigint(rank != item_id))"
        )
        found[depth] = tuple(rows.first() or ())
    assert found == {1000: (1000, 1, 1000, 0), 1500: (1500, 1, 1500, 0)}


# repeated results

REPEATED = [
    ("r", "q", "a", 9.0),
    ("r", "q", "b", 8.0),
    ("r", "q", "a", 7.0),
    ("r", "q", "c", 6.0),
    ("r", "q", "a", 5.0),
    ("r", "p", "b", 1.0),
    ("s", "q", "b", 1.0),
]


def test_under_occupy_every_copy_keeps_its_position(spark: SparkSession) -> None:
    same(
        ranked(frames.scores(spark, REPEATED), depth=4),
        [
            ("r", "q", "a", 1, None),
            ("r", "q", "b", 2, None),
            ("r", "q", "a", 3, None),
            ("r", "q", "c", 4, None),
            ("r", "p", "b", 1, None),
            ("s", "q", "b", 1, None),
        ],
    )


def test_under_occupy_copies_within_depth_are_counted_on_request(spark: SparkSession) -> None:
    same(
        ranked(frames.scores(spark, REPEATED), depth=4, every_repeat=True),
        [
            ("r", "q", "a", 1, 0),
            ("r", "q", "b", 2, 0),
            ("r", "q", "a", 3, 1),
            ("r", "q", "c", 4, 0),
            ("r", "p", "b", 1, 0),
            ("s", "q", "b", 1, 0),
        ],
    )


def test_under_collapse_later_copies_are_gone_before_ranks_are_given(spark: SparkSession) -> None:
    # of a's three copies the second stands within depth 4 of the given list, the third does not
    same(
        ranked(frames.scores(spark, REPEATED), depth=4, duplicates="collapse"),
        [
            ("r", "q", "a", 1, 1),
            ("r", "q", "b", 2, 0),
            ("r", "q", "c", 3, 0),
            ("r", "p", "b", 1, 0),
            ("s", "q", "b", 1, 0),
        ],
    )


def test_collapse_fills_the_list_from_beyond_depth(spark: SparkSession) -> None:
    same(
        ranked(frames.scores(spark, REPEATED), depth=3, duplicates="collapse"),
        [
            ("r", "q", "a", 1, 1),
            ("r", "q", "b", 2, 0),
            ("r", "q", "c", 3, 0),
            ("r", "p", "b", 1, 0),
            ("s", "q", "b", 1, 0),
        ],
    )


def test_a_copy_beyond_depth_is_no_error(spark: SparkSession) -> None:
    found = ranked(frames.scores(spark, REPEATED), depth=2, duplicates="error")
    same(
        found,
        [("r", "q", "a", 1, 0), ("r", "q", "b", 2, 0), ("r", "p", "b", 1, 0), ("s", "q", "b", 1, 0)],
    )


def test_copies_of_equal_score_collapse_to_one(spark: SparkSession) -> None:
    rows = [
        ("r", "q", "a", 1.0),
        ("r", "q", "a", -0.0),
        ("r", "q", "a", 0.0),
        ("r", "q", "b", 0.0),
        ("r", "q", "a", 1.0),
    ]
    same(ranked(frames.scores(spark, rows), duplicates="collapse"), [("r", "q", "a", 1, 3), ("r", "q", "b", 2, 0)])


# invalid scores and empty lists

INVALID = [
    ("r", "q", "c", NAN),
    ("r", "q", "b", None),
    ("r", "q", "a", 1.0),
    ("r", "q", "d", -INF),
    ("r", "p", "e", NAN),
]


def test_invalid_scores_that_are_dropped_leave_a_row_that_says_their_query_was_asked(spark: SparkSession) -> None:
    same(
        ranked(frames.scores(spark, INVALID), invalid_scores="drop"),
        [
            ("r", "q", "a", 1),
            ("r", "q", "d", 2),
            ("r", "q", "b", None),
            ("r", "q", "c", None),
            ("r", "p", "e", None),
        ],
    )


def test_invalid_scores_that_go_last_are_ordered_by_item(spark: SparkSession) -> None:
    expected = [("a", 1), ("d", 2), ("b", 3), ("c", 4)]
    same(
        ranked(frames.scores(spark, INVALID), invalid_scores="last"),
        [*(("r", "q", item, rank) for item, rank in expected), ("r", "p", "e", 1)],
    )
    expected = [("d", 1), ("a", 2), ("c", 3), ("b", 4)]
    same(
        ranked(frames.scores(spark, INVALID), invalid_scores="last", score_order="asc", tie_break="item_desc"),
        [*(("r", "q", item, rank) for item, rank in expected), ("r", "p", "e", 1)],
    )


def test_dropped_scores_take_no_place_from_valid_ones(spark: SparkSession) -> None:
    rows = [("r", "q", "a", NAN), ("r", "q", "b", NAN), ("r", "q", "c", -1.0), ("r", "q", "d", -2.0)]
    for order, best in (("desc", ["c", "d"]), ("asc", ["d", "c"])):
        found = ranked(frames.scores(spark, rows), invalid_scores="drop", depth=2, score_order=order)
        same(found, [("r", "q", best[0], 1), ("r", "q", best[1], 2)])


def test_a_dropped_copy_is_no_repeat(spark: SparkSession) -> None:
    rows = [("r", "q", "a", NAN), ("r", "q", "a", 1.0), ("r", "q", "b", 0.0)]
    found = ranked(frames.scores(spark, rows), invalid_scores="drop", duplicates="error")
    same(found, [("r", "q", "a", 1, 0), ("r", "q", "b", 2, 0), ("r", "q", "a", None, 0)])
    found = ranked(frames.scores(spark, rows), invalid_scores="drop", duplicates="collapse")
    same(found, [("r", "q", "a", 1, 0), ("r", "q", "b", 2, 0)])


def test_an_empty_list_is_a_row_without_a_rank(spark: SparkSession) -> None:
    scores = spark.createDataFrame(
        [("q", None, None, True), ("p", "a", 1.0, False)],
        "query_id string, item_id string, score double, _empty_list boolean",
    )
    for policy in ("occupy", "collapse", "error"):
        found = ranked(scores, duplicates=policy, invalid_scores="last")
        same(found, [("run", "q", None, None), ("run", "p", "a", 1)])
