"""`recallk evaluate` and its sisters as a user runs them, on small files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from recallk_spark.cli import main
from recallk_spark.manifest import published, read_table

ROOT = Path(__file__).parents[2]


def put(path: Path, **columns: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return str(path)


@pytest.fixture
def labels(tmp_path: Path) -> str:
    return put(tmp_path / "labels.parquet", query_id=["q1", "q1", "q2"], item_id=["a", "b", "c"], grade=[1, 1, 1])


def two_days(folder: Path, **runs_of_day: list[str]) -> str:
    """Scores by day; each run answers q1 with a, and on the second day with b too."""
    for place, (day, runs) in enumerate(runs_of_day.items()):
        items = ["a", "b"][: place + 1]
        rows = [(run, item, 2.0 - n) for run in runs for n, item in enumerate(items)]
        put(
            folder / f"ds={day.removeprefix('d').replace('_', '-')}" / "part.parquet",
            run_id=[run for run, _, _ in rows],
            query_id=["q1"] * len(rows),
            item_id=[item for _, item, _ in rows],
            score=[score for _, _, score in rows],
        )
    return str(folder)


def recall(output: Path, ds: str | None, run: str, k: int = 2) -> float:
    rows = read_table(str(output), "profile", ds=ds, run_id=run, columns=["k", "slice", "recall_macro"]).to_pylist()
    return next(row["recall_macro"] for row in rows if row["k"] == k and not row["slice"])


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_rerun_of_a_day_replaces_that_day_and_nothing_else(spark: SparkSession, tmp_path: Path, labels: str) -> None:
    scores = two_days(tmp_path / "scores", d2026_11_28=["A", "B"], d2026_11_29=["A", "B"])
    command = [
        "evaluate",
        "--scores",
        scores,
        "--relevance",
        labels,
        "--cutoffs",
        "1,2",
        "--output",
        str(tmp_path / "out"),
    ]
    assert main([*command, "--ds", "2026-11-28"]) == 0
    assert main([*command, "--ds", "2026-11-29"]) == 0
    first_day = files_of(tmp_path / "out" / "profile" / "ds=2026-11-28")
    assert recall(tmp_path / "out", "2026-11-28", "A") == 0.25
    assert recall(tmp_path / "out", "2026-11-29", "A") == 0.5

    two_days(tmp_path / "scores", d2026_11_28=["A", "B"], d2026_11_29=["A"])
    assert main([*command, "--ds", "2026-11-29", "--set", "protocol.missing_queries=exclude"]) == 0

    assert recall(tmp_path / "out", "2026-11-29", "A") == 1.0
    assert recall(tmp_path / "out", "2026-11-29", "B") == 0.5
    assert files_of(tmp_path / "out" / "profile" / "ds=2026-11-28") == first_day
    plain = pq.read_table(tmp_path / "out" / "profile").to_pylist()
    keys = [(str(row["ds"]), row["run_id"], row["k"]) for row in plain]
    assert len(keys) == len(set(keys)) == 2 * 2 * 2


def test_a_published_run_that_is_gone_is_warned_of_and_retired_when_asked(
    spark: SparkSession, tmp_path: Path, labels: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = two_days(tmp_path / "scores", d2026_11_28=["A", "B"])
    out = str(tmp_path / "out")
    command = ["evaluate", "--scores", scores, "--relevance", labels, "--ds", "2026-11-28", "--output", out]
    assert main(command) == 0
    two_days(tmp_path / "scores", d2026_11_28=["A"])
    assert main(command) == 0
    assert "no longer in the input: B" in capsys.readouterr().err
    assert [found.run_id for found in published(out)] == ["A", "B"]
    assert main([*command, "--replace-day"]) == 0
    assert [found.run_id for found in published(out)] == ["A"]


def test_a_day_without_rows_is_refused_or_published_as_empty(
    spark: SparkSession, tmp_path: Path, labels: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = two_days(tmp_path / "scores", d2026_11_28=["A"])
    out = str(tmp_path / "out")
    command = ["evaluate", "--scores", scores, "--relevance", labels, "--output", out]
    assert main([*command, "--ds", "2026-11-28"]) == 0
    assert main([*command, "--ds", "2026-11-27"]) == 3
    assert "2026-11-27" in capsys.readouterr().err

    pq.write_table(
        pq.read_table(f"{scores}/ds=2026-11-28/part.parquet", partitioning=None).slice(0, 0),
        f"{scores}/ds=2026-11-28/part.parquet",
    )
    assert main([*command, "--ds", "2026-11-28"]) == 3
    assert "no score rows" in capsys.readouterr().err
    assert read_table(out, "profile", ds="2026-11-28").num_rows == 100

    assert main([*command, "--ds", "2026-11-28", "--allow-empty"]) == 0
    assert read_table(out, "profile", ds="2026-11-28").num_rows == 0
    assert read_table(out, "protocol", ds="2026-11-28").num_rows == 1
    assert [(found.ds, found.run_id, found.version) for found in published(out)] == [("2026-11-28", "A", 2)]


def test_several_scores_make_several_runs_and_json_says_all(
    spark: SparkSession, tmp_path: Path, labels: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one = put(tmp_path / "bm25.parquet", query_id=["q1", "q2"], item_id=["a", "c"], score=[1.0, 1.0])
    other = put(tmp_path / "x.parquet", query_id=["q1", "q9"], item_id=["x", "c"], score=[1.0, 1.0])
    arguments = ["evaluate", "--scores", one, "--scores", f"dense={other}", "--relevance", labels, "--cutoffs", "1,5"]
    assert main([*arguments, "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result) == {"protocol", "fingerprint", "counts", "profile"}
    assert {(row["run_id"], row["k"]): row["recall_macro"] for row in result["profile"]} == {
        ("bm25", 1): 0.75,
        ("bm25", 5): 0.75,
        ("dense", 1): 0.0,
        ("dense", 5): 0.0,
    }
    assert result["counts"]["dense"]["all"]["queries_unjudged"] == 1
    assert result["counts"]["dense"]["all"]["queries_missing"] == 1
    assert result["protocol"]["cutoffs"] == [1, 5]


def test_several_min_grades_are_evaluated_and_published_side_by_side(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # at 1 q1 finds a of a and b and q2 its c; at 2.5 only b of q1 is relevant, which is not found, and c of q2
    grades = [1, 3, 2.5]
    labels = put(tmp_path / "labels.parquet", query_id=["q1", "q1", "q2"], item_id=["a", "b", "c"], grade=grades)
    run = put(tmp_path / "run.parquet", query_id=["q1", "q2"], item_id=["a", "c"], score=[1.0, 1.0])
    out = tmp_path / "out"
    arguments = ["evaluate", "--scores", run, "--relevance", labels, "--cutoffs", "1", "--depth", "3"]
    several = ["--set", "protocol.min_grade=3,1,2.5", "--output", str(out)]
    assert main([*arguments, *several, "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["protocol"]["min_grade"] == [1, 2.5, 3]
    assert result["counts"]["run"]["all"]["queries_no_relevant"] == 0
    names = ("min_grade", "recall_macro", "recall_micro", "relevant", "queries", "queries_no_relevant")
    assert [tuple(row[name] for name in names) for row in result["profile"]] == [
        (1.0, 3 / 4, 2 / 3, 3, 2, 0),
        (2.5, 1 / 2, 1 / 2, 2, 2, 0),
        (3.0, 0.0, 0.0, 1, 1, 1),
    ]
    published_rows = read_table(str(out), "profile", run_id="run", columns=["min_grade", "k"]).to_pylist()
    assert sorted((row["min_grade"], row["k"]) for row in published_rows) == [
        (grade, k) for grade in (1.0, 2.5, 3.0) for k in (1, 2, 3)
    ]
    per_query = read_table(str(out), "per_query", run_id="run", columns=["query_id", "num_relevant"]).to_pylist()
    assert {row["query_id"]: row["num_relevant"] for row in per_query} == {"q1": 2, "q2": 1}

    assert main([*arguments, "--set", "protocol.min_grade=1,2.5"]) == 0
    printed = capsys.readouterr().out
    assert "min_grade" in printed.splitlines()[0]
    assert "run, min_grade 1: 2 queries counted" in printed
    assert "protocol: grade>=1,2.5 depth=3" in printed
    assert main([*arguments, "--set", "protocol.min_grade=1,0"]) == 2
    assert "--set protocol.min_grade: a number > 0, not 0.0" in capsys.readouterr().err


def test_an_option_stands_above_the_environment_and_that_above_the_file(
    spark: SparkSession,
    tmp_path: Path,
    labels: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = put(tmp_path / "run.parquet", query_id=["q1"], item_id=["a"], score=[1.0])
    file = tmp_path / "job.toml"
    file.write_text(
        f'[job]\nscores = ["{run}"]\nrelevance = "{labels}"\nformat = "json"\n'
        '[protocol]\ncutoffs = [1]\nno_relevant = "one"\ngain = "exponential"\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("RECALLK_PROTOCOL_NO_RELEVANT", "zero")
    monkeypatch.setenv("RECALLK_PROTOCOL_CUTOFFS", "1,2")
    assert main(["evaluate", "--config", str(file), "--cutoffs", "3"]) == 0
    protocol = json.loads(capsys.readouterr().out)["protocol"]
    assert (protocol["cutoffs"], protocol["no_relevant"], protocol["gain"]) == ([3], "zero", "exponential")


def test_the_table_shows_macro_beside_micro_counts_and_protocol(
    spark: SparkSession, tmp_path: Path, labels: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = put(tmp_path / "run.parquet", query_id=["q1", "q2"], item_id=["a", "c"], score=[1.0, 1.0])
    queries = put(tmp_path / "queries.parquet", query_id=["q1", "q2"], country=["de", None])
    arguments = ["--scores", run, "--relevance", labels, "--queries", queries, "--slices", "country", "--cutoffs", "1"]
    assert main(["evaluate", *arguments]) == 0
    printed = capsys.readouterr().out
    for words in (
        "recall macro [95 %]",
        "recall micro [95 %]",
        "0.7500",
        "0.6667",
        "(null)",
        "2 queries counted",
        "protocol: grade>=1",
    ):
        assert words in printed


def test_validate_prints_the_counts_or_every_fault(
    spark: SparkSession, tmp_path: Path, labels: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good = put(tmp_path / "run.parquet", query_id=["q1", "q1"], item_id=["z", "z"], score=[1.0, 0.5])
    assert main(["validate", "--scores", good, "--relevance", labels]) == 0
    printed = capsys.readouterr().out
    assert "1 duplicate results" in printed
    assert "no fault found" in printed
    bad = put(tmp_path / "bad.parquet", query_id=["q1", None], item_id=[None, "b"], score=[1.0, float("nan")])
    assert main(["validate", "--scores", bad, "--relevance", labels]) == 3
    said = capsys.readouterr().err
    assert "3 faults" in said
    for column in ("scores.query_id", "scores.item_id", "scores.score"):
        assert column in said


def test_explain_prints_protocol_and_plan_and_says_what_a_deep_list_costs(
    spark: SparkSession, tmp_path: Path, labels: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = put(tmp_path / "run.parquet", query_id=["q1"], item_id=["a"], score=[1.0])
    assert main(["explain", "--scores", run, "--relevance", labels, "--depth", "2000", "--plan", "window"]) == 0
    printed = capsys.readouterr().out
    for words in ("tie_break", "fingerprint", "plan", "window", "windowGroupLimitThreshold", "Physical Plan"):
        assert words in printed


def test_a_job_beyond_its_time_limit_ends_with_4_and_leaves_the_earlier_result(
    spark: SparkSession, tmp_path: Path, labels: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = put(tmp_path / "run.parquet", query_id=["q1"], item_id=["a"], score=[1.0])
    out = tmp_path / "out"
    command = ["evaluate", "--scores", run, "--relevance", labels, "--cutoffs", "2", "--output", str(out)]
    assert main(command) == 0
    before = files_of(out)
    assert main([*command, "--job-timeout", "0.05"]) == 4
    assert "job_timeout" in capsys.readouterr().err
    assert files_of(out) == before


def test_no_per_query_leaves_that_table_out(spark: SparkSession, tmp_path: Path, labels: str) -> None:
    run = put(tmp_path / "run.parquet", query_id=["q1"], item_id=["a"], score=[1.0])
    command = ["evaluate", "--scores", run, "--relevance", labels, "--output", str(tmp_path / "out"), "--no-per-query"]
    assert main(command) == 0
    assert published(str(tmp_path / "out"))[0].tables == ("profile", "protocol")


def test_spark_submit_runs_the_job(tmp_path: Path, labels: str, spark_conf_dir: str) -> None:
    env = {**os.environ, "SPARK_CONF_DIR": spark_conf_dir}
    run = put(tmp_path / "run.parquet", query_id=["q1", "q2"], item_id=["a", "c"], score=[1.0, 1.0])
    submit = Path(sys.executable).with_name("spark-submit")
    command = [
        str(submit),
        "--master",
        "local[2]",
        str(ROOT / "jobs" / "evaluate.py"),
        "--scores",
        run,
        "--relevance",
        labels,
    ]
    ended = subprocess.run(
        [*command, "--format", "json", "--output", str(tmp_path / "out")],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert json.loads(ended.stdout)["profile"][0]["recall_macro"] == 0.75
    assert recall(tmp_path / "out", None, "run", k=1) == 0.75

    refused = subprocess.run(
        [*command, "--cutoffs", "0"], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert refused.returncode == 2


def test_java_options_of_the_machine_s_own_settings_stay_beside_ours(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -Dproxy=there\n", encoding="utf-8")
    code = (
        "from recallk_spark.session import start\n"
        "spark = start(master='local[1]', remote=None, conf={}, depth=1)\n"
        "told = spark._jvm.java.lang.System.getProperty\n"
        "print(told('proxy'), told('log4j2.configurationFile'))"
    )
    env = {**os.environ, "SPARK_CONF_DIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120, check=True
    )
    proxy, quiet = ended.stdout.split()
    assert proxy == "there"
    assert quiet.endswith("quiet-log4j2.properties")


def test_comment_lines_of_a_run_are_skipped_and_counted_and_malformed_ones_reported_once(
    spark: SparkSession, tmp_path: Path, labels: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run.trec"
    run.write_text("# a comment\n\nq1 Q0 a 1 2.0 tag\n", encoding="utf-8")
    assert main(["validate", "--scores", str(run), "--relevance", labels, "--format", "json"]) == 0
    counts = json.loads(capsys.readouterr().out)["counts"]
    assert list(counts) == ["tag"]
    assert counts["tag"]["skipped_lines"] == 2
    run.write_text("q1 Q0 a 1 2.0 tag\nq1 Q0 b\n", encoding="utf-8")
    assert main(["validate", "--scores", str(run), "--relevance", labels]) == 3
    said = capsys.readouterr().err
    assert "malformed line" in said
    assert "faults" not in said


def test_a_missing_day_of_integer_ids_may_be_published_as_empty(spark: SparkSession, tmp_path: Path) -> None:
    scores = tmp_path / "scores"
    put(scores / "ds=2026-11-28" / "part.parquet", query_id=[1], item_id=[7], score=[1.0])
    labels = put(tmp_path / "labels.parquet", query_id=[1], item_id=[7])
    command = ["evaluate", "--scores", f"A={scores}", "--relevance", labels, "--output", str(tmp_path / "out")]
    assert main([*command, "--ds", "2026-11-27", "--allow-empty"]) == 0
    assert [(found.ds, found.run_id) for found in published(str(tmp_path / "out"))] == [("2026-11-27", "A")]


def test_a_path_may_hold_blanks_and_accents(
    spark: SparkSession, tmp_path: Path, labels: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = put(tmp_path / "my données" / "run 1.parquet", query_id=["q1"], item_id=["a"], score=[1.0])
    out = tmp_path / "mes résultats %20 été"
    assert main(["evaluate", "--scores", run, "--relevance", labels, "--output", str(out)]) == 0, (
        capsys.readouterr().err
    )
    assert recall(out, None, "run 1", k=1) == 0.25
