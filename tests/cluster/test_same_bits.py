"""What undisturbed jobs on the cluster publish is, to the last bit, what local mode publishes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recallk_spark.manifest import read_table
from tests.benchmarks.generate import Size, generate
from tests.cluster.jobs import Jobs, bits
from tests.golden.test_trec import CUTOFFS, HIT_CUTOFFS

pytestmark = pytest.mark.cluster


def test_the_golden_runs_by_spark_submit(golden: Path, jobs: Jobs) -> None:
    options = [
        *(f"--scores={name}=trec:/golden/cast19_runs/bert_base_run_{name}.trec" for name in ("raw", "oracle")),
        "--relevance=trec:/golden/cast19_runs/qrels.cast2019.txt",
        *("--preset=trec_eval", f"--cutoffs={','.join(map(str, CUTOFFS))}"),
    ]
    local = jobs.start_locally(*options, "--output=/data/cast-local")
    job = jobs.run(*options, "--output=/data/cast")
    assert {event["Executor ID"] for event in job.events("ExecutorAdded")} == {"0", "1"}
    local.succeed()
    data = jobs.cluster.data
    assert bits(data / "cast", ds=None) == bits(data / "cast-local", ds=None)

    [pair] = [
        pair
        for pair in json.loads((golden / "golden_summary.json").read_text(encoding="utf-8"))
        if (pair["ds"], pair["run"], pair["level"]) == ("cast19_runs", "bert_base_run_raw.trec", 1)
    ]
    rows = read_table(str(data / "cast"), "profile", run_id="raw").to_pylist()
    assert {str(row["k"]): row["hits"] for row in rows if row["k"] in HIT_CUTOFFS} == pair["hits"]


def test_two_million_rows_with_slices(jobs: Jobs) -> None:
    generate(jobs.cluster.data / "million", Size(rows=1_000_000, runs=2))
    options = [
        *("--scores", "/data/million/scores", "--relevance", "/data/million/relevance", "--plan", "window"),
        *("--queries", "/data/million/queries", "--slices", "segment"),
    ]
    jobs.run(*options, "--output", "/data/by-cluster", quick=False)
    jobs.start_locally(*options, "--output", "/data/by-local", quick=False).succeed()
    data = jobs.cluster.data
    found = bits(data / "by-cluster", ds=None)
    assert found == bits(data / "by-local", ds=None)
    assert len(found["profile"]) == 2 * 101 * 100


def test_a_query_of_two_million_candidates_fits_into_one_gigabyte(jobs: Jobs) -> None:
    generate(jobs.cluster.data / "hot", Size(rows=200_000, hot=2_000_000))
    options = ["--scores", "/data/hot/scores", "--relevance", "/data/hot/relevance"]
    for plan in ("window", "pruned"):
        conf = {"spark.executor.memory": "1g"}
        jobs.run(*options, "--plan", plan, "--output", f"/data/hot-{plan}", quick=False, conf=conf)
    local = {"spark.driver.memory": "1g"}  # the executor of local mode is the driver
    jobs.start_locally(*options, "--plan", "window", "--output", "/data/hot-local", quick=False, conf=local).succeed()
    data = jobs.cluster.data
    expected = bits(data / "hot-local", ds=None)
    assert bits(data / "hot-window", ds=None) == expected
    measured = ("profile", "per_query")  # `protocol` tells the plan
    assert bits(data / "hot-pruned", ds=None, tables=measured) == {table: expected[table] for table in measured}


def test_through_the_connect_server(jobs: Jobs, golden: Path) -> None:
    options = [
        "--scores=trec:/golden/trec_eval_test/results.test",
        *("--relevance=trec:/golden/trec_eval_test/qrels.test", "--preset=trec_eval"),
    ]
    local = jobs.start_locally(*options, "--output=/data/connect-local")
    jobs.run(*options, "--output=/data/connect", remote=True)
    local.succeed()
    assert bits(jobs.cluster.data / "connect", ds=None) == bits(jobs.cluster.data / "connect-local", ds=None)
