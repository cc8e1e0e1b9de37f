"""Bad input of every kind: the right exit code, one clear message, no traceback, and the earlier result untouched."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from recallk_spark.cli import main

SCORES = {"query_id": ["q1", "q1", "q2"], "item_id": ["a", "b", "c"], "score": [2.0, 1.0, 1.0]}
RELEVANCE = {"query_id": ["q1", "q2"], "item_id": ["a", "c"], "grade": [1, 1]}
NAN, INF = float("nan"), float("inf")


def put(folder: Path, name: str, columns: dict[str, Any]) -> str:
    path = folder / name
    pq.write_table(pa.table(columns), path)
    return str(path)


def text(folder: Path, name: str, content: str) -> str:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return str(path)


@dataclass(frozen=True)
class Bad:
    """One bad command: what is put in place of the good inputs, further options, and how it must end."""

    code: int
    says: tuple[str, ...]
    scores: Callable[[Path], str] | dict[str, Any] = field(default_factory=lambda: SCORES)
    relevance: Callable[[Path], str] | dict[str, Any] = field(default_factory=lambda: RELEVANCE)
    options: tuple[str, ...] = ()


def changed(table: dict[str, Any], **columns: Any) -> dict[str, Any]:
    return {name: values for name, values in {**table, **columns}.items() if values is not None}


def truncated(folder: Path) -> str:
    path = Path(put(folder, "cut.parquet", SCORES))
    path.write_bytes(path.read_bytes()[:-20])
    return str(path)


def no_parquet(folder: Path) -> str:
    return text(folder, "not.parquet", "query_id,item_id,score\nq1,a,1\n")


CASES = {
    # usage: options, settings, days
    "cutoff of zero": Bad(2, ("cutoffs", "positive"), options=("--cutoffs", "0")),
    "cutoff that is no number": Bad(2, ("cutoffs", "ten"), options=("--cutoffs", "ten")),
    "depth below a cutoff": Bad(2, ("depth", "cutoff"), options=("--cutoffs", "10", "--depth", "5")),
    "depth beyond the greatest": Bad(2, ("10000",), options=("--depth", "10001")),
    "month 13": Bad(2, ("2026-13-01",), options=("--ds", "2026-13-01")),
    "30 February": Bad(2, ("2026-02-30",), options=("--ds", "2026-02-30")),
    "a day without zeros": Bad(2, ("2026-2-1",), options=("--ds", "2026-2-1")),
    "a path as a day": Bad(2, ("../2026-11-29",), options=("--ds", "../2026-11-29")),
    "unknown setting": Bad(2, ("tie_brake", "tie_break"), options=("--set", "protocol.tie_brake=item_asc")),
    "unknown value": Bad(2, ("item_dsc", "item_desc"), options=("--set", "protocol.tie_break=item_dsc")),
    "unknown preset": Bad(2, ("trec_evil", "trec_eval"), options=("--preset", "trec_evil")),
    "unknown option": Bad(2, ("--cutof",), options=("--cutof", "1")),
    "unknown plan": Bad(2, ("windows", "window"), options=("--plan", "windows")),
    "unknown format": Bad(2, ("xml",), options=("--format", "xml")),
    "missing config file": Bad(2, ("nowhere.toml",), options=("--config", "nowhere.toml")),
    "slices without queries": Bad(2, ("slices", "queries"), options=("--slices", "country")),
    "negative min_grade": Bad(2, ("min_grade",), options=("--set", "protocol.min_grade=-1")),
    "master and remote": Bad(2, ("master", "remote"), options=("--master", "local[1]", "--remote", "sc://x")),
    # inputs that are not there, or cannot be read
    "no such path": Bad(3, ("nothing.parquet",), scores=lambda folder: str(folder / "nothing.parquet")),
    "no such table": Bad(3, ("no_such_table",), scores=lambda _: "table:no_such_table"),
    "truncated Parquet": Bad(3, ("cut.parquet",), scores=truncated),
    "text called Parquet": Bad(3, ("not.parquet",), scores=no_parquet),
    "TREC line of five fields": Bad(
        3, ("malformed", "q1 Q0 a 1 2"), scores=lambda folder: text(folder, "run.trec", "q1 Q0 a 1 2\n")
    ),
    "TREC score that is no number": Bad(
        3, ("malformed", "abc"), scores=lambda folder: text(folder, "run.trec", "q1 Q0 a 1 abc r\n")
    ),
    "CSV grade that is no number": Bad(
        3, ("malformed", "high"), relevance=lambda folder: text(folder, "r.csv", "query_id,item_id,grade\nq1,a,high\n")
    ),
    "CSV line with a field too many": Bad(
        3, ("malformed",), scores=lambda folder: text(folder, "s.csv", "query_id,item_id,score\nq1,a,1,2\n")
    ),
    "JSON line that is none": Bad(
        3,
        ("malformed",),
        scores=lambda folder: text(folder, "s.jsonl", '{"query_id":"q1","item_id":"a","score":1}\n{oops\n'),
    ),
    # names and types
    "no item column": Bad(3, ("scores.item_id", "no such column"), scores=changed(SCORES, item_id=None)),
    "a column's name misspelt": Bad(3, ("itm_id",), scores=changed(SCORES, item_id=None, itm_id=["a", "b", "c"])),
    "floating ids": Bad(3, ("scores.query_id", "double"), scores=changed(SCORES, query_id=[1.0, 1.0, 2.0])),
    "integer against string ids": Bad(3, ("item_id", "bigint", "string"), scores=changed(SCORES, item_id=[1, 2, 3])),
    "text scores": Bad(3, ("scores.score", "string"), scores=changed(SCORES, score=["2", "1", "1"])),
    "text grades": Bad(3, ("relevance.grade", "string"), relevance=changed(RELEVANCE, grade=["1", "1"])),
    "a day, but no column ds": Bad(3, ("ds",), options=("--ds", "2026-11-29")),
    # values
    "null query": Bad(
        3, ("scores.query_id", "null", "1 at fault"), scores=changed(SCORES, query_id=["q1", None, "q2"])
    ),
    "null item": Bad(3, ("scores.item_id", "null"), scores=changed(SCORES, item_id=["a", None, "c"])),
    "NaN and null scores": Bad(
        3, ("scores.score", "2 at fault", "query q1, item b"), scores=changed(SCORES, score=[2.0, NAN, None])
    ),
    "null label": Bad(3, ("relevance.item_id", "null"), relevance=changed(RELEVANCE, item_id=["a", None])),
    "infinite grade": Bad(3, ("relevance.grade", "infinite"), relevance=changed(RELEVANCE, grade=[1.0, INF])),
    "every fault at once": Bad(
        3,
        ("2 faults", "scores.query_id", "relevance.grade"),
        scores=changed(SCORES, query_id=["q1", None, "q2"]),
        relevance=changed(RELEVANCE, grade=[1.0, NAN]),
    ),
    # whole inputs
    "no score rows": Bad(3, ("no score rows",), scores=lambda folder: empty(folder, "scores.parquet", SCORES)),
    "no labels": Bad(3, ("no labels",), relevance=lambda folder: empty(folder, "labels.parquet", RELEVANCE)),
    "no query in common": Bad(
        3,
        ("no query in common", "'q1' to 'q2'", "'Q1' to 'Q2'", "upper case"),
        relevance=changed(RELEVANCE, query_id=["Q1", "Q2"]),
    ),
    "duplicates refused": Bad(
        3,
        ("duplicate", "1 at fault"),
        scores=changed(SCORES, item_id=["a", "a", "c"]),
        options=("--set", "protocol.duplicates=error"),
    ),
    "a missing query refused": Bad(
        3,
        ("missing queries", "query q2"),
        scores=changed(SCORES, query_id=["q1", "q1", "q9"]),
        options=("--set", "protocol.missing_queries=error"),
    ),
    "short lists refused": Bad(
        3, ("shorter than 5",), options=("--cutoffs", "5", "--set", "protocol.short_lists=error")
    ),
    "runs without a name": Bad(3, ("scores.run_id", "2 at fault"), scores=changed(SCORES, run_id=["r", None, ""])),
    "run named twice": Bad(3, ("run_id",), scores=changed(SCORES, run_id=["r", "r", "r"]), options=("--run-id", "x")),
}


def empty(folder: Path, name: str, columns: dict[str, Any]) -> str:
    path = folder / name
    pq.write_table(pa.table(columns).slice(0, 0), path)
    return str(path)


def fingerprint_of(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path.relative_to(folder)).encode() + (path.read_bytes() if path.is_file() else b""))
    return digest.hexdigest()


@pytest.fixture(scope="module")
def published(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good result, published before anything goes wrong."""
    folder = tmp_path_factory.mktemp("good")
    good = ["--scores", put(folder, "run.parquet", SCORES), "--relevance", put(folder, "labels.parquet", RELEVANCE)]
    assert main(["evaluate", *good, "--output", str(folder / "out"), "--cutoffs", "1,5"]) == 0
    return folder / "out"


@pytest.mark.parametrize("name", CASES)
def test_bad_input_ends_with_its_exit_code_and_one_clear_message(
    name: str, published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    bad = CASES[name]
    inputs = []
    for option, given in (("scores", bad.scores), ("relevance", bad.relevance)):
        inputs += [
            f"--{option}",
            put(tmp_path, f"{option}.parquet", given) if isinstance(given, dict) else given(tmp_path),
        ]
    before = fingerprint_of(published)
    capsys.readouterr()

    code = main(["evaluate", *inputs, "--output", str(published), *bad.options])

    printed = capsys.readouterr()
    assert code == bad.code, printed.err
    assert printed.out == ""
    assert printed.err.startswith("recallk: ")
    assert "Traceback" not in printed.err
    assert "\tat " not in printed.err
    for words in bad.says:
        assert words in printed.err
    assert fingerprint_of(published) == before
