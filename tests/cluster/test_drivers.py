"""Drivers that are killed before and during the commit, and several that write one day at once."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.cluster.conftest import DAY, EARLIER, Shop
from tests.cluster.engine import Cluster, wait_until
from tests.cluster.jobs import Jobs, bits, files, runs_of

pytestmark = pytest.mark.cluster

ALONE = {"spark.cores.max": "1"}  # leaves the other worker to the other job


def many_runs(folder: Path, count: int) -> None:
    """Scores of many runs, so that a commit, which goes from run to run, takes its time."""
    rows = [(f"r{run:03d}", f"q{query}", f"d{item}", (run * 7 + item * 5) % 11 / 10) for run, query, item in
            product(range(count), range(4), range(5))]  # fmt: skip
    (folder / f"ds={DAY}").mkdir(parents=True)
    names = ["run_id", "query_id", "item_id", "score"]
    table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    pq.write_table(table, folder / f"ds={DAY}" / "part.parquet")


def test_a_driver_killed_before_or_in_the_commit_leaves_whole_runs_and_the_rerun_the_rest(
    cluster: Cluster, jobs: Jobs, shop: Shop
) -> None:
    many_runs(cluster.data / "runs" / "scores", 60)
    pq.write_table(
        pa.table({"query_id": ["q0", "q1", "q2"], "item_id": ["d1", "d2", "d9"]}), cluster.data / "labels.parquet"
    )
    options = ["--scores=/data/runs/scores", "--relevance=/data/labels.parquet", f"--ds={DAY}", "--cutoffs=1,3"]
    undisturbed = jobs.start_locally(*options, "--output=/data/runs-expected")
    expected = cluster.data / "runs-expected"
    out, _ = shop.output("killed")
    before = files(out)

    job = jobs.start(*options, "--output=/data/killed")
    job.kill_when("/data/killed/_attempts/*/protocol", 1)
    assert {name: data for name, data in files(out).items() if not name.startswith("_attempts/")} == before

    job = jobs.start(*options, "--output=/data/killed")
    job.kill_when(f"/data/killed/_manifest/ds={DAY}/run_id=*/v*.json", 5)
    done = runs_of(out, DAY)
    assert 5 <= len(done) < 60
    undisturbed.succeed()
    assert bits(out, ds=DAY) == bits(expected, ds=DAY, runs=done)

    jobs.run(*options, "--output=/data/killed")
    assert bits(out, ds=DAY) == bits(expected, ds=DAY)
    assert {name: data for name, data in files(out).items() if f"ds={EARLIER}/" in name} == before
    assert not (out / "_attempts").exists()
    plain = pq.read_table(out / "profile" / f"ds={DAY}")
    assert plain.num_rows == len(bits(expected, ds=DAY)["profile"])


def test_two_jobs_write_different_runs_of_a_day_at_once(cluster: Cluster, jobs: Jobs, shop: Shop) -> None:
    out, options = shop.output("two")
    scores = pq.read_table(cluster.data / "shop" / "scores" / f"ds={DAY}", partitioning=None)
    started = []
    for run in ("run0", "run1"):
        (cluster.data / run / f"ds={DAY}").mkdir(parents=True)
        of_run = scores.filter(pc.equal(scores["run_id"].cast("string"), run)).drop_columns("run_id")
        pq.write_table(of_run, cluster.data / run / f"ds={DAY}" / "part.parquet")
        started.append(jobs.start(f"--scores={run}=/data/{run}", *options[2:], conf=ALONE))
    wait_until(lambda: len(list(out.glob("_attempts/*/_scratch"))) == 2, "two attempts at once")
    assert [job.exit() for job in started] == [0, 0]
    assert runs_of(out, DAY) == {"run0", "run1"}
    tables = ("profile", "per_query")  # the inputs, of which `protocol` tells, are others
    expected = bits(shop.expected, ds=DAY, runs={"run0", "run1"}, tables=tables)
    assert bits(out, ds=DAY, tables=tables) == expected


def test_of_two_jobs_that_write_one_run_at_once_one_wins_and_the_other_says_so(
    cluster: Cluster, jobs: Jobs, shop: Shop
) -> None:
    out, options = shop.output("same")
    both = [jobs.start(*options, conf=ALONE) for _ in range(2)]
    wait_until(lambda: len(list(out.glob("_attempts/*/_scratch"))) == 2, "two attempts at once")
    exits = [job.exit() for job in both]
    assert sorted(exits) == [0, 4]
    loser = both[exits.index(4)]
    assert "another writer published" in loser.said
    assert "published by this attempt: nothing" in loser.said
    assert bits(out, ds=DAY) == bits(shop.expected, ds=DAY)
    assert not (out / "_attempts").exists()
