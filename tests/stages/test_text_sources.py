"""Lines of CSV, JSON and TREC files: what becomes a row, what is skipped, what is malformed."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from recallk_spark.errors import InputError
from recallk_spark.sources import Kind, parse_source, read_source

RUN = ("run_id", "query_id", "item_id", "rank", "score")


def read(spark: SparkSession, spec: str, *, kind: Kind = Kind.SCORES) -> DataFrame:
    return read_source(spark, parse_source(spec, kind=kind), kind=kind)


def written(path: Path, text: str) -> Path:
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def good(frame: DataFrame, *columns: str) -> list[tuple]:
    """The rows of sound lines, in the order of the file (one small file is one partition)."""
    sound = [row for row in frame.collect() if row["_malformed"] is None and not row["_skipped"]]
    return [tuple(row[column] for column in columns) for row in sound]


def malformed(frame: DataFrame) -> list[str]:
    """What is said of malformed lines; they have no data."""
    bad = [row for row in frame.collect() if row["_malformed"] is not None]
    data = [name for name in frame.columns if name not in ("_malformed", "_skipped", "_empty_list")]
    assert all(row[name] is None for row in bad for name in data)
    return [row["_malformed"] for row in bad]


def skipped(frame: DataFrame) -> int:
    """The number of skipped lines; they are not malformed and have no data."""
    out = [row for row in frame.collect() if row["_skipped"]]
    assert all(value is None for row in out for name, value in row.asDict().items() if name != "_skipped")
    return len(out)


# --- TREC


def test_a_run_line_is_query_q0_item_rank_score_tag(spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path / "a.trec", "007 Q0 doc#1 1 2.5 bm25\n007 Q0 é 2 -1e-3 bm25\n")

    frame = read(spark, str(path))

    assert frame.dtypes == [
        ("run_id", "string"),
        ("query_id", "string"),
        ("item_id", "string"),
        ("score", "double"),
        ("rank", "int"),
        ("_malformed", "string"),
        ("_skipped", "boolean"),
    ]
    assert good(frame, *RUN) == [("bm25", "007", "doc#1", 1, 2.5), ("bm25", "007", "é", 2, -0.001)]


@pytest.mark.parametrize("name", ["a.trec", "a.trec.gz"])
def test_any_white_space_separates_and_lines_may_end_in_crlf(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, "\ufeffq\tQ0  a\t1   2 r\r\n  q Q0 b 2 \t 1 r \r\nq Q0 c 3 0 r")

    frame = read(spark, str(path))

    assert good(frame, *RUN) == [("r", "q", "a", 1, 2.0), ("r", "q", "b", 2, 1.0), ("r", "q", "c", 3, 0.0)]
    assert malformed(frame) == []


def test_blank_lines_and_comments_are_skipped_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path / "a.trec", "# q Q0 a 1 2 r\n\n  \t\n#\n#q Q0 #a 1 2 #r\n")

    frame = read(spark, str(path))

    assert skipped(frame) == 4
    assert good(frame, *RUN) == [("#r", "#q", "#a", 1, 2.0)]


def test_a_line_with_another_number_of_fields_is_malformed(spark: SparkSession, tmp_path: Path) -> None:
    run = written(tmp_path / "a.trec", "q1 Q0 a 1 2\nq1 Q0 my doc 1 2 r\nq1 Q0 doc 7 1 2 r\n")
    qrels = written(tmp_path / "a.qrels", "q1 0 a\nq1 0 my doc 1\n")

    assert malformed(read(spark, str(run))) == [
        "5 fields instead of 6 (query Q0 item rank score tag): q1 Q0 a 1 2",
        "7 fields instead of 6 (query Q0 item rank score tag): q1 Q0 my doc 1 2 r",
        "7 fields instead of 6 (query Q0 item rank score tag): q1 Q0 doc 7 1 2 r",
    ]
    assert malformed(read(spark, str(qrels), kind=Kind.RELEVANCE)) == [
        "3 fields instead of 4 (query iteration item grade): q1 0 a",
        "5 fields instead of 4 (query iteration item grade): q1 0 my doc 1",
    ]


def test_text_after_the_tag_of_a_run_line_is_ignored(spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path / "a.trec", "301\tQ0\tFBIS3-27619\t99\t  2.138276\tSTANDARD more junk at\n")

    assert good(read(spark, str(path)), *RUN) == [("STANDARD", "301", "FBIS3-27619", 99, 2.138276)]


def test_nan_and_infinities_are_scores_and_words_are_not(spark: SparkSession, tmp_path: Path) -> None:
    texts = ["nan", "NaN", "inf", "-INF", "+Infinity", "1d", "0x1p3", "1f", "abc", "1,5", "--1", "1e5", ".5", "5."]
    path = written(tmp_path / "a.trec", "".join(f"q Q0 {text} 1 {text} r\n" for text in texts))

    frame = read(spark, str(path))

    scores = dict(good(frame, "item_id", "score"))
    assert math.isnan(scores.pop("nan"))
    assert math.isnan(scores.pop("NaN"))
    assert scores == {"inf": math.inf, "-INF": -math.inf, "+Infinity": math.inf, "1e5": 1e5, ".5": 0.5, "5.": 5.0}
    assert malformed(frame) == [
        f"score '{text}' is not a number: q Q0 {text} 1 {text} r" for text in ("1d", "0x1p3", "1f", "abc", "1,5", "--1")
    ]


def test_a_rank_that_is_no_integer_is_null(spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path / "a.trec", "q Q0 a first 2.0 r\nq Q0 b 1.5 1.0 r\n")

    assert good(read(spark, str(path)), "item_id", "rank") == [("a", None), ("b", None)]


def test_a_grade_is_a_number_and_never_truncated(spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path / "a.qrels", "q1 0 a 1.9\nq1 0 b high\nq1 0 c 2e0\nq1 0 d -1\n")

    frame = read(spark, str(path), kind=Kind.RELEVANCE)

    assert frame.columns == ["query_id", "item_id", "grade", "_malformed", "_skipped"]
    assert good(frame, "query_id", "item_id", "grade") == [("q1", "a", 1.9), ("q1", "c", 2.0), ("q1", "d", -1.0)]
    assert malformed(frame) == ["grade 'high' is not a number: q1 0 b high"]


@pytest.mark.parametrize(
    ("name", "head", "line"), [("a.qrels", "", "{0} 0 {0} 1\n"), ("a.csv", "query_id,item_id\n", "{0},{0}\n")]
)
def test_bigint_ids_are_parsed_strictly(spark: SparkSession, tmp_path: Path, name: str, head: str, line: str) -> None:
    texts = ["7", "-7", "0", "9223372036854775807", "007", "+7", "1.0", "-0", "9223372036854775808", "q"]
    path = written(tmp_path / name, head + "".join(map(line.format, texts)))

    frame = read(spark, f"{path}@id=bigint", kind=Kind.RELEVANCE)

    assert dict(frame.dtypes)["item_id"] == "bigint"
    assert good(frame, "query_id", "item_id") == [(i, i) for i in (7, -7, 0, 9223372036854775807)]
    assert [text.split("'")[1] for text in malformed(frame)] == texts[4:]


def test_a_malformed_line_is_shown_up_to_200_characters(spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path / "a.qrels", "x" * 300 + "\n")

    assert malformed(read(spark, str(path), kind=Kind.RELEVANCE)) == [
        "1 fields instead of 4 (query iteration item grade): " + "x" * 200
    ]


def test_an_empty_trec_file_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    assert read(spark, str(written(tmp_path / "a.trec", ""))).collect() == []


# --- CSV


def test_csv_columns_are_found_by_the_names_of_the_header(spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "\ufeffscore,item_id,note,query_id,rank\r\n0.5,a,x,007,1\r\n,,,,\r\n")

    frame = read(spark, str(path))

    assert frame.dtypes == [
        ("score", "double"),
        ("item_id", "string"),
        ("note", "string"),
        ("query_id", "string"),
        ("rank", "int"),
        ("_malformed", "string"),
        ("_skipped", "boolean"),
    ]
    assert good(frame, "query_id", "item_id", "score", "rank", "note") == [
        ("007", "a", 0.5, 1, "x"),
        (None, None, None, None, None),
    ]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_csv_ids_are_the_text_as_it_stands(spark: SparkSession, tmp_path: Path, name: str) -> None:
    lines = ["query_id,item_id", '"a,b",007', '"say ""x""", a ', "null,NaN", 'back\\slash,5" nail 3"', '"",#x']
    path = written(tmp_path / name, "\n".join(lines))

    assert good(read(spark, str(path), kind=Kind.RELEVANCE), "query_id", "item_id") == [
        ("a,b", "007"),
        ('say "x"', " a "),
        ("null", "NaN"),
        ("back\\slash", '5" nail 3"'),
        (None, "#x"),
    ]


def test_what_is_wrong_with_a_csv_line_is_said(spark: SparkSession, tmp_path: Path) -> None:
    lines = ["query_id,item_id,score,rank", "q,a,1", "q,a,1,2,3", 'q,"a,1,2', "q,a, 1,2", "q,a,1,x", "q,a,1,2.0", ""]
    path = written(tmp_path / "a.csv", "\n".join([*lines, "q,a,nan,1\n"]))

    frame = read(spark, str(path))

    assert malformed(frame) == [
        "not the 4 fields of the header: q,a,1",
        "not the 4 fields of the header: q,a,1,2,3",
        'a quote that is not closed on its line: q,"a,1,2',
        "score ' 1' is not a number: q,a, 1,2",
        "rank 'x' is not an integer (int, plainly written): q,a,1,x",
        "rank '2.0' is not an integer (int, plainly written): q,a,1,2.0",
    ]
    assert skipped(frame) == 1
    assert len(good(frame, "score")) == 1


def test_the_header_of_each_file_is_left_out_and_another_order_is_malformed(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "queries").mkdir()
    written(tmp_path / "queries" / "1.csv", "query_id,country\nq1,fr\nq2,de\n")
    written(tmp_path / "queries" / "2.csv", "query_id,country\nq3,it\n")
    written(tmp_path / "queries" / "3.csv", "country,query_id\nes,q4\n")

    frame = read(spark, f"csv:{tmp_path}/queries", kind=Kind.QUERIES)

    assert sorted(good(frame, "query_id"))[1:] == [("q1",), ("q2",), ("q3",)]
    assert malformed(frame) == ["a header unlike the first one: country,query_id"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no header line"),
        ("query_id,item_id,Item_ID\n", r"two columns of one name \(Item_ID, item_id"),
        ("query_id,,score\n", "a column without a name: query_id,,score"),
    ],
)
def test_a_csv_file_needs_a_clear_header(spark: SparkSession, tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(spark, str(written(tmp_path / "a.csv", text)))


def test_other_columns_of_queries_are_text(spark: SparkSession, tmp_path: Path) -> None:
    csv = written(tmp_path / "q.csv", "query_id,weight,score\n1,0.25,high\n")
    jsonl = written(tmp_path / "q.jsonl", '{"query_id": "1", "weight": 0.25, "score": "high"}\n')

    for path in (csv, jsonl):
        assert good(read(spark, str(path), kind=Kind.QUERIES), "query_id", "weight", "score") == [("1", "0.25", "high")]


# --- JSON lines


def lines(*objects: object) -> str:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in objects)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.jsonl.gz"])
def test_json_lines_are_rows_by_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    text = lines(
        {"query_id": "007", "item_id": "é\n", "score": 1, "rank": 1},
        {"score": float("nan"), "item_id": None, "query_id": "q", "rank": None},
        {"score": float("-inf"), "query_id": "q"},
    )
    frame = read(spark, str(written(tmp_path / name, text + "\n")))

    assert frame.dtypes == [
        ("query_id", "string"),
        ("item_id", "string"),
        ("score", "double"),
        ("rank", "int"),
        ("_malformed", "string"),
        ("_skipped", "boolean"),
    ]
    assert str(good(frame, "query_id", "item_id", "score", "rank")) == str(
        [("007", "é\n", 1.0, 1), ("q", None, math.nan, None), ("q", None, -math.inf, None)]
    )
    assert skipped(frame) == 1


def test_json_integer_ids_stay_exact(spark: SparkSession, tmp_path: Path) -> None:
    ids = [2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
    path = written(tmp_path / "a.jsonl", lines(*({"query_id": i, "item_id": i} for i in ids)))

    frame = read(spark, str(path), kind=Kind.RELEVANCE)

    assert good(frame, "query_id", "item_id") == [(i, i) for i in ids]


def test_json_ids_of_another_type_than_the_first_are_malformed(spark: SparkSession, tmp_path: Path) -> None:
    texts = written(tmp_path / "a.jsonl", lines(*({"query_id": "q", "item_id": i} for i in ("7", 7, 7.0, True, ["7"]))))
    numbers = written(tmp_path / "b.jsonl", lines(*({"query_id": 1, "item_id": i} for i in (7, "7", 7.0, 1e2, 2**63))))

    assert good(read(spark, str(texts)), "item_id") == [("7",)]
    assert [text.split(": {")[0] for text in malformed(read(spark, str(texts)))] == [
        "item_id is STRING in the first lines, but here BIGINT",
        "item_id is STRING in the first lines, but here DECIMAL(1,0)",
        "item_id is STRING in the first lines, but here BOOLEAN",
        "item_id is STRING in the first lines, but here ARRAY<STRING>",
    ]
    assert good(read(spark, str(numbers)), "item_id") == [(7,)]
    assert [text.split(": {")[0] for text in malformed(read(spark, str(numbers)))] == [
        "item_id is BIGINT in the first lines, but here STRING",
        "item_id is BIGINT in the first lines, but here DECIMAL(1,0)",
        "item_id is BIGINT in the first lines, but here DECIMAL(3,0)",
        "item_id is BIGINT in the first lines, but here DECIMAL(19,0)",
    ]


def test_a_line_that_is_not_one_json_object_is_malformed(spark: SparkSession, tmp_path: Path) -> None:
    first = '{"query_id": "q", "item_id": "a", "score": 1, "rank": 1}'
    bad = [
        f"{first}{first}",
        f"{first} and more",
        f"{first}, {first}",
        f"[{first}]",
        '"q"',
        "{",
        "{'query_id': 'q'}",
        '{"score": "0.5"}',
        '{"score": true}',
        '{"rank": 1.0}',
    ]
    frame = read(spark, str(written(tmp_path / "a.jsonl", "\n".join([first, *bad]))))

    assert good(frame, "query_id", "item_id", "score", "rank") == [("q", "a", 1.0, 1)]
    assert [text.split(": ", maxsplit=1)[1] for text in malformed(frame)] == bad


def test_a_column_that_only_later_lines_have_is_malformed(spark: SparkSession, tmp_path: Path) -> None:
    text = lines(*[{"query_id": "q", "item_id": "a"}] * 100, {"query_id": "q", "item_id": "b", "grade": 3})
    frame = read(spark, str(written(tmp_path / "a.jsonl", text)), kind=Kind.RELEVANCE)

    assert "grade" not in frame.columns
    assert malformed(frame) == [
        """has 'grade', as no line before it: {"query_id": "q", "item_id": "b", "grade": 3}""",
    ]


def test_a_column_in_another_case_keeps_its_name(spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", lines({"query_id": "q", "item_id": "a", "Score": 1}))

    assert good(read(spark, str(path)), "query_id", "item_id", "Score") == [("q", "a", "1")]


def test_an_empty_json_file_has_no_rows_and_the_usual_columns(spark: SparkSession, tmp_path: Path) -> None:
    frame = read(spark, str(written(tmp_path / "a.jsonl", "")))

    assert frame.columns == ["query_id", "item_id", "score", "_malformed", "_skipped"]
    assert frame.collect() == []


def test_json_arrays_are_read_by_position(spark: SparkSession, tmp_path: Path) -> None:
    text = lines(
        {"query_id": "q1", "recs": [{"track": 9007199254740993, "score": 0.5}, {"track": 7, "score": 1}]},
        {"query_id": "q2", "recs": []},
        {"query_id": "q3"},
        {"query_id": "q4", "recs": [{"track": "7", "score": 1}]},
        {"query_id": "q5", "recs": [{"track": 7, "score": "high"}]},
        {"query_id": "q6", "recs": 7},
    )
    frame = read(spark, f"arrays:{written(tmp_path / 'a.jsonl', text)}")

    assert good(frame, "query_id", "item_id", "score", "rank", "_empty_list") == [
        ("q1", 9007199254740993, 0.5, 1, False),
        ("q1", 7, 1.0, 2, False),
        ("q2", None, None, None, True),
        ("q3", None, None, None, True),
    ]
    assert [reason.split(": {")[0] for reason in malformed(frame)] == [
        "track is BIGINT in the first lines, but here STRING",
        "not a JSON object with items and numbers in 'recs'",
        "not a JSON object with items and numbers in 'recs'",
    ]
    assert frame.where("_malformed is not null and _empty_list").count() == 0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"query_id": "q", "recs": [["a", 1.0]]}, r"'recs' holds \[\"a\", 1.0\]; objects of an item and a score"),
        ({"query_id": "q", "recs": [{"a": 1, "b": 2, "c": 3}]}, "objects of an item and a score are read"),
        ({"query_id": "q"}, "lists: none"),
        ({"query_id": "q", "a": [], "b": []}, r"Name it 'items'; lists: \['a', 'b'\]"),
    ],
)
def test_json_arrays_that_are_not_clear_are_refused(
    spark: SparkSession, tmp_path: Path, row: dict, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(spark, f"arrays:{written(tmp_path / 'a.jsonl', lines(row))}")
