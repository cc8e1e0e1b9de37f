"""Publishing by one process, with everything that can lie in a root; test_publishing_stopped.py has the others."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem

from recallk_spark import attempt as attempt_module
from recallk_spark import manifest, recovery, sinks
from recallk_spark.errors import InputError, PublishError, UsageError
from recallk_spark.manifest import published
from recallk_spark.owners import is_abandoned, new_attempt_id
from recallk_spark.sinks import Output, recover
from recallk_spark.storage import Store
from tests.jobs.publishing_child import write_rows
from tests.jobs.publishing_roots import (
    TABLES,
    assert_tidy,
    copies,
    four,
    plain,
    publish,
    tree,
    two_days,
    untouched,
    values,
)

WAIT = 25  # seconds that a child is waited for at most


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # only a power cut makes a difference


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_days(tmp_path_factory.mktemp("earlier") / "out")


def test_a_rerun_replaces_only_its_own_runs(earlier: Path, tmp_path: Path) -> None:
    root = next(copies(earlier, tmp_path))
    before = untouched(root)
    publish(root, "2026-11-29", {"A": 50})
    assert plain(root) == {
        ("2026-11-28", "A"): four(10),
        ("2026-11-28", "B"): four(20),
        ("2026-11-29", "A"): four(50),
        ("2026-11-29", "B"): four(40),
    }
    assert untouched(root) == before
    assert_tidy(root)


def test_a_root_without_days_holds_runs_only(tmp_path: Path) -> None:
    publish(tmp_path, None, {"A": 1})
    publish(tmp_path, None, {"A": 2, "B": 3})
    assert plain(tmp_path) == {("A",): four(2), ("B",): four(3)}
    assert [(one.ds, one.run_id, one.version) for one in published(str(tmp_path))] == [(None, "A", 2), (None, "B", 1)]
    assert_tidy(tmp_path)


@pytest.mark.parametrize(("first", "then"), [(None, "2026-11-29"), ("2026-11-29", None)])
def test_a_root_is_always_or_never_by_day(tmp_path: Path, first: str | None, then: str | None) -> None:
    publish(tmp_path, first, {"A": 1})
    with pytest.raises(InputError, match="by day, it holds run 'A'"):
        Output(str(tmp_path), ds=then)


def test_a_bad_day_and_a_file_as_root_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a day like 2026-11-29, not '20261129'"):
        Output(str(tmp_path), ds="20261129")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="is a file; an output is a directory"):
        Output(str(tmp_path / "file"), ds=None)


def test_a_root_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("mine")
    root = str(tmp_path / "file" / "out")
    with pytest.raises(PublishError, match=r"^cannot write to \S*/file/out: Not a directory: \S*$"):
        Output(root, ds=None).begin()

    def full(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", target)

    root = str(tmp_path / "out")
    with Output(root, ds=None).begin() as attempt:
        write_rows(attempt, "profile", "A", four(1))
        with monkeypatch.context() as patch:
            patch.setattr(os, "link", full)
            with pytest.raises(PublishError, match=r"^cannot publish to \S*/out: No space left on device: \S*$"):
                attempt.commit({"A": {}})
    assert tree(Path(root)) == {}


def test_an_output_writes_nothing_before_it_begins(tmp_path: Path) -> None:
    Output(str(tmp_path / "out"), ds="2026-11-29")
    assert not (tmp_path / "out").exists()


def test_files_of_others_in_the_root_are_left_alone(earlier: Path, tmp_path: Path) -> None:
    root = next(copies(earlier, tmp_path))
    foreign = [
        "notes.txt",
        "data/run_id=A/part-0.parquet",
        "profile/readme.txt",
        "profile/ds=2026-11-29/run_id=A/notes.txt",
        "_attempts/mine/x",
        "_manifest/ds=2026-11-29/run_id=A/notes.json",
        "_manifest/other/v000001.json",
    ]
    for name in foreign:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("mine")
    publish(root, "2026-11-29", {"A": 50})
    recover(str(root))
    assert {name: tree(root)[name] for name in foreign} == dict.fromkeys(foreign, b"mine")
    assert values(root, "profile", "2026-11-29", "A") == four(50)


def test_data_of_others_under_a_table_name_is_not_mixed_with_ours(tmp_path: Path) -> None:
    (tmp_path / "profile" / "run_id=A").mkdir(parents=True)
    with pytest.raises(InputError, match="holds data without a manifest of recallk; give another output"):
        Output(str(tmp_path), ds=None)


def test_an_error_on_the_way_removes_what_was_written(earlier: Path, tmp_path: Path) -> None:
    root = next(copies(earlier, tmp_path))
    before = tree(root)

    def fail() -> None:
        with Output(str(root), ds="2026-11-29").begin() as attempt:
            write_rows(attempt, "profile", "A", four(50))
            Path(attempt.scratch_path("per_query").removeprefix("file://")).mkdir(parents=True)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert tree(root) == before
    assert_tidy(root)


def test_an_interrupt_after_the_commit_point_still_brings_the_result_into_place(
    earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = next(copies(earlier, tmp_path))

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(attempt_module, "settle", interrupted)
    with pytest.raises(KeyboardInterrupt):
        publish(root, "2026-11-29", {"A": 50})
    assert plain(root)["2026-11-29", "A"] == four(50)
    assert_tidy(root)


def test_a_run_with_no_rows_replaces_the_earlier_one(earlier: Path, tmp_path: Path) -> None:
    root = next(copies(earlier, tmp_path))
    with Output(str(root), ds="2026-11-29").begin() as attempt:
        for table in TABLES:
            attempt.table_path(table)
        attempt.commit({"A": {}})
    assert ("2026-11-29", "A") not in plain(root)
    assert values(root, "profile", "2026-11-29", "A") == []
    (one,) = [one for one in published(str(root)) if (one.ds, one.run_id) == ("2026-11-29", "A")]
    assert one.row_counts == {"profile": 0, "per_query": 0}
    assert_tidy(root)


def test_a_table_left_out_removes_its_earlier_rows(earlier: Path, tmp_path: Path) -> None:
    root = next(copies(earlier, tmp_path))
    publish(root, "2026-11-29", {"A": 50}, tables=["profile"])
    assert ("2026-11-29", "A") not in plain(root, "per_query")
    assert ("2026-11-29", "B") in plain(root, "per_query")
    with pytest.raises(InputError, match=r"'per_query' is not published in .* for run 'A' of 2026-11-29"):
        values(root, "per_query", "2026-11-29", "A")
    assert_tidy(root)


def test_a_writer_that_lost_publishes_nothing_and_names_the_run(earlier: Path, tmp_path: Path) -> None:
    root = next(copies(earlier, tmp_path))
    with Output(str(root), ds="2026-11-29").begin() as late:
        for run in ("A", "B", "C"):
            write_rows(late, "profile", run, four(50))
        publish(root, "2026-11-29", {"B": 70})
        with pytest.raises(PublishError) as refusal:
            late.commit({"A": {}, "B": {}, "C": {}})
    assert str(refusal.value) == (
        "another writer published run 'B' of 2026-11-29 first; published by this attempt: nothing; not published by"
        " it: run 'A' of 2026-11-29, run 'B' of 2026-11-29, run 'C' of 2026-11-29. Run again to replace what the"
        " other wrote"
    )
    assert plain(root)["2026-11-29", "A"] == four(30)
    assert plain(root)["2026-11-29", "B"] == four(70)
    assert_tidy(root)


def test_a_writer_that_loses_between_two_runs_keeps_those_before(
    earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = next(copies(earlier, tmp_path))
    create = attempt_module.create_version

    def overtaken_at_b(store: Any, manifest: Any) -> bool:
        if manifest.key.run_id == "B":
            monkeypatch.setattr(attempt_module, "create_version", create)
            publish(root, "2026-11-29", {"B": 70})
        return create(store, manifest)

    with Output(str(root), ds="2026-11-29").begin() as late:
        for run in ("A", "B", "C"):
            write_rows(late, "profile", run, four(50))
        monkeypatch.setattr(attempt_module, "create_version", overtaken_at_b)
        with pytest.raises(PublishError, match=r"published run 'B' of 2026-11-29 first; published by .*: run 'A' of"):
            late.commit({"A": {}, "B": {}, "C": {}})
    found = plain(root)
    assert [found["2026-11-29", run] for run in ("A", "B")] == [four(50), four(70)]
    assert ("2026-11-29", "C") not in found
    assert_tidy(root)


def test_a_slow_writer_loses_even_after_two_newer_versions_reused_its_number(earlier: Path, tmp_path: Path) -> None:
    """v2 and v3 are published and v2 cleared: the name v2 is free again, yet a writer who saw v1 must not have it."""
    root = next(copies(earlier, tmp_path))
    with Output(str(root), ds="2026-11-29").begin() as late:
        write_rows(late, "profile", "A", four(50))
        publish(root, "2026-11-29", {"A": 70})
        publish(root, "2026-11-29", {"A": 80})
        with pytest.raises(PublishError):
            late.commit({"A": {}})
    assert plain(root)["2026-11-29", "A"] == four(80)
    assert_tidy(root)


def test_runs_no_longer_produced_are_named_and_retired(earlier: Path, tmp_path: Path) -> None:
    root = next(copies(earlier, tmp_path))
    with Output(str(root), ds="2026-11-29").begin() as attempt:
        write_rows(attempt, "profile", "C", four(50))
        assert attempt.stale_runs(["C"]) == ["A", "B"]
        attempt.commit({"C": {}})
        attempt.retire(attempt.stale_runs(["C"]))
    assert plain(root) == {
        ("2026-11-28", "A"): four(10),
        ("2026-11-28", "B"): four(20),
        ("2026-11-29", "C"): four(50),
    }
    assert [(one.ds, one.run_id) for one in published(str(root))] == list(plain(root))
    assert not (root / "per_query" / "ds=2026-11-29").exists()
    with pytest.raises(InputError, match=r"no published result of run 'A' of 2026-11-29"):
        values(root, "profile", "2026-11-29", "A")

    publish(root, "2026-11-29", {"A": 60})
    assert plain(root)["2026-11-29", "A"] == four(60)
    with Output(str(root), ds="2026-11-29").begin() as attempt:
        assert attempt.stale_runs(["C"]) == ["A"]


def test_a_run_that_another_writer_published_meanwhile_is_not_retired(earlier: Path, tmp_path: Path) -> None:
    root = next(copies(earlier, tmp_path))
    with Output(str(root), ds="2026-11-29").begin() as attempt:
        write_rows(attempt, "profile", "A", four(50))
        stale = attempt.stale_runs(["A"])
        publish(root, "2026-11-29", {"B": 70})
        attempt.commit({"A": {}})
        assert stale == ["B"]
        assert attempt.stale_runs(["A"]) == []
        with pytest.raises(PublishError, match="not retired, another writer has published it since: run 'B'"):
            attempt.retire(stale)
    assert plain(root)["2026-11-29", "B"] == four(70)
    assert_tidy(root)


def test_a_writer_of_a_run_retired_meanwhile_loses(earlier: Path, tmp_path: Path) -> None:
    root = next(copies(earlier, tmp_path))
    with Output(str(root), ds="2026-11-29").begin() as late:
        write_rows(late, "profile", "B", four(50))
        with Output(str(root), ds="2026-11-29").begin() as attempt:
            write_rows(attempt, "profile", "A", four(60))
            attempt.commit({"A": {}})
            attempt.retire(["B"])
        with pytest.raises(PublishError, match="another writer published run 'B'"):
            late.commit({"B": {}})
    assert ("2026-11-29", "B") not in plain(root)


def test_data_that_the_commit_does_not_name_is_refused(tmp_path: Path) -> None:
    with Output(str(tmp_path), ds="2026-11-29").begin() as attempt:
        write_rows(attempt, "profile", "A", four(1))
        write_rows(attempt, "profile", "B", four(1))
        with pytest.raises(PublishError, match="holds run 'B' of 2026-11-29, which the commit does not name"):
            attempt.commit({"A": {}})
    with Output(str(tmp_path), ds="2026-11-29").begin() as attempt:
        path = Path(attempt.table_path("profile").removeprefix("file://"))
        path.mkdir(parents=True)
        (path / "part-00000.parquet").touch()
        with pytest.raises(PublishError, match=r"is of no run; write tables with partitionBy"):
            attempt.commit({"A": {}})
    assert tree(tmp_path) == {}


def test_what_a_manifest_cannot_say_is_refused_before_anything_is_published(tmp_path: Path) -> None:
    with Output(str(tmp_path), ds=None).begin() as attempt:
        write_rows(attempt, "profile", "A", four(1))
        write_rows(attempt, "profile", "B", four(1))
        with pytest.raises(ValueError, match="JSON"):
            attempt.commit({"A": {}, "B": {"loss": float("nan")}})
        with pytest.raises(ValueError, match="attempt is a field of the manifest itself"):
            attempt.commit({"A": {}, "B": {"attempt": "x"}})
    with Output(str(tmp_path), ds=None).begin() as attempt, pytest.raises(PublishError, match="'' cannot be the name"):
        attempt.commit({"": {}})
    assert tree(tmp_path) == {}


def test_files_named_alike_by_two_attempts_do_not_meet(tmp_path: Path) -> None:
    for first in (1, 2):
        with Output(str(tmp_path), ds=None).begin() as attempt:
            write_rows(attempt, "profile", "A", four(first), uuid="x")
            attempt.commit({"A": {}})
    assert plain(tmp_path) == {("A",): four(2)}
    assert_tidy(tmp_path)


def test_an_attempt_ends_with_its_commit(tmp_path: Path) -> None:
    attempt = Output(str(tmp_path), ds=None).begin()
    write_rows(attempt, "profile", "A", four(1))
    attempt.commit({"A": {}})
    assert not (tmp_path / "_attempts").exists()
    attempt.close()
    with pytest.raises(PublishError, match="has ended; begin another"):
        attempt.commit({"A": {}})


def test_a_commit_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows and their directory before the manifest, the manifest before its name, and the name before a move."""
    events: list[str] = []
    link, replace = os.link, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: events.append("flush " + os.readlink(f"/proc/self/fd/{fd}")))
    monkeypatch.setattr(os, "link", lambda *names: (events.append("link"), link(*names)))
    monkeypatch.setattr(os, "replace", lambda *names: (events.append("move"), replace(*names)))
    with Output(str(tmp_path), ds=None).begin() as attempt:
        write_rows(attempt, "profile", "A", four(1))
        written = tmp_path / "_attempts" / attempt.id / "profile" / "run_id=A"
        parts = [str(written / name) for name in os.listdir(written) if name.startswith("part-")]
        attempt.commit({"A": {}})
    manifests = str(tmp_path / "_manifest" / "run_id=A")
    at = events.index("link")
    before, after = events[:at], events[at + 1 :]
    assert {f"flush {name}" for name in (*parts, written, written.parent, tmp_path)} <= set(before)
    assert before[-1] == f"flush {manifests}/.v000001.{attempt.id}.tmp"
    assert {f"flush {manifests}", f"flush {tmp_path / '_manifest'}"} <= set(after[: after.index("move")])
    assert f"flush {tmp_path / 'profile' / 'run_id=A'}" in after[after.index("move") :]


def test_a_file_system_without_hard_links_and_one_that_is_not_local_publish_too(
    earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(source: str, target: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted", target)

    roots = copies(earlier, tmp_path)
    root, other = next(roots), next(roots)
    monkeypatch.setattr(os, "link", refused)
    publish(root, "2026-11-29", {"A": 50})
    assert plain(root)["2026-11-29", "A"] == four(50)
    assert_tidy(root)

    root = other
    for module in (sinks, recovery, manifest):
        monkeypatch.setattr(module, "open_store", lambda root: Store(root, LocalFileSystem(), root))
    publish(root, "2026-11-29", {"A": 60, "C": 70})
    with Output(str(root), ds="2026-11-29").begin() as late:
        write_rows(late, "profile", "A", four(80))
        publish(root, "2026-11-29", {"A": 90})
        with pytest.raises(PublishError, match="another writer published run 'A'"):
            late.commit({"A": {}})
    recover(str(root))
    assert values(root, "profile", "2026-11-29", "A") == four(90)
    assert plain(root)["2026-11-29", "A"] == four(90)
    shutil.rmtree(root / "_attempts")  # an empty directory is left where it cannot be deleted in one step
    assert_tidy(root)


def test_paths_for_spark_name_the_file_system(tmp_path: Path) -> None:
    with Output(str(tmp_path), ds="2026-11-29").begin() as attempt:
        start = f"file://{tmp_path}/_attempts/{attempt.id}"
        assert attempt.table_path("per_query") == f"{start}/per_query/ds=2026-11-29"
        assert attempt.scratch_path("per_query") == f"{start}/_scratch/per_query"
        with pytest.raises(ValueError, match="no name of a table"):
            attempt.table_path("../x")


# --- whose an attempt is -----------------------------------------------------------------------------------------


def test_an_attempt_of_a_living_process_is_left_alone(tmp_path: Path) -> None:
    with Output(str(tmp_path), ds=None).begin() as attempt:
        write_rows(attempt, "profile", "A", four(1))
        before = tree(tmp_path)
        recover(str(tmp_path))
        Output(str(tmp_path), ds=None).begin().close()
        assert tree(tmp_path) == before
        attempt.commit({"A": {}})


def test_an_attempt_is_abandoned_when_its_process_is_gone_or_its_place_unknown_for_a_week() -> None:
    now = datetime.now(UTC)
    mine = new_attempt_id(now)
    began, pid, start, place, digits = mine.split("-")
    elsewhere = f"{pid}-{start}-{'0' * 12}-{digits}"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(WAIT)
    cases = {
        mine: False,
        f"{began}-{pid}-{int(start) + 1}-{place}-{digits}": True,  # the pid belongs to another process now
        f"{began}-{gone.pid}-{start}-{place}-{digits}": True,
        f"{now - timedelta(days=6):%Y%m%dT%H%M%SZ}-{elsewhere}": False,
        f"{now - timedelta(days=8):%Y%m%dT%H%M%SZ}-{elsewhere}": True,
        "mine": False,
    }
    assert {name: is_abandoned(name, now) for name in cases} == cases


def test_a_killed_process_that_nobody_has_reaped_counts_as_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    began, _, _, place, digits = new_attempt_id(datetime.now(UTC)).split("-")
    start = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
    name = f"{began}-{process.pid}-{start}-{place}-{digits}"
    assert not is_abandoned(name, datetime.now(UTC))
    process.kill()
    deadline = time.monotonic() + WAIT
    while not is_abandoned(name, datetime.now(UTC)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.wait(WAIT)
