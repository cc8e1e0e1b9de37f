"""The contract: names and types are checked without a job, values where they are read, counts by a watch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from recallk_spark import Protocol, evaluate
from recallk_spark.columns import require_same_id_types
from recallk_spark.contract import conform_queries, conform_relevance, conform_scores, slice_columns
from recallk_spark.errors import ContractError
from recallk_spark.policies import InvalidScores
from recallk_spark.watch import Watch, counts_retries
from tests import frames

NAN, INF = float("nan"), float("inf")


def same(found: DataFrame, rows: Sequence[tuple], columns: str) -> None:
    expected = found.sparkSession.createDataFrame(rows, columns)
    assert_df_equality(found, expected, ignore_row_order=True, ignore_nullable=True)


def empty(spark: SparkSession, columns: str) -> DataFrame:
    return spark.createDataFrame([], columns)


def faults_of(error: pytest.ExceptionInfo[ContractError]) -> list[tuple[str, str]]:
    return [(fault.table, fault.column) for fault in error.value.faults]


# names and types, no job


@pytest.mark.parametrize("id_type", ["tinyint", "smallint", "int", "bigint"])
def test_integer_ids_become_bigint_and_scores_keep_their_type(spark: SparkSession, id_type: str) -> None:
    scores = empty(spark, f"query_id {id_type}, item_id {id_type}, score decimal(10,4), other string")
    conformed = conform_scores(scores, protocol=Protocol())
    assert conformed.schema.simpleString() == (
        "struct<run_id:string,query_id:bigint,item_id:bigint,score:decimal(10,4)>"
    )


@pytest.mark.parametrize("id_type", ["double", "float", "decimal(20,0)", "boolean", "date", "binary", "array<string>"])
def test_ids_of_any_other_type_are_refused(spark: SparkSession, id_type: str) -> None:
    scores = empty(spark, f"query_id {id_type}, item_id {id_type}, score double")
    relevance = empty(spark, f"query_id {id_type}, item_id string")
    with pytest.raises(ContractError, match="ids are strings or integers") as error:
        evaluate(scores, relevance)
    assert faults_of(error) == [("relevance", "query_id"), ("scores", "item_id"), ("scores", "query_id")]


def test_strings_of_a_collation_are_ids_by_their_bytes(spark: SparkSession) -> None:
    # B is byte 42 and a is byte 61: B comes first, and a is not A
    rows = [("q", "a", 1.0), ("q", "B", 1.0), ("q", "A", 1.0)]
    scores = spark.createDataFrame(rows, "query_id string, item_id string collate UTF8_LCASE, score double")
    relevance = spark.createDataFrame([("q", "A")], "query_id string, item_id string")
    judged = evaluate(scores, relevance).judged.select("rank", "item_id", "hit_number")
    same(judged, [(1, "A", 1), (2, "B", None), (3, "a", None)], "rank int, item_id string, hit_number int")


def test_every_fault_of_names_and_types_in_every_table_is_named_at_once(spark: SparkSession) -> None:
    with pytest.raises(ContractError) as error:
        evaluate(
            empty(spark, "run_id int, query string, item_id double, score string"),
            empty(spark, "query_id string, item_id string, grade string"),
            queries=empty(spark, "query_id string, land string, tags array<string>"),
            slices=("country", "tags*land"),
        )
    assert [str(fault) for fault in error.value.faults] == [
        "queries.country: no such column; known: land, query_id, tags",
        "queries.tags: is array<string>; a slice is a plain value",
        "relevance.grade: is string; a grade is a number; cast it, or read it so",
        "scores.item_id: ids are strings or integers, never double; cast it to bigint or string",
        "scores.query_id: no such column; did you mean 'query'?",
        "scores.run_id: is int; a string names a run; cast it to string",
        "scores.score: is string; a score is a number; cast it, or read it so",
    ]


def test_ids_of_different_types_on_two_sides_are_refused_with_both_types(spark: SparkSession) -> None:
    scores = empty(spark, "query_id string, item_id int, score double")
    relevance = empty(spark, "query_id bigint, item_id bigint, grade double")
    with pytest.raises(ContractError) as error:
        evaluate(scores, relevance)
    assert [str(fault) for fault in error.value.faults] == [
        "relevance.query_id: is bigint, but scores.query_id is string; ids are never converted, cast one side yourself"
    ]
    with pytest.raises(ContractError, match=r"query_id: is .*, but .*\.query_id is .*; ids are never converted"):
        evaluate(scores, empty(spark, "query_id string, item_id int"), queries=empty(spark, "query_id int"))


def test_integers_of_different_widths_are_ids_of_one_type(spark: SparkSession) -> None:
    scores = conform_scores(empty(spark, "query_id int, item_id bigint, score double"), protocol=Protocol())
    relevance = conform_relevance(empty(spark, "query_id bigint, item_id smallint"), protocol=Protocol())
    require_same_id_types(scores=scores, relevance=relevance)
    assert relevance.schema.simpleString() == "struct<query_id:bigint,item_id:bigint,grade:double,_listed:boolean>"


def test_tie_break_rank_needs_an_integer_rank_and_no_score(spark: SparkSession) -> None:
    by_rank = Protocol(tie_break="rank")
    for rank_type in ("smallint", "int", "bigint"):
        ranked = conform_scores(empty(spark, f"query_id string, item_id string, rank {rank_type}"), protocol=by_rank)
        assert ranked.columns == ["run_id", "query_id", "item_id", "rank"]
    for columns, reason in [("score double", "no such column"), ("rank double", "a rank is an integer")]:
        with pytest.raises(ContractError, match=reason) as error:
            conform_scores(empty(spark, f"query_id string, item_id string, {columns}"), protocol=by_rank)
        assert faults_of(error) == [("scores", "rank")]


def test_scores_may_be_any_number(spark: SparkSession) -> None:
    for score_type in ("double", "float", "decimal(38,18)", "bigint", "tinyint"):
        scores = empty(spark, f"query_id string, item_id string, score {score_type}")
        assert conform_scores(scores, protocol=Protocol()).schema["score"].dataType.simpleString() == score_type
        rounded = conform_scores(scores, protocol=Protocol(score_precision="float32"))
        assert rounded.schema["score"].dataType.simpleString() == "float"


def test_slice_columns_are_each_taken_once() -> None:
    assert slice_columns(("country", "device*country", "age")) == ("country", "device", "age")
    assert slice_columns(()) == ()


def test_nothing_runs_before_a_frame_is_read(spark: SparkSession) -> None:
    context = spark.sparkContext
    scores = frames.scores(spark, [("r", "q", "a", 1.0)])
    relevance = frames.relevance(spark, [("q", "a", 1)])
    queries = frames.queries(spark, [("q", "de")], columns=("land",))
    context.setJobGroup("lazy", "evaluate and its frames")
    try:
        evaluation = evaluate(scores, relevance, queries=queries, slices=("land",))
        assert [frame.columns[0] for frame in (evaluation.ranked, evaluation.judged, evaluation.profile())]
        with pytest.raises(ContractError):
            evaluate(scores, relevance.withColumn("query_id", relevance.query_id.cast("int")))
        before = list(context.statusTracker().getJobIdsForGroup("lazy"))
        evaluation.ranked.collect()
        after = list(context.statusTracker().getJobIdsForGroup("lazy"))
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert before == []
    assert after != [], "the tracker sees no job at all"


# values


def test_scores_without_a_run_are_one_run(spark: SparkSession) -> None:
    scores = spark.createDataFrame([("q", "a", 1), ("q", "b", 2)], "query_id string, item_id string, score int")
    same(
        conform_scores(scores, protocol=Protocol()),
        [("run", "q", "a", 1), ("run", "q", "b", 2)],
        "run_id string, query_id string, item_id string, score int",
    )


@pytest.mark.parametrize("policy", ["drop", "last"])
def test_a_nan_score_is_null_where_it_is_not_refused(spark: SparkSession, policy: str) -> None:
    scores = frames.scores(spark, [("r", "q", "a", NAN), ("r", "q", "b", None), ("r", "q", "c", -INF)])
    same(
        conform_scores(scores, protocol=Protocol(invalid_scores=policy)),
        [("r", "q", "a", None), ("r", "q", "b", None), ("r", "q", "c", -INF)],
        "run_id string, query_id string, item_id string, score double",
    )


def test_float32_rounds_scores_to_single_precision(spark: SparkSession) -> None:
    # 16777217 = 2^24 + 1 lies between two single precision numbers, 2^24 and 2^24 + 2, and goes to the even one
    scores = frames.scores(spark, [("r", "q", "a", 16777217.0), ("r", "q", "b", 1e300)])
    same(
        conform_scores(scores, protocol=Protocol(score_precision="float32")),
        [("r", "q", "a", 16777216.0), ("r", "q", "b", INF)],
        "run_id string, query_id string, item_id string, score float",
    )


def test_a_grade_is_one_where_there_is_none_and_a_fraction_stays_one(spark: SparkSession) -> None:
    same(
        conform_relevance(frames.relevance(spark, [("q", "a")]), protocol=Protocol()).drop("_listed"),
        [("q", "a", 1.0)],
        "query_id string, item_id string, grade double",
    )
    same(
        conform_relevance(frames.relevance(spark, [("q", "a", 0.5), ("q", "a", -1)]), protocol=Protocol()).drop(
            "_listed"
        ),
        [("q", "a", 0.5), ("q", "a", -1.0)],
        "query_id string, item_id string, grade double",
    )


def test_ids_that_look_like_numbers_stay_text(spark: SparkSession) -> None:
    relevance = frames.relevance(spark, [("007", "1.0", 1), (" 7", "1", 1)])
    same(
        conform_relevance(relevance, protocol=Protocol()).drop("_listed"),
        [("007", "1.0", 1.0), (" 7", "1", 1.0)],
        "query_id string, item_id string, grade double",
    )


def test_a_row_of_an_empty_list_is_no_null_item(spark: SparkSession) -> None:
    scores = spark.createDataFrame(
        [("q", None, None, True), ("q", "a", 1.0, False)],
        "query_id string, item_id string, score double, _empty_list boolean",
    )
    same(
        conform_scores(scores, protocol=Protocol()),
        [("run", "q", None, None), ("run", "q", "a", 1.0)],
        "run_id string, query_id string, item_id string, score double",
    )


def test_what_is_not_on_the_list_of_queries_is_marked_and_its_scores_are_not_looked_at(spark: SparkSession) -> None:
    queries = conform_queries(frames.queries(spark, [("q",), ("q",), ("new",)]), slices=())
    scores = frames.scores(spark, [("r", "q", "a", 1.0), ("r", "unlisted", "a", NAN), ("r", "unlisted", "b", None)])
    same(
        conform_scores(scores, protocol=Protocol(), queries=queries).select("query_id", "item_id"),
        [("q", "a"), ("unlisted", None), ("unlisted", None)],
        "query_id string, item_id string",
    )
    relevance = frames.relevance(spark, [("q", "a", 1), ("unlisted", "a", 2)])
    same(
        conform_relevance(relevance, protocol=Protocol(), queries=queries),
        [("q", "a", 1.0, True), ("unlisted", "a", 2.0, False)],
        "query_id string, item_id string, grade double, _listed boolean",
    )


def test_skipped_lines_are_left_out_and_are_no_fault(spark: SparkSession) -> None:
    relevance = spark.createDataFrame(
        [("q", "a", 1.0, False), (None, None, None, True)],
        "query_id string, item_id string, grade double, _skipped boolean",
    )
    same(
        conform_relevance(relevance, protocol=Protocol()).drop("_listed"),
        [("q", "a", 1.0)],
        "query_id string, item_id string, grade double",
    )


def test_the_queries_keep_their_slice_columns_as_they_came(spark: SparkSession) -> None:
    queries = spark.createDataFrame(
        [(1, 7, None, "x"), (2, None, True, "y")], "query_id int, age int, new boolean, z string"
    )
    same(
        conform_queries(queries, slices=("new*age",)),
        [(1, None, 7), (2, True, None)],
        "query_id bigint, new boolean, age int",
    )


# a watch


def watched(frame: DataFrame, conform: Any, **settings: Any) -> Watch:
    watch = Watch()
    conform(frame, **settings, watch=watch).write.format("noop").mode("overwrite").save()
    return watch


def test_a_watch_counts_rows_faults_and_repairs_and_keeps_the_smallest_key(spark: SparkSession) -> None:
    rows = [
        ("r", "q", "a", 1.0),
        ("r", "q", "c", NAN),
        ("r", "q", "b", None),
        ("r", None, "d", 1.0),
        ("r", "q", None, NAN),
        ("", "q", "e", 1.0),
    ]
    watch = watched(frames.scores(spark, rows), conform_scores, protocol=Protocol())
    assert watch.counts("scores") == {"rows": 6}
    found = [(fault.column, re.split("[,;]", fault.message)[0], fault.count, fault.example) for fault in watch.faults()]
    assert sorted(found) == [
        ("item_id", "null item_id", 1, "run r, query q, item null"),
        ("query_id", "null query_id", 1, "run r, query null, item d"),
        ("run_id", "null or empty run_id", 1, "run , query q, item e"),
        ("score", "null or NaN score", 3, "run r, query q, item b"),
    ]


def test_repairs_are_counted_where_the_protocol_allows_them(spark: SparkSession) -> None:
    scores = frames.scores(spark, [("r", "q", "a", 1.0), ("r", "q", "b", NAN), ("r", "q", "c", None)])
    watch = watched(scores, conform_scores, protocol=Protocol(invalid_scores=InvalidScores.DROP))
    assert watch.faults() == []
    assert watch.repairs() == {"invalid_scores": 2, "skipped_lines": 0}


def test_before_spark_4_3_rows_are_counted_by_a_look_of_its_own(spark: SparkSession, monkeypatch: Any) -> None:
    """Observations of these versions count the rows of a task that was run again once more."""
    assert [counts_retries(version) for version in ("3.5.1", "4.0.2", "4.2.0", "4.3.0", "5.0.0-SNAPSHOT")] == [
        *(True, True, True),
        *(False, False),
    ]
    monkeypatch.setattr("recallk_spark.watch.counts_retries", lambda _: True)
    watch = watched(
        frames.scores(spark, [("r", "q", "a", 1.0), ("r", "q", "b", NAN)]), conform_scores, protocol=Protocol()
    )
    monkeypatch.setattr("pyspark.sql.Observation.get", {"rows": 3, "broken": 2})  # as after one task was run twice
    assert watch.counts("scores") == {"rows": 2}
    assert [(fault.column, fault.count) for fault in watch.faults()] == [("score", 1)]


@frames.COUNTED_ON_THE_WAY
def test_a_row_at_fault_that_is_gone_when_it_is_looked_up_is_still_a_fault(tmp_path: Path, spark: SparkSession) -> None:
    line = '{"run_id": "r", "query_id": "q", "item_id": "a"'
    (tmp_path / "scores.json").write_text(f"{line}}}\n")
    scores = spark.read.schema("run_id string, query_id string, item_id string, score double").json(str(tmp_path))
    watch = watched(scores, conform_scores, protocol=Protocol())
    (tmp_path / "scores.json").write_text(f'{line}, "score": 1.0}}\n')
    assert "changed while it was read" in str(watch.faults()[0])


def test_a_malformed_line_is_one_fault_that_shows_its_text(spark: SparkSession) -> None:
    relevance = spark.createDataFrame(
        [("q", "a", 1.0, None, False), (None, None, None, "3 fields: q a 1", False), (None, None, None, None, True)],
        "query_id string, item_id string, grade double, _malformed string, _skipped boolean",
    )
    watch = watched(relevance, conform_relevance, protocol=Protocol())
    assert watch.counts("relevance") == {"rows": 3, "skipped_lines": 1}
    assert [str(fault) for fault in watch.faults()] == [
        "relevance.query_id: malformed line [1 at fault] (for example 3 fields: q a 1)"
    ]


def test_the_digest_of_a_table_is_that_of_its_content_in_any_order(spark: SparkSession) -> None:
    rows = [("q", "a", 1), ("q", "b", 2), ("p", "a", 1)]
    tables = {
        "as it is": frames.relevance(spark, rows),
        "another order": frames.relevance(spark, rows[::-1]).repartition(3),
        "another grade": frames.relevance(spark, [("q", "a", 1), ("q", "b", 3), ("p", "a", 1)]),
        "another query": frames.relevance(spark, [("q", "a", 1), ("q", "b", 2), ("r", "a", 1)]),
        "a row twice": frames.relevance(spark, [*rows, rows[0]]),
    }
    digests = {
        name: watched(table, conform_relevance, protocol=Protocol()).digests()["relevance"]
        for name, table in tables.items()
    }
    hashes = frames.relevance(spark, rows).selectExpr("xxhash64(query_id, item_id, double(grade)) as hash").collect()
    assert digests["as it is"] == f"{sum(row.hash for row in hashes) % 2**128:032x}"
    assert digests["as it is"] == digests["another order"]
    assert len(set(digests.values())) == 4, digests
    assert all(len(digest) == 32 for digest in digests.values())


def test_a_single_precision_grade_meets_the_level_that_is_written_like_it(spark: SparkSession) -> None:
    labels = spark.sql("select 'q' query_id, 'a' item_id, float('0.7') grade")
    grades = [row.grade for row in conform_relevance(labels, protocol=Protocol(min_grade=0.7)).collect()]
    assert grades == [0.7]


def test_a_slice_named_twice_is_one_slice(spark: SparkSession) -> None:
    scores = spark.sql("select 'q' query_id, 'a' item_id, 1D score")
    listed = spark.sql("select 'q' query_id, 'de' country")
    evaluation = evaluate(scores, scores.drop("score"), queries=listed, slices=("country", "country"))
    assert evaluation.per_query().first()["slices"] == {"country": "de"}
