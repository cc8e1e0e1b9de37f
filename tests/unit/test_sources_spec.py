"""What a SPEC means, before Spark is asked anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from recallk_spark.errors import UsageError
from recallk_spark.sources import Format, Kind, Source, parse_day, parse_source

BIGINT = (("query_id", "bigint"), ("item_id", "bigint"), ("canonical_id", "bigint"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parquet:out/run", Source(Format.PARQUET, "out/run")),
        ("table:warehouse.scores", Source(Format.TABLE, "warehouse.scores")),
        ("csv:results", Source(Format.CSV, "results")),
        ("jsonl:results", Source(Format.JSONL, "results")),
        ("trec:results", Source(Format.TREC, "results")),
        ("arrays:als.jsonl", Source(Format.ARRAYS, "als.jsonl")),
    ],
)
def test_a_format_stands_before_the_location(text: str, expected: Source) -> None:
    assert parse_source(text, kind=Kind.SCORES) == expected


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("bm25.csv", Format.CSV),
        ("bm25.CSV.gz", Format.CSV),
        ("bm25.jsonl", Format.JSONL),
        ("bm25.jsonl.gz", Format.JSONL),
        ("bm25.json", Format.JSONL),
        ("bm25.trec", Format.TREC),
        ("bm25.run", Format.TREC),
        ("bm25.trec.gz", Format.TREC),
        ("2019.qrels", Format.TREC),
        ("qrels.cast2019.txt", Format.TREC),
        ("bm25.parquet", Format.PARQUET),
        ("s3a://bucket/scores", Format.PARQUET),
        ("scores/*/part-*.csv", Format.CSV),
    ],
)
def test_without_a_format_the_ending_decides_and_the_rest_is_parquet(location: str, expected: Format) -> None:
    assert parse_source(location, kind=Kind.SCORES) == Source(expected, location)


def test_a_name_before_the_spec_is_its_label() -> None:
    assert parse_source("bm25=trec:a/b=c.run", kind=Kind.SCORES) == Source(Format.TREC, "a/b=c.run", label="bm25")
    assert parse_source("nist=qrels.txt", kind=Kind.RELEVANCE) == Source(Format.TREC, "qrels.txt", label="nist")


def test_a_path_with_an_equals_sign_has_no_name() -> None:
    assert parse_source("./ds=2026-11-29", kind=Kind.SCORES) == Source(Format.PARQUET, "./ds=2026-11-29")
    assert parse_source("out/ds=2026-11-29", kind=Kind.SCORES) == Source(Format.PARQUET, "out/ds=2026-11-29")
    assert parse_source("parquet:ds=2026-11-29", kind=Kind.SCORES) == Source(Format.PARQUET, "ds=2026-11-29")


def test_a_text_that_is_an_existing_path_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ds=2026-11-29").mkdir()
    monkeypatch.chdir(tmp_path)

    assert parse_source("ds=2026-11-29", kind=Kind.SCORES) == Source(Format.PARQUET, "ds=2026-11-29")
    assert parse_source("ds=2026-11-30", kind=Kind.SCORES) == Source(Format.PARQUET, "2026-11-30", label="ds")


@pytest.mark.parametrize("text", ["=bm25.csv", "bm25+rm3=bm25.csv", "my run=bm25.csv"])
def test_a_name_of_other_characters_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="bad name in scores"):
        parse_source(text, kind=Kind.SCORES)


def test_an_unknown_format_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(UsageError, match=r"unknown format 'cvs' .* did you mean 'csv'"):
        parse_source("cvs:/data/bm25", kind=Kind.SCORES)
    with pytest.raises(UsageError, match=r"unknown format 'orc' .*known: arrays, csv, jsonl, parquet, table, trec"):
        parse_source("orc:bm25", kind=Kind.SCORES)


@pytest.mark.parametrize("location", ["file:/data/run", "file:///data/run", "dbfs:/run", "hdfs://host:9000/run"])
def test_the_scheme_of_an_address_is_no_format(location: str) -> None:
    assert parse_source(location, kind=Kind.SCORES) == Source(Format.PARQUET, location)
    assert parse_source(f"csv:{location}", kind=Kind.SCORES) == Source(Format.CSV, location)


@pytest.mark.parametrize("text", ["", "table:", "bm25=", "bm25=csv:", "csv:@ds"])
def test_a_spec_without_a_location_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no location"):
        parse_source(text, kind=Kind.SCORES)


def test_suffixes_choose_the_day_and_the_type_of_ids_in_any_order() -> None:
    assert parse_source("table:labels@ds", kind=Kind.RELEVANCE) == Source(Format.TABLE, "labels", day="ds")
    assert parse_source("labels@latest", kind=Kind.RELEVANCE) == Source(Format.PARQUET, "labels", day="latest")
    both = Source(Format.CSV, "labels.csv", day="latest", id_types=BIGINT)
    assert parse_source("labels.csv@id=bigint@latest", kind=Kind.RELEVANCE) == both
    assert parse_source("labels.csv@latest@id=bigint", kind=Kind.RELEVANCE) == both


def test_an_at_sign_elsewhere_belongs_to_the_location() -> None:
    assert parse_source("user@host/scores", kind=Kind.SCORES) == Source(Format.PARQUET, "user@host/scores")
    assert parse_source("scores@dsx", kind=Kind.SCORES) == Source(Format.PARQUET, "scores@dsx")


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("a.csv@id=int", Kind.SCORES, "@id=bigint"),
        ("a.parquet@id=bigint", Kind.SCORES, "for csv and trec"),
        ("a.jsonl@id=bigint", Kind.SCORES, "for csv and trec"),
        ("labels@ds@latest", Kind.RELEVANCE, "one of @ds and @latest"),
        ("scores@latest", Kind.SCORES, "leave @latest out"),
        ("arrays:labels", Kind.RELEVANCE, "arrays hold scores"),
        ("trec:queries", Kind.QUERIES, "trec holds runs and judgments"),
        ("name=queries.csv", Kind.QUERIES, "takes no NAME="),
    ],
)
def test_what_an_input_has_no_use_for_is_refused(text: str, kind: Kind, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_source(text, kind=kind)


@pytest.mark.parametrize(
    "text",
    [
        "parquet:out/run",
        "table:warehouse.labels@latest",
        "bm25=trec:a/b=c.run@id=bigint",
        "bm25=csv:bm25.csv.gz@ds@id=bigint",
        "parquet:ds=2026-11-29",
        "parquet:hdfs://host:9000/run",
    ],
)
def test_a_source_prints_as_it_parses(text: str) -> None:
    source = parse_source(text, kind=Kind.RELEVANCE)
    assert str(source) == text
    assert parse_source(str(source), kind=Kind.RELEVANCE) == source


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("data/bm25.parquet", "bm25"),
        ("data/x.csv.gz", "x"),
        ("bm25.v2.trec", "bm25.v2"),
        ("results.test", "results.test"),
        ("data/bm25/", "bm25"),
        ("bm25/ds=2026-11-29", "bm25"),
        ("bm25/*.csv", "bm25"),
        ("file:///data/bm25", "bm25"),
        ("./*.csv", ""),
        ("table:warehouse.scores", ""),
    ],
)
def test_the_stem_names_the_run_of_a_path(spec: str, expected: str) -> None:
    assert parse_source(spec, kind=Kind.SCORES).stem == expected


def test_a_day_is_returned_as_it_is() -> None:
    assert parse_day("2024-02-29") == "2024-02-29"


@pytest.mark.parametrize(
    "text", ["", "../x", "2026-2-1", "2026-02-30", "20261129", "2026-W48-7", "2026-11-29 ", "2026-11-29T00:00", "today"]
)
def test_a_day_that_is_not_an_existing_iso_day_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="YYYY-MM-DD"):
        parse_day(text)
