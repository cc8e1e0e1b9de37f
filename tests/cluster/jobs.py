"""Evaluations on the cluster and in local mode, what they said, what Spark noted of them, and what they published."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recallk_spark.manifest import published, read_table
from tests import quick
from tests.cluster.engine import Cluster, wait_until

TABLES = ("profile", "per_query", "protocol")

# the jobs over millions of rows run as they do for users
_QUICK = {
    **quick.UNCOMPILED,
    "spark.driver.extraJavaOptions": quick.JAVA,
    "spark.executor.extraJavaOptions": quick.JAVA,
    "spark.sql.shuffle.partitions": "4",
}
# Tasks enough to be in the middle of: none is merged with its neighbours, and each file is read by one of its own.
MANY_TASKS = {
    "spark.sql.shuffle.partitions": "12",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.files.minPartitionNum": "12",
    "spark.sql.files.openCostInBytes": "128m",
    # the address of a dead worker is asked three times with pauses of five seconds, and each time for up to two minutes
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
    "spark.shuffle.io.connectionCreationTimeout": "5s",
    "spark.shuffle.io.connectionTimeout": "10s",
}


def begin_with(workers: int) -> dict[str, str]:
    """A job's settings by which no task begins before so many workers' executors are there.

    Without them the others may have done a small job's tasks before the last executor has come.
    """
    return {
        "spark.cores.max": str(workers),
        "spark.scheduler.minRegisteredResourcesRatio": "1",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    }


class Job:
    """One `spark-submit jobs/evaluate.py` in the driver's container."""

    def __init__(
        self, cluster: Cluster, folder: Path, options: list[str], *, conf: dict[str, str], quick: bool, remote: bool
    ) -> None:
        self._cluster = cluster
        self.name = folder.name
        self._stdout, self._stderr = folder / "stdout", folder / "stderr"
        cluster.on_driver("mkdir", "-p", f"/events/{self.name}")
        settings = {
            **(_QUICK if quick else {}),
            "spark.eventLog.dir": f"file:///events/{self.name}",
            "spark.eventLog.compress": "false",
            **conf,
        }
        given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        if remote:
            command = ["recallk", "evaluate", "--remote", "sc://connect:15002", *options]
        else:
            command = ["spark-submit", *given, "jobs/evaluate.py", *options]
        self._process = cluster.start(command, self.name, self._stdout, self._stderr)

    def exit(self, seconds: float = 300) -> int:
        """Its exit code, when it has ended."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def succeed(self) -> None:
        """Waits for its end, which must be a good one."""
        assert self.exit() == 0, self.said[-3000:]

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """Ends it by SIGKILL."""
        self._cluster.kill_job(self.name)
        assert self._process.wait(30) == 137

    def kill_when(self, pattern: str, count: int) -> None:
        """Ends it by SIGKILL the moment there are `count` paths of a pattern in the driver's container."""
        source = Path(__file__).with_name("kill_at.py").read_text(encoding="utf-8")
        pidfile = f"/tmp/{self.name}.pid"
        self._cluster.on_driver("python3", "-c", source, pattern, str(count), pidfile, "150", seconds=180)
        assert self._process.wait(30) == 137, self.said[-3000:]

    @property
    def said(self) -> str:
        """All that it has written; spark-submit sends what Python writes to stderr to stdout."""
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in (self._stderr, self._stdout))

    def wait_for_stage(self, when: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """A stage of which `when` holds; fails if the job ends before there is one."""

        def found() -> dict[str, Any] | None:
            stage = next((stage for stage in self._cluster.stages() if when(stage)), None)
            assert stage or not self.ended, f"the job ended before {what}\n{self.said[-3000:]}"
            return stage

        return wait_until(found, what, pause=0.05)

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What Spark noted of it, by the name of the event."""
        text = self._cluster.on_driver("sh", "-c", f"cat /events/{self.name}/*/events_*")
        events = [json.loads(line) for line in text.splitlines()]
        return [event for event in events if event["Event"] == f"SparkListener{kind}"]

    def failures(self) -> set[str]:
        """The reasons of tasks that did not succeed."""
        return {event["Task End Reason"]["Reason"] for event in self.events("TaskEnd")} - {"Success"}


class Jobs:
    """Starts evaluations; each has a folder for what it says."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self._folder = folder
        self._number = 0

    def start(self, *options: str, conf: dict[str, str] | None = None, quick: bool = True, remote: bool = False) -> Job:
        """Starts one on the cluster, or wherever spark.master in `conf` says."""
        self._number += 1
        folder = self._folder / f"job{self._number}"
        folder.mkdir()
        return Job(self.cluster, folder, list(options), conf=conf or {}, quick=quick, remote=remote)

    def run(self, *options: str, conf: dict[str, str] | None = None, quick: bool = True, remote: bool = False) -> Job:
        """One that succeeds."""
        job = self.start(*options, conf=conf, quick=quick, remote=remote)
        job.succeed()
        return job

    def start_locally(self, *options: str, conf: dict[str, str] | None = None, quick: bool = True) -> Job:
        """Starts one in local mode, on the same data; a small one leaves a core to what runs beside it."""
        return self.start(*options, conf={"spark.master": "local[2]", **(conf or {})}, quick=quick)


def bits(
    root: Path, *, ds: str | None, runs: set[str] | None = None, tables: tuple[str, ...] = TABLES
) -> dict[str, list[str]]:
    """Every row of every published table, every bit of it: `repr` of a double tells it from all others."""
    found = {}
    for table in tables:
        rows = read_table(str(root), table, ds=ds).to_pylist()
        found[table] = sorted(repr(row) for row in rows if runs is None or row["run_id"] in runs)
    assert all(found.values())
    return found


def files(root: Path) -> dict[str, bytes]:
    """Every file under a root by name; what was published and is unchanged is unchanged to the byte."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def runs_of(root: Path, ds: str) -> set[str]:
    """The runs that are published of a day."""
    return {item.run_id for item in published(str(root)) if item.ds == ds}
