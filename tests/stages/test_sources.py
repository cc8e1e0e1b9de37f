"""Inputs as they lie on disk, read into rows: days, runs and refusals. Text formats stand in test_text_sources.py."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from recallk_spark.errors import ContractError, InputError, UsageError
from recallk_spark.opening import one_line_errors
from recallk_spark.sources import (
    Kind,
    MissingDay,
    from_arrays,
    parse_source,
    read_relevance,
    read_scores,
    read_source,
)

SCORES = "query_id string, item_id string, score double"


def read(spark: SparkSession, spec: str, *, kind: Kind = Kind.SCORES, ds: str | None = None) -> DataFrame:
    return read_source(spark, parse_source(spec, kind=kind), kind=kind, ds=ds)


def runs(spark: SparkSession, *specs: str, run_id: str | None = None, ds: str | None = None) -> DataFrame:
    sources = [parse_source(spec, kind=Kind.SCORES) for spec in specs]
    return read_scores(spark, sources, run_id=run_id, ds=ds)[0]


def rows(frame: DataFrame, *columns: str) -> list[tuple]:
    return sorted(tuple(row) for row in frame.select(*columns).collect())


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    before = spark.conf.get(key)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.set(key, before)


# --- Parquet and tables


def test_parquet_keeps_its_columns_and_types(spark: SparkSession, tmp_path: Path) -> None:
    stored = spark.createDataFrame([(7, "007", 1.5, "x")], "query_id int, item_id string, score float, extra string")
    stored.write.parquet(f"{tmp_path}/scores")

    assert_df_equality(read(spark, f"{tmp_path}/scores"), stored)
    assert_df_equality(read(spark, f"file://{tmp_path}/scores"), stored)
    assert_df_equality(read(spark, f"{tmp_path}/sc*"), stored)


def test_a_table_is_read_by_its_name(spark: SparkSession) -> None:
    spark.createDataFrame([("q", "a", 1.0)], SCORES).write.saveAsTable("sources_by_name")

    assert rows(read(spark, "table:sources_by_name"), "query_id", "item_id", "score") == [("q", "a", 1.0)]


@pytest.mark.parametrize("inferred", ["true", "false"])
def test_partition_values_are_text_whatever_the_session_infers(
    spark: SparkSession, tmp_path: Path, inferred: str
) -> None:
    stored = spark.createDataFrame(
        [("q", "a", 1.0, "2026-11-29", "007"), ("q", "b", 2.0, "2026-11-29", "1e3")],
        f"{SCORES}, ds string, run_id string",
    )
    stored.write.partitionBy("ds", "run_id").parquet(f"{tmp_path}/scores")

    with setting(spark, "spark.sql.sources.partitionColumnTypeInference.enabled", inferred):
        frame = read(spark, f"{tmp_path}/scores", ds="2026-11-29")
        assert frame.columns == ["query_id", "item_id", "score", "run_id"]
        assert rows(frame, "run_id", "item_id") == [("007", "a"), ("1e3", "b")]


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("{}/bm26.parquet", "no such file or directory; did you mean '{}/bm25.parquet'"),
        ("warehouse.scores", "no such file or directory; a table is written table:warehouse.scores"),
        ("{}/bm26*", "no such file or directory"),
        ("{}/empty", "the directory holds no data files"),
        ("csv:{}/empty", "the directory holds no data files"),
        ("{}/notes.md", "cannot be read as parquet: .*; text files are written csv:, jsonl: or trec:"),
        ("csv:{}/none.csv", "no such file or directory"),
        ("table:no_such_table", "no such table or view"),
        ("table:no such table", "cannot be read as table: .*Syntax error"),
        ("nosuch://host/scores", 'cannot be read as parquet: No FileSystem for scheme "nosuch"'),
    ],
)
def test_what_cannot_be_opened_is_refused_in_one_line(
    spark: SparkSession, tmp_path: Path, location: str, message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "_SUCCESS").touch()
    (tmp_path / "notes.md").write_text("no Parquet\n" * 10)
    (tmp_path / "bm25.parquet").touch()

    with pytest.raises(InputError, match=message.format(tmp_path)) as refusal:
        read(spark, location.format(tmp_path))
    assert "\n" not in str(refusal.value)
    assert "SQLSTATE" not in str(refusal.value)


# --- days


@pytest.fixture(scope="module")
def daily(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """One row a day for three days: item a27 of 2026-11-27, a29 and a30."""
    stored = spark.createDataFrame(
        [("q", f"a{day}", float(day), f"2026-11-{day}") for day in (27, 29, 30)], f"{SCORES}, ds string"
    )
    location = f"{tmp_path_factory.mktemp('daily')}/scores"
    stored.write.partitionBy("ds").parquet(location)
    return location


def test_scores_are_read_for_exactly_the_day(spark: SparkSession, daily: str) -> None:
    frame = read(spark, daily, ds="2026-11-29")

    assert frame.columns == ["query_id", "item_id", "score"]
    assert rows(frame, "item_id") == [("a29",)]


def test_scores_are_read_whole_without_a_day(spark: SparkSession, daily: str) -> None:
    assert rows(read(spark, daily), "item_id", "ds") == [
        ("a27", "2026-11-27"),
        ("a29", "2026-11-29"),
        ("a30", "2026-11-30"),
    ]


def test_a_missing_partition_is_refused_with_the_nearest_days(spark: SparkSession, daily: str) -> None:
    with pytest.raises(MissingDay, match="no partition ds=2026-11-28; nearest: 2026-11-27, 2026-11-29, 2026-11-30"):
        read(spark, daily, ds="2026-11-28")


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        (Kind.RELEVANCE, "{}", [("a27",), ("a29",), ("a30",)]),
        (Kind.RELEVANCE, "{}@ds", [("a29",)]),
        (Kind.RELEVANCE, "{}@latest", [("a29",)]),
        (Kind.QUERIES, "{}@latest", [("a29",)]),
        (Kind.SCORES, "{}@ds", [("a29",)]),
    ],
)
def test_other_inputs_are_read_whole_or_as_their_suffix_says(
    spark: SparkSession, daily: str, kind: Kind, spec: str, expected: list[tuple]
) -> None:
    assert rows(read(spark, spec.format(daily), kind=kind, ds="2026-11-29"), "item_id") == expected


def test_the_latest_day_is_the_greatest_up_to_the_one_asked_for(spark: SparkSession, daily: str) -> None:
    assert rows(read(spark, f"{daily}@latest", kind=Kind.RELEVANCE, ds="2026-11-28"), "item_id") == [("a27",)]


def test_no_day_up_to_the_one_asked_for_is_a_missing_day(spark: SparkSession, daily: str) -> None:
    with pytest.raises(MissingDay, match="no day up to 2026-11-26; nearest: 2026-11-27, 2026-11-29"):
        read(spark, f"{daily}@latest", kind=Kind.RELEVANCE, ds="2026-11-26")


def test_a_suffix_needs_a_day(spark: SparkSession, daily: str) -> None:
    with pytest.raises(UsageError, match="say which, with --ds"):
        read(spark, f"{daily}@latest", kind=Kind.RELEVANCE)


def test_the_day_of_a_table_is_a_string_or_a_date(spark: SparkSession) -> None:
    for name, data_type, day in (
        ("sources_string_days", "string", str),
        ("sources_date_days", "date", datetime.date.fromisoformat),
    ):
        stored = [("q", f"a{n}", 1.0, day(f"2026-11-{n}")) for n in (27, 29)]
        spark.createDataFrame(stored, f"{SCORES}, ds {data_type}").write.saveAsTable(name)
        frame = read(spark, f"table:{name}", ds="2026-11-29")
        assert frame.columns == ["query_id", "item_id", "score"]
        assert rows(frame, "item_id") == [("a29",)]
        assert rows(read(spark, f"table:{name}", ds="2026-11-28"), "item_id") == []
        latest = read(spark, f"table:{name}@latest", kind=Kind.RELEVANCE, ds="2026-11-28")
        assert rows(latest, "item_id") == [("a27",)]
        with pytest.raises(MissingDay, match="no day up to 2026-11-26"):
            read(spark, f"table:{name}@latest", kind=Kind.RELEVANCE, ds="2026-11-26")


def test_scores_without_the_day_column_are_refused(spark: SparkSession, daily: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no column 'ds' .*; give the directory above 'ds=\.\.\.'"):
        read(spark, f"{daily}/ds=2026-11-29", ds="2026-11-29")
    (tmp_path / "bm25.trec").write_text("q Q0 a 1 2.0 bm25\n")
    with pytest.raises(InputError, match="no column 'ds' to find the day 2026-11-29"):
        read(spark, f"{tmp_path}/bm25.trec", ds="2026-11-29")


def test_a_day_column_of_another_type_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame([("q", "a", 1.0, 20261129)], f"{SCORES}, ds int").write.parquet(f"{tmp_path}/scores")

    with pytest.raises(InputError, match="'ds' is int; a day is a string or a date"):
        read(spark, f"{tmp_path}/scores", ds="2026-11-29")


def test_text_files_lie_in_partitions_too(spark: SparkSession, tmp_path: Path) -> None:
    for day, item in (("2026-11-29", "a"), ("2026-11-30", "b")):
        (tmp_path / f"ds={day}").mkdir()
        (tmp_path / f"ds={day}" / "part.csv").write_text(f"query_id,item_id,score\nq,{item},1\nq,{item},x\n")

    frame = read(spark, f"csv:{tmp_path}", ds="2026-11-29")

    assert frame.columns == ["query_id", "item_id", "score", "_malformed", "_skipped"]
    assert rows(frame.where("_malformed is null"), "item_id") == [("a",)]
    assert rows(frame.where("_malformed is not null"), "_malformed") == [("score 'x' is not a number: q,a,x",)]


def test_a_malformed_line_stays_where_the_day_stands_in_the_lines(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("query_id,item_id,score,ds\nq,a,1,2026-11-29\nq,b,1,2026-11-30\nq,c\n")

    frame = read(spark, f"{tmp_path}/a.csv", ds="2026-11-29")

    assert rows(frame.where("item_id is not null"), "item_id") == [("a",)]
    assert rows(frame.where("item_id is null"), "_malformed") == [("not the 4 fields of the header: q,c",)]


# --- arrays


def test_an_array_gives_one_row_per_result_in_its_order(spark: SparkSession) -> None:
    lists = spark.createDataFrame(
        [("q1", [("b", 0.5), ("a", 0.9)]), ("q2", []), ("q3", None)],
        "query_id string, recommendations array<struct<movie: string, rating: float>>",
    )

    expected = spark.createDataFrame(
        [
            ("q1", "b", 0.5, 1, False),
            ("q1", "a", 0.9, 2, False),
            ("q2", None, None, None, True),
            ("q3", None, None, None, True),
        ],
        "query_id string, item_id string, score float, rank int, _empty_list boolean",
    )
    assert_df_equality(from_arrays(lists), expected, ignore_nullable=True)


def test_arrays_are_read_from_parquet_with_the_columns_beside_them(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame(
        [("als", 1, [(7, 0.5)], [(1, 2)])],
        "run_id string, query_id bigint, items array<struct<id: int, s: double>>, seen array<struct<x: int, y: int>>",
    ).write.parquet(f"{tmp_path}/als")

    frame = read(spark, f"arrays:{tmp_path}/als")

    assert rows(frame, "run_id", "query_id", "item_id", "score", "rank") == [("als", 1, 7, 0.5, 1)]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("query_id string, items array<string>", "arrays of structs: none; columns: query_id, items"),
        ("query_id string, a array<struct<x:int,y:int>>, b array<struct<x:int,y:int>>", "arrays of structs: a, b"),
        ("query_id string, items array<struct<item:int,score:int,why:int>>", r"'items' are \(item, score, why\)"),
        ("query_id string, score double, items array<struct<x:int,y:int>>", "column 'score' stands beside"),
    ],
)
def test_an_array_that_is_not_clear_is_refused(spark: SparkSession, schema: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_arrays(spark.createDataFrame([], schema))


# --- several runs


def test_a_run_is_named_by_label_tag_own_column_or_stem(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "one.trec").write_text("q Q0 a 1 2.0 tag1\nq Q0 b 2 1.0 tag2\n")
    (tmp_path / "two.csv").write_text("query_id,item_id,score\nq,c,3\n")
    spark.createDataFrame([("own", "q", "d", 4.0)], f"run_id string, {SCORES}").write.parquet(f"{tmp_path}/three")
    spark.createDataFrame([("q", "e", 5.0)], SCORES).write.parquet(f"{tmp_path}/four")
    spark.createDataFrame([("q", "f", 6.0)], SCORES).write.saveAsTable("sources_unnamed")

    frame = runs(
        spark,
        f"{tmp_path}/one.trec",
        f"{tmp_path}/two.csv",
        f"{tmp_path}/three",
        f"mine={tmp_path}/four",
        "table:sources_unnamed",
    )

    assert frame.columns == ["run_id", "query_id", "item_id", "score", "rank", "_malformed", "_skipped"]
    assert sorted(frame.drop("_malformed", "_skipped").collect()) == [
        ("mine", "q", "e", 5.0, None),
        ("own", "q", "d", 4.0, None),
        ("run", "q", "f", 6.0, None),
        ("tag1", "q", "a", 2.0, 1),
        ("tag2", "q", "b", 1.0, 2),
        ("two", "q", "c", 3.0, None),
    ]
    assert rows(frame, "_skipped") == [(False,)] * 6


def test_a_name_overrides_the_trec_tag(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "one.trec").write_text("q Q0 a 1 2.0 tag\n")

    assert rows(runs(spark, f"mine={tmp_path}/one.trec"), "run_id") == [("mine",)]
    assert rows(runs(spark, f"{tmp_path}/one.trec", run_id="mine"), "run_id") == [("mine",)]


def test_a_single_input_keeps_all_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "bm25.csv").write_text("query_id,itemid,score\nq,a,3\n")

    assert runs(spark, f"{tmp_path}/bm25.csv").columns == [
        "query_id",
        "itemid",
        "score",
        "_malformed",
        "_skipped",
        "run_id",
    ]


def test_a_name_for_scores_with_run_ids_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame([("own", "q", "d", 4.0)], f"run_id string, {SCORES}").write.parquet(f"{tmp_path}/scores")

    for spec, run_id in ((f"mine={tmp_path}/scores", None), (f"{tmp_path}/scores", "mine")):
        with pytest.raises(ContractError, match=r"scores\.run_id: .* has such a column"):
            runs(spark, spec, run_id=run_id)


def test_a_run_id_option_for_several_or_named_scores_is_a_wrong_call(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="several scores"):
        runs(spark, "a.csv", "b.csv", run_id="mine")
    with pytest.raises(UsageError, match="has a name already"):
        runs(spark, "x=a.csv", run_id="mine")
    with pytest.raises(UsageError, match=r"bad run id '\.\./x'"):
        runs(spark, "a.csv", run_id="../x")


def test_two_inputs_of_one_name_are_refused_naming_both(spark: SparkSession, tmp_path: Path) -> None:
    for folder in ("monday", "tuesday"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "bm25.csv").write_text("query_id,item_id,score\nq,a,3\n")

    with pytest.raises(UsageError, match=r"monday/bm25\.csv' and '.*tuesday/bm25\.csv' both give 'bm25'"):
        runs(spark, f"{tmp_path}/monday/bm25.csv", f"{tmp_path}/tuesday/bm25.csv")
    with pytest.raises(UsageError, match=r"'x=csv:a\.csv' and 'x=csv:b\.csv' both give 'x'"):
        runs(spark, "x=a.csv", "x=b.csv")


@pytest.mark.parametrize("second", ["tag={}/scores.csv", "{}/two.trec", "{}/three"])
def test_a_run_id_in_the_rows_of_two_inputs_is_refused(spark: SparkSession, tmp_path: Path, second: str) -> None:
    (tmp_path / "one.trec").write_text("# a comment\nq Q0 a 1 2.0 other\nq Q0 a 1 2.0 tag\n")
    (tmp_path / "two.trec").write_text("q Q0 b 1 2.0 tag\n")
    (tmp_path / "scores.csv").write_text("query_id,item_id,score\nq,a,3\n")
    spark.createDataFrame([("tag", "q", "d", 4.0)], f"run_id string, {SCORES}").write.parquet(f"{tmp_path}/three")

    with pytest.raises(UsageError, match=r"one\.trec' and '.*' both give 'tag'"):
        runs(spark, f"{tmp_path}/one.trec", second.format(tmp_path))


def test_scores_whose_types_differ_are_refused_not_converted(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame([(7, "a", 4)], "query_id int, item_id string, score bigint").write.parquet(f"{tmp_path}/one")
    spark.createDataFrame([("7", "a", 4.0)], SCORES).write.parquet(f"{tmp_path}/two")

    with pytest.raises(ContractError) as refusal:
        runs(spark, f"{tmp_path}/one", f"{tmp_path}/two")

    assert [(fault.table, fault.column) for fault in refusal.value.faults] == [
        ("scores", "query_id"),
        ("scores", "score"),
    ]


def test_several_scores_must_all_have_the_id_columns(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("query_id,item_id,score\nq,a,3\n")
    (tmp_path / "two.csv").write_text("query_id,itemid,score\nq,a,3\n")

    with pytest.raises(ContractError, match=r"scores\.item_id: no such column in .*two\.csv; did you mean 'itemid'"):
        runs(spark, f"{tmp_path}/one.csv", f"{tmp_path}/two.csv")


def test_a_day_that_only_some_scores_lack_is_no_missing_day(spark: SparkSession, daily: str, tmp_path: Path) -> None:
    spark.createDataFrame([("q", "a", 1.0, "2026-11-28")], f"{SCORES}, ds string").write.partitionBy("ds").parquet(
        f"{tmp_path}/other"
    )

    with pytest.raises(InputError, match=r"no partition ds=2026-11-28; .*; other scores have that day") as refusal:
        runs(spark, daily, f"{tmp_path}/other", ds="2026-11-28")
    assert not isinstance(refusal.value, MissingDay)
    with pytest.raises(MissingDay):
        runs(spark, daily, f"{tmp_path}/other", ds="2026-11-26")


# --- several sources of relevance


def test_labels_of_several_sources_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "nist.qrels").write_text("q 0 a 2\n")
    (tmp_path / "clicks.csv").write_text("query_id,item_id\nq,b\n")
    specs = [f"nist={tmp_path}/nist.qrels", f"clicks={tmp_path}/clicks.csv"]

    frame = read_relevance(spark, [parse_source(spec, kind=Kind.RELEVANCE) for spec in specs], ds=None)

    assert rows(frame, "source", "query_id", "item_id", "grade") == [("clicks", "q", "b", 1.0), ("nist", "q", "a", 2.0)]


def test_a_source_name_for_labels_with_sources_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("query_id,item_id,source\nq,b,x\n")

    with pytest.raises(ContractError, match=r"relevance\.source"):
        read(spark, f"mine={tmp_path}/a.csv", kind=Kind.RELEVANCE)


def test_sources_are_named_all_or_none(spark: SparkSession) -> None:
    sources = [parse_source(spec, kind=Kind.RELEVANCE) for spec in ("x=a.csv", "b.csv")]

    with pytest.raises(UsageError, match="of every --relevance"):
        read_relevance(spark, sources, ds=None)


def test_a_file_that_is_here_but_not_where_spark_runs_is_not_suggested_as_itself(tmp_path: Path) -> None:
    class Missing(AnalysisException):
        __module__ = "pyspark.errors"  # by which Spark's exceptions are known

        def getCondition(self) -> str:  # noqa: N802 - Spark's name
            return "PATH_NOT_FOUND"

    (tmp_path / "scores.csv").touch()
    source = parse_source(f"csv:{tmp_path}/scores.csv", kind=Kind.SCORES)
    with pytest.raises(InputError, match="where Spark runs, though there is one here"), one_line_errors(source):
        raise Missing("gone")
