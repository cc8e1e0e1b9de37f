"""Workers that die, join late, are slow or full: the same bits, or exit 4 with the earlier day as it was."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.cluster.conftest import DAY, Shop
from tests.cluster.engine import Cluster, wait_until
from tests.cluster.jobs import MANY_TASKS, Job, Jobs, begin_with, bits, files

pytestmark = pytest.mark.cluster


def in_the_middle(stage: dict[str, Any]) -> bool:
    """Whether some of a stage's tasks have ended and several have not."""
    return stage["status"] == "ACTIVE" and 2 <= stage["numCompleteTasks"] < stage["numTasks"] - 3


def lost(job: Job) -> list[str]:
    """Why executors were lost before the job's last task ended, as its event log says."""
    ended = max(event["Task Info"]["Finish Time"] for event in job.events("TaskEnd"))
    return [event["Removed Reason"] for event in job.events("ExecutorRemoved") if event["Timestamp"] < ended]


def test_a_worker_killed_in_the_middle_of_the_shuffle(cluster: Cluster, jobs: Jobs, shop: Shop) -> None:
    out, options = shop.output("shuffle")
    job = jobs.start(*options, conf={**MANY_TASKS, **begin_with(2)})
    job.wait_for_stage(lambda stage: in_the_middle(stage) and stage["shuffleReadRecords"] > 1000, "a shuffle is read")
    cluster.kill_at_work(cluster.workers[0])
    assert job.exit() == 0, job.said[-3000:]
    assert lost(job)
    assert "ExecutorLostFailure" in job.failures()
    again = [event for event in job.events("StageSubmitted") if event["Stage Info"]["Stage Attempt ID"] > 0]
    assert again, "no stage was run again"
    assert bits(out, ds=DAY) == bits(shop.expected, ds=DAY)


def test_a_worker_killed_while_output_is_written(cluster: Cluster, jobs: Jobs, shop: Shop) -> None:
    out, options = shop.output("writing")
    job = jobs.start(*options, conf={**MANY_TASKS, **begin_with(2), "spark.sql.shuffle.partitions": "40"})
    written = f"_attempts/*/per_query/ds={DAY}/_temporary/0/task_*"
    wait_until(lambda: job.ended or len(list(out.glob(written))) >= 2, "committed tasks of per_query", pause=0.01)
    cluster.kill_at_work(cluster.workers[0])
    assert job.exit() == 0, job.said[-3000:]
    assert lost(job)
    assert "ExecutorLostFailure" in job.failures()
    assert bits(out, ds=DAY) == bits(shop.expected, ds=DAY)


def test_executors_killed_until_a_task_has_failed_too_often(cluster: Cluster, jobs: Jobs, shop: Shop) -> None:
    out, options = shop.output("executors")
    before = files(out)
    job = jobs.start(*options, conf={"spark.task.maxFailures": "2", "spark.cores.max": "1"})
    killed: set[str] = set()

    def new(tasks: str) -> set[str]:
        return {one["id"] for one in cluster.executors() if one[tasks]} - killed

    while not job.ended:
        wait_until(lambda: job.ended or new("totalTasks"), "an executor that is given tasks")
        cluster.signal_executors("STOP")  # or tasks of a tenth of a second are over before anything is killed
        wait_until(lambda: job.ended or new("activeTasks"), "a task of a stopped executor")
        killed |= new("activeTasks")
        cluster.signal_executors("KILL")
    assert job.exit() == 4, job.said[-3000:]
    assert len(killed) >= 2
    assert "failed 2 times" in job.said
    assert job.failures() == {"ExecutorLostFailure"}
    assert files(out) == before


def test_without_any_worker_a_job_ends_by_its_own_time_limit(cluster: Cluster, jobs: Jobs, shop: Shop) -> None:
    out, options = shop.output("nobody")
    before = files(out)
    cluster.kill(*cluster.workers)
    began = time.monotonic()
    job = jobs.start(*options, "--job-timeout", "20")
    assert job.exit(90) == 4, job.said[-3000:]
    assert time.monotonic() - began >= 20
    assert "not finished within job_timeout = 20 s" in job.said
    assert "has not accepted any resources" in job.said
    assert job.events("TaskStart") == []
    assert files(out) == before


def test_a_worker_that_joins_late_takes_its_share(cluster: Cluster, jobs: Jobs, shop: Shop) -> None:
    out, options = shop.output("late")
    cluster.kill(cluster.workers[0])
    job = jobs.start(*options, conf=MANY_TASKS)
    job.wait_for_stage(lambda stage: stage["numCompleteTasks"] > 0, "a task has ended")
    cluster.begin(cluster.workers[0])
    assert job.exit() == 0, job.said[-3000:]
    first, second = job.events("ExecutorAdded")
    assert first["Executor Info"]["Host"] != second["Executor Info"]["Host"]
    assert {event["Task Info"]["Executor ID"] for event in job.events("TaskEnd")} == {"0", "1"}
    assert bits(out, ds=DAY) == bits(shop.expected, ds=DAY)


def test_a_worker_whose_disk_is_full_is_left_out(cluster: Cluster, jobs: Jobs, shop: Shop) -> None:
    out, options = shop.output("full")
    cluster.add_small_worker("16k")  # less than what any one task of the first shuffle writes
    # such a worker fails every task at once, and so would be given one after another
    excluding = {"spark.excludeOnFailure.enabled": "true"}
    job = jobs.run(*options, conf={**MANY_TASKS, **begin_with(3), **excluding})
    failed = [str(event["Task End Reason"]) for event in job.events("TaskEnd")]
    assert any("No space left on device" in reason for reason in failed), job.failures()
    assert bits(out, ds=DAY) == bits(shop.expected, ds=DAY)


def test_a_slow_worker_with_speculation_doubles_no_row(cluster: Cluster, jobs: Jobs, shop: Shop) -> None:
    out, options = shop.output("slow")
    eager = {"spark.speculation": "true", "spark.speculation.quantile": "0.2", "spark.speculation.multiplier": "1.1"}
    job = jobs.start(*options, conf={**MANY_TASKS, **begin_with(2), **eager})
    job.wait_for_stage(lambda stage: stage["numCompleteTasks"] > 2, "tasks have ended")
    cluster.throttle(cluster.workers[0], 0.05)
    assert job.exit() == 0, job.said[-3000:]
    assert any(event["Task Info"]["Speculative"] for event in job.events("TaskEnd"))
    assert "TaskKilled" in job.failures()
    assert bits(out, ds=DAY) == bits(shop.expected, ds=DAY)
