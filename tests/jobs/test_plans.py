"""The plan of a job: which it is, that it changes no number, and input files that change under it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recallk_spark import inputs, job
from recallk_spark.cli import main
from recallk_spark.manifest import read_table
from tests.jobs.test_evaluate import files_of, put


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    scores = put(
        tmp_path / "scores.parquet",
        query_id=["q1"] * 4 + ["q2"] * 2 + ["q3"],
        item_id=["a", "b", "b", "c", "a", "c", "x"],
        score=[0.9, 0.9, 0.5, 0.7, 0.2, 0.2, 1.0],
    )
    labels = put(
        tmp_path / "labels.parquet", query_id=["q1", "q1", "q2", "q4"], item_id=["b", "c", "c", "a"], grade=[1, 2, 1, 1]
    )
    queries = put(tmp_path / "queries.parquet", query_id=["q1", "q2", "q4"], land=["de", "at", "de"])
    return ["--scores", scores, "--relevance", labels, "--queries", queries, "--slices", "land", "--cutoffs", "1,2,3"]


def plan_and_reason(options: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert main(["explain", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("plan")
    return [lines[place + 1].split(":")[0].strip(), lines[place + 2].removeprefix("  why: ")]


def test_explain_says_which_plan_and_why(
    spark: SparkSession,
    tmp_path: Path,
    tables: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert plan_and_reason(tables, capsys) == [
        "pruned",
        "the scores are files, which read the same twice, and relevance is small",
    ]
    assert plan_and_reason([*tables, "--plan", "window"], capsys) == ["window", "asked for"]
    strict = [*tables, "--set", "protocol.duplicates=error"]
    assert plan_and_reason(strict, capsys) == ["window", "duplicates = error takes whole lists"]
    csv = tmp_path / "run.csv"
    csv.write_text("query_id,item_id,score\nq1,a,1\n")
    assert plan_and_reason(["--scores", str(csv), *tables[2:]], capsys) == [
        "window",
        f"csv:{csv}: only Parquet is read twice",
    ]
    monkeypatch.setattr(inputs, "MAX_LABEL_BYTES", 10)
    plan, why = plan_and_reason(tables, capsys)
    assert plan == "window"
    assert "more than the 10 that are sent to every executor" in why


def test_both_plans_publish_the_same(spark: SparkSession, tmp_path: Path, tables: list[str]) -> None:
    def rows(plan: str, table: str) -> list[dict[str, Any]]:
        found = read_table(str(tmp_path / plan), table, ds=None, run_id="scores").to_pylist()
        return sorted(found, key=repr)

    for plan in ("window", "pruned"):
        assert main(["evaluate", *tables, "--plan", plan, "--output", str(tmp_path / plan)]) == 0
    assert rows("pruned", "profile") == rows("window", "profile")
    assert rows("pruned", "per_query") == rows("window", "per_query")
    (counted,), (sorted_,) = rows("pruned", "protocol"), rows("window", "protocol")
    assert (counted.pop("plan"), sorted_.pop("plan")) == ("pruned", "window")
    assert json.loads(counted["counts"]) == json.loads(sorted_["counts"])
    assert counted == sorted_


def test_scores_that_are_written_while_they_are_read_twice_stop_the_job(
    spark: SparkSession,
    tmp_path: Path,
    tables: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out"
    command = ["evaluate", *tables, "--output", str(out)]
    assert main(command) == 0
    before = files_of(out)
    store = job._store_lists

    def meanwhile(*given: Any) -> Any:
        stored = store(*given)
        os.utime(tables[1], (1, 1))
        return stored

    monkeypatch.setattr(job, "_store_lists", meanwhile)
    assert main(command) == 3
    assert "changed while it was read twice" in capsys.readouterr().err
    assert files_of(out) == before
    assert main([*command, "--plan", "window"]) == 0  # one scan reads what was there when it began
