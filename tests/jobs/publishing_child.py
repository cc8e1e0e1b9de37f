"""A process that forks writers for test_publishing_stopped.py, stops or kills them at a step, and tells how they ended.

One request per line on stdin, one answer per line on stdout, both JSON. Forking from here, with everything
imported and no thread started, takes milliseconds where a new interpreter takes a third of a second.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from recallk_spark import storage
from recallk_spark.errors import PublishError
from recallk_spark.keys import escape
from recallk_spark.sinks import Attempt, Output, recover

LIFE = 20  # seconds, after which a child that hangs is killed by its alarm


def write_rows(
    attempt: Attempt, table: str, run_id: str, values: Iterable[int], *, files: int = 2, uuid: str | None = None
) -> None:
    """Rows of `table` as Spark lays them out under partitionBy('run_id'), checksums and marker included."""
    top = Path(attempt.table_path(table).removeprefix("file://"))
    directory = top / f"run_id={escape(run_id)}"
    directory.mkdir(parents=True, exist_ok=True)
    (top / "_SUCCESS").touch()
    rows = list(values)
    for part in range(files):
        name = f"part-{part:05d}-{uuid or attempt_uuid(attempt)}.c000.snappy.parquet"
        pq.write_table(
            pa.table({"query_id": [f"q{v}" for v in rows[part::files]], "k": rows[part::files]}), directory / name
        )
        (directory / f".{name}.crc").write_bytes(b"crc")


def attempt_uuid(attempt: Attempt) -> str:
    """A UUID as Spark makes one for each job."""
    digits = attempt.id[-8:]
    return f"{digits}-0000-4000-8000-{digits}0000"


def publish(root: str, ds: str | None, runs: dict[str, int], tables: list[str], pause: bool) -> None:
    """Publishes runs -> first value; each table holds the four values from there on. May stop before the commit."""
    with Output(root, ds=ds).begin() as attempt:
        for table in tables:
            for run_id, first in runs.items():
                write_rows(attempt, table, run_id, range(first, first + 4))
        if pause:
            os.kill(os.getpid(), signal.SIGSTOP)
        attempt.commit({run_id: {"fingerprint": f"f{first}", "schema_version": 1} for run_id, first in runs.items()})


class Steps:
    """Counts the operations that change the file system, and sends the process a signal right before some."""

    def __init__(self, at: list[int], send: str) -> None:
        self.at = at
        self.send = send
        self.taken: list[str] = []
        for owner, names in (
            (os, ("link", "replace", "makedirs", "rmdir")),
            (storage.LocalStore, ("write", "delete", "delete_tree")),
        ):
            for name in names:
                setattr(owner, name, self._counted(name, getattr(owner, name)))

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if len(self.taken) in self.at:
                os.kill(os.getpid(), signal.Signals[self.send])
            self.taken.append(f"{name} {next(a for a in reversed(args) if isinstance(a, str))}")
            return function(*args, **kwargs)

        return wrapped


def run(request: dict[str, Any]) -> int:
    """What the child does; its exit code."""
    signal.alarm(LIFE)
    os.fsync = lambda _: None  # a killed process loses nothing that it wrote; a test of its own has the order
    steps = Steps(request.get("at", []), request.get("send", "SIGKILL"))
    try:
        if request["do"] == "recover":
            if request.get("pause"):
                os.kill(os.getpid(), signal.SIGSTOP)
            recover(request["root"])
        else:
            publish(request["root"], request["ds"], request["runs"], request["tables"], request.get("pause", False))
        code = 0
    except PublishError as error:
        print(error, file=sys.stderr)
        code = error.exit_code
    if "steps" in request:
        Path(request["steps"]).write_text(json.dumps(steps.taken))
    return code


def child(request: dict[str, Any]) -> None:
    """The forked process: never returns."""
    code = 70
    try:
        sys.stderr = open(request["log"], "w")  # noqa: SIM115 - open to the end of the process
        code = run(request)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Starts a child, lets a stopped one go on, or waits until one stops or ends."""
    if request["do"] == "continue":
        os.kill(request["pid"], signal.SIGCONT)
        return {}
    if request["do"] == "wait":
        _, status = os.waitpid(request["pid"], os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return {"stopped": True}
        return {"exit": -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)}
    pid = os.fork()
    if not pid:
        child(request)
    return {"pid": pid}


if __name__ == "__main__":
    pq.write_table(pa.table({"query_id": ["q"], "k": [1]}), BytesIO())  # what this sets up, no child has to again
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
