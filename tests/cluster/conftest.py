"""One cluster for all tests of this folder, its workers whole and idle before each, and data for its jobs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from tests.benchmarks.generate import Size, generate
from tests.cluster.engine import Cluster, missing
from tests.cluster.jobs import Jobs
from tests.conftest import SHARED

EARLIER, DAY = "2026-11-28", "2026-11-29"
_STARTED = pytest.StashKey[Cluster]()
_LOGS = pytest.StashKey[Path]()


@pytest.fixture(scope="session")
def _cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if reason := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason}, and CI=true requires the cluster")
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("cluster")
    golden = SHARED / "golden"
    found = Cluster(folder, golden if golden.is_dir() else folder)
    before = signal.signal(signal.SIGTERM, _stop)  # or pytest would end without taking the cluster down
    try:
        request.config.stash[_LOGS] = tmp_path_factory.mktemp("cluster-logs")
        request.config.stash[_STARTED] = found
        found.up()
        yield found
    finally:
        found.down()
        signal.signal(signal.SIGTERM, before)


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would end the taking down
    raise KeyboardInterrupt


@pytest.fixture
def cluster(_cluster: Cluster) -> Cluster:
    """The cluster with two idle workers, whatever the test before has done to it."""
    _cluster.restore()
    return _cluster


@pytest.fixture(scope="session")
def _jobs(_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    return Jobs(_cluster, tmp_path_factory.mktemp("jobs"))


@pytest.fixture
def jobs(cluster: Cluster, _jobs: Jobs) -> Jobs:
    """Starts evaluations on the cluster."""
    return _jobs


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Keeps what the containers said up to a failure, and says where."""
    report = yield
    if report.failed and _STARTED in item.config.stash:
        file = item.config.stash[_LOGS] / f"{item.name}-{report.when}.log"
        try:
            file.write_text(item.config.stash[_STARTED].logs(), encoding="utf-8")
        except Exception as error:  # the failure of the test is the one to see
            file.write_text(f"no logs: {error}", encoding="utf-8")
        report.sections.append(("cluster", f"logs of all containers: {file}"))
    return report


class Shop:
    """A small made-up shop of four runs and two days, of which the earlier is published before a test begins.

    Attributes:
        options: what evaluates the later day.
        expected: where local mode has published the later day.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        data = jobs.cluster.data
        made = generate(data / "shop", Size(rows=50_000, runs=4))
        for number, file in enumerate(sorted((made / "scores").glob("*.parquet"))):
            day = made / "scores" / f"ds={EARLIER if number < 2 else DAY}"
            day.mkdir(exist_ok=True)
            file.rename(day / file.name)
        self._inputs = [
            *("--scores", "/data/shop/scores", "--relevance", "/data/shop/relevance"),
            *("--cutoffs", "1,5,10", "--plan", "window"),
        ]
        self.expected = data / "expected"
        days = [
            jobs.start_locally(*self._inputs, "--ds", day, "--output", root)
            for day, root in ((EARLIER, "/data/earlier"), (DAY, "/data/expected"))
        ]
        for job in days:
            job.succeed()

    def output(self, name: str) -> tuple[Path, list[str]]:
        """A root with the earlier day published, and the options that publish the later one there."""
        self._jobs.cluster.on_driver("cp", "-r", "/data/earlier", f"/data/{name}")
        return self._jobs.cluster.data / name, [*self._inputs, "--ds", DAY, "--output", f"/data/{name}"]


@pytest.fixture(scope="session")
def _shop(_jobs: Jobs) -> Shop:
    return Shop(_jobs)


@pytest.fixture
def shop(cluster: Cluster, _shop: Shop) -> Shop:
    """See `Shop`."""
    return _shop
