"""Publishing by processes that are killed or paused at every step, and by several at once."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from recallk_spark import recovery, sinks
from recallk_spark.manifest import published, read_table
from recallk_spark.sinks import Output, recover
from tests.jobs.publishing_child import write_rows
from tests.jobs.publishing_roots import (
    TABLES,
    assert_tidy,
    by_key,
    copies,
    four,
    plain,
    publish,
    two_days,
    untouched,
    values,
)

WAIT = 25  # seconds that any answer of a child is waited for at most

Ends = dict[str, Any]


class Children:
    """Writers in processes of their own, forked by publishing_child.py."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pids: list[int] = []
        script = Path(__file__).with_name("publishing_child.py")
        self.server = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self.server.stdin
        assert self.server.stdout
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        ready, _, _ = select.select([self.server.stdout], [], [], WAIT)
        assert ready, f"no answer to {request}"
        return json.loads(self.server.stdout.readline())

    def start(self, **request: Any) -> int:
        """Starts publishing (`root, ds, runs, tables`) or recovering; the process' id."""
        log = str(self.folder / "log")
        pid = self._ask(**{"do": "publish", "log": log, "ds": "2026-11-29", "tables": TABLES, **request})["pid"]
        self.pids.append(pid)
        return pid

    def wait(self, pid: int) -> Ends:
        """Waits until it ends ({'exit': code, or -signal}) or stops ({'stopped': True})."""
        return self._ask(do="wait", pid=pid)

    def go_on(self, pid: int) -> None:
        """Continues a stopped process."""
        self._ask(do="continue", pid=pid)

    def run(self, **request: Any) -> Ends:
        """Starts and waits."""
        return self.wait(self.start(**request))

    def steps(self, **request: Any) -> list[str]:
        """The steps of an undisturbed process."""
        path = self.folder / "steps.json"
        assert self.run(**request, steps=str(path)) == {"exit": 0}, (self.folder / "log").read_text()
        return json.loads(path.read_text())

    def stop(self) -> None:
        for pid in self.pids:  # children of the server, which reaps none it was not asked to: the ids are still theirs
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.server.communicate(timeout=WAIT)


@pytest.fixture(scope="module")
def children(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Children]:
    found = Children(tmp_path_factory.mktemp("children"))
    yield found
    found.stop()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # only a power cut makes a difference


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_days(tmp_path_factory.mktemp("earlier") / "out")


# --- stopped anywhere ------------------------------------------------------------------------------------------


def test_a_writer_killed_at_any_step_leaves_the_old_or_the_new_result_whole(
    earlier: Path, tmp_path: Path, children: Children
) -> None:
    roots = copies(earlier, tmp_path)
    request = {"runs": {"A": 50, "C": 60}}
    steps = children.steps(root=str(next(roots)), **request)
    links = [number for number, step in enumerate(steps) if step.startswith("link")]
    assert len(links) == 2
    for at in range(len(steps)):
        root = next(roots)
        before = untouched(root)
        assert children.run(root=str(root), at=[at], **request) == {"exit": -signal.SIGKILL}
        where = f"killed before step {at}: {steps[at]}"

        new_a, new_c = at > links[0], at > links[1]
        keys = [("2026-11-28", "A"), ("2026-11-28", "B"), ("2026-11-29", "A"), ("2026-11-29", "B")]
        expected = dict(zip(keys, map(four, (10, 20, 50 if new_a else 30, 40)), strict=True))
        if new_c:
            expected["2026-11-29", "C"] = four(60)
        assert by_key(read_table(str(root), "profile")) == expected, where
        assert values(root, "per_query", "2026-11-29", "A") == expected["2026-11-29", "A"], where
        assert len(published(str(root))) == len(expected), where

        recover(str(root))
        for table in TABLES:
            assert plain(root, table) == expected, where
        assert untouched(root) == before, where
        assert_tidy(root)


def test_a_recovery_killed_at_any_step_is_finished_by_the_next(
    earlier: Path, tmp_path: Path, children: Children
) -> None:
    roots = copies(earlier, tmp_path)
    first = next(roots)
    steps = children.steps(root=str(first), runs={"A": 50})
    link = next(number for number, step in enumerate(steps) if step.startswith("link"))
    halfway = tmp_path / "halfway"
    shutil.copytree(earlier, halfway)
    children.run(root=str(halfway), runs={"A": 50}, at=[link + 4])  # committed, one file moved
    recovering = copies(halfway, tmp_path / "recovering")
    steps = children.steps(root=str(next(recovering)), do="recover")
    assert len(steps) > 10
    for at in range(len(steps)):
        root = next(recovering)
        assert children.run(root=str(root), do="recover", at=[at]) == {"exit": -signal.SIGKILL}
        assert values(root, "per_query", "2026-11-29", "A") == four(50)
        recover(str(root))
        assert plain(root)["2026-11-29", "A"] == four(50), steps[at]
        assert_tidy(root)


def test_a_retirement_killed_at_any_step_is_undone_or_finished(
    earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped by an exception before each step, as a kill would: the attempt has no more say after its commit."""
    for at in range(100):
        root = tmp_path / str(at)
        shutil.copytree(earlier, root)
        attempt = Output(str(root), ds="2026-11-29").begin()
        write_rows(attempt, "profile", "A", four(50))
        attempt.commit({"A": {}})
        taken = []
        with monkeypatch.context() as patch:
            for name in ("link", "rmdir", "replace"):
                patch.setattr(os, name, _stopping(getattr(os, name), taken, at))
            patch.setattr(attempt._store, "delete", _stopping(attempt._store.delete, taken, at))
            try:
                attempt.retire(attempt.stale_runs(["A"]))
                stopped = False
            except KeyboardInterrupt:
                stopped = True
        recover(str(root))
        retired = "link" in taken
        assert ("B" in {one.run_id for one in published(str(root)) if one.ds == "2026-11-29"}) != retired
        assert (("2026-11-29", "B") in plain(root)) != retired
        assert len(plain(root)) == 4 - retired
        if not stopped:
            assert at > 4
            return
    pytest.fail("never finished")


def _stopping(function: Callable[..., Any], taken: list[str], at: int) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if len(taken) == at:
            raise KeyboardInterrupt
        taken.append(function.__name__)
        return function(*args, **kwargs)

    return wrapped


# --- several at once -------------------------------------------------------------------------------------------


def one_step_then_all(children: Children, pid: int, root: Path, expected: dict[str, list[int]], where: str) -> int:
    """Lets a paused process take a step, after which plain readers see no more than before, then go on; its exit."""
    children.go_on(pid)
    end = children.wait(pid)
    if end == {"stopped": True}:
        found = plain(root)
        assert {run: found["2026-11-29", run] for run in expected} == expected, where
        children.go_on(pid)
        end = children.wait(pid)
    return end["exit"]


def test_a_writer_paused_at_any_step_cannot_spoil_what_another_publishes_meanwhile(
    earlier: Path, tmp_path: Path, children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as if the slow writer had committed right after the other one's recovery, which would have finished the move
    monkeypatch.setattr(sinks, "recover_store", lambda _: None)
    roots = copies(earlier, tmp_path)
    steps = children.steps(root=str(next(roots)), runs={"A": 50})
    link = next(number for number, step in enumerate(steps) if step.startswith("link"))
    # what is published before an attempt has begun is known to it: then it replaces that, as any later one does
    began = max(number for number, step in enumerate(steps) if step.startswith("makedirs") and "/_attempts" in step)
    for at in range(len(steps)):
        root = next(roots)
        where = f"paused before step {at}: {steps[at]}"
        slow = children.start(root=str(root), runs={"A": 50}, at=[at, at + 1], send="SIGSTOP")
        assert children.wait(slow) == {"stopped": True}
        publish(root, "2026-11-29", {"A": 60})
        publish(root, "2026-11-29", {"A": 70}, tables=["profile"])
        assert values(root, "profile", "2026-11-29", "A") == four(70)
        end = one_step_then_all(children, slow, root, {} if at <= began else {"A": four(70)}, where)
        assert end in ({0} if at <= began else {4} if at <= link else {0, 4}), where
        recover(str(root))
        holds, tables = (50, 2) if at <= began else (70, 1)
        assert [plain(root, table).get(("2026-11-29", "A")) for table in TABLES[:tables]] == [four(holds)] * tables
        assert all(("2026-11-29", "A") not in plain(root, table) for table in TABLES[tables:]), where
        assert len(plain(root)) == 4
        assert_tidy(root)


def test_a_recovery_paused_at_any_step_cannot_spoil_what_is_published_meanwhile(
    earlier: Path, tmp_path: Path, children: Children
) -> None:
    halfway = tmp_path / "halfway"
    shutil.copytree(earlier, halfway)
    scratch = tmp_path / "scratch"
    shutil.copytree(earlier, scratch)
    steps = children.steps(root=str(scratch), runs={"A": 50})
    link = next(number for number, step in enumerate(steps) if step.startswith("link"))
    children.run(root=str(halfway), runs={"A": 50}, at=[link + 4])
    roots = copies(halfway, tmp_path / "roots")
    steps = children.steps(root=str(next(roots)), do="recover")
    for at in range(len(steps)):
        root = next(roots)
        slow = children.start(root=str(root), do="recover", at=[at, at + 1], send="SIGSTOP")
        assert children.wait(slow) == {"stopped": True}
        publish(root, "2026-11-29", {"A": 70})
        publish(root, "2026-11-29", {"A": 80}, tables=["profile"])
        assert one_step_then_all(children, slow, root, {"A": four(80)}, steps[at]) == 0
        recover(str(root))
        assert plain(root)["2026-11-29", "A"] == four(80), steps[at]
        assert ("2026-11-29", "A") not in plain(root, "per_query"), steps[at]
        assert_tidy(root)


@pytest.mark.parametrize(("function", "before"), [("remove_replaced", True), ("highest", False)])
def test_a_version_that_comes_while_the_one_before_it_is_settled_keeps_its_files(
    earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, before: bool
) -> None:
    """It comes before the directory is listed, and after no newer version was found."""
    root = next(copies(earlier, tmp_path))
    original = getattr(recovery, function)

    def overtaken(*args: Any) -> Any:
        monkeypatch.setattr(recovery, function, original)
        found = None if before else original(*args)
        publish(root, "2026-11-29", {"A": 70})
        return original(*args) if before else found

    monkeypatch.setattr(recovery, function, overtaken)
    publish(root, "2026-11-29", {"A": 50})
    assert plain(root)["2026-11-29", "A"] == four(70)
    recover(str(root))
    assert_tidy(root)


def test_of_two_writers_of_one_run_exactly_one_publishes(tmp_path: Path, children: Children) -> None:
    root = tmp_path / "out"
    for turn in range(30):
        firsts = [100 * turn, 100 * turn + 50]
        pids = [children.start(root=str(root), runs={"A": first}, pause=True) for first in firsts]
        assert [children.wait(pid) for pid in pids] == [{"stopped": True}] * 2
        for pid in pids if turn % 2 else reversed(pids):
            children.go_on(pid)
        ends = [children.wait(pid)["exit"] for pid in pids]
        assert sorted(ends) == [0, 4]
        winner = firsts[ends.index(0)]
        assert plain(root) == {("2026-11-29", "A"): four(winner)}
        assert values(root, "per_query") == four(winner)
        assert [one.version for one in published(str(root))] == [turn + 1]
        assert_tidy(root)


def test_recoveries_beside_a_commit_disturb_neither_it_nor_readers(
    earlier: Path, tmp_path: Path, children: Children
) -> None:
    roots = copies(earlier, tmp_path)
    for _ in range(8):
        root = next(roots)
        children.run(root=str(root), runs={"B": 90}, at=[12])  # somebody died on the way
        waiting = [children.start(root=str(root), do="recover", pause=True) for _ in range(2)]
        waiting.append(children.start(root=str(root), runs={"A": 50}, pause=True))
        assert [children.wait(pid) for pid in waiting] == [{"stopped": True}] * 3
        for pid in waiting:
            children.go_on(pid)
        for _ in range(5):
            assert values(root, "profile", "2026-11-29", "A") in (four(30), four(50))
        assert [children.wait(pid) for pid in waiting] == [{"exit": 0}] * 3
        assert plain(root)["2026-11-29", "A"] == four(50)
        assert len(plain(root)) == 4
        assert_tidy(root)


def test_different_runs_of_one_day_can_be_published_at_once(tmp_path: Path, children: Children) -> None:
    root = tmp_path / "out"
    for turn in range(5):
        pids = [children.start(root=str(root), runs={run: turn}, pause=True) for run in ("A", "B", "C")]
        assert [children.wait(pid) for pid in pids] == [{"stopped": True}] * 3
        for pid in pids:
            children.go_on(pid)
        assert [children.wait(pid) for pid in pids] == [{"exit": 0}] * 3
        assert plain(root) == {("2026-11-29", run): four(turn) for run in ("A", "B", "C")}
        assert_tidy(root)
