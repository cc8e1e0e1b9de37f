"""An attempt: what one command writes, hidden until its commit makes it the published result."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from recallk_spark.errors import InputError, PublishError
from recallk_spark.keys import Key, day_directory
from recallk_spark.owners import new_attempt_id
from recallk_spark.parts import SCRATCH, attempt_files, count_rows, describe, is_part, part_paths, refuse_strays
from recallk_spark.recovery import clear_attempt, settle
from recallk_spark.storage import Store, storage_errors
from recallk_spark.versions import (
    ATTEMPTS,
    MANIFESTS,
    RESERVED,
    TABLES,
    Manifest,
    create_version,
    highest,
    list_manifests,
    read_version,
)

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def check_root(store: Store, ds: str | None) -> None:
    """Refuses a root that publishing (for a day, or by no day) cannot go to; see `Output` for what that is."""
    if store.is_file(""):
        raise InputError(f"{store.root} is a file; an output is a directory")
    for key in list_manifests(store).versions:
        if (key.ds is None) != (ds is None):
            advice = "give a day" if ds is None else "give no day"
            kind = "by day" if ds is None else "not by day"
            raise InputError(f"{store.root} is {kind}, it holds {key}; {advice}, or another output")
    if store.names(MANIFESTS):
        return
    for table in TABLES:
        if any("=" in name or is_part(name) for name in store.names(table)):
            raise InputError(f"{store.root}/{table} holds data without a manifest of recallk; give another output")


class Attempt:
    """What one command writes and then publishes; a context manager that removes whatever was not committed.

    Attributes:
        id: its name, unique.
        ds: the day, None where the root is not by day.
    """

    def __init__(self, store: Store, *, ds: str | None) -> None:
        self.ds = ds
        self._store = store
        self._started = datetime.now(UTC)
        self.id = new_attempt_id(self._started)
        self._directory = f"{ATTEMPTS}/{self.id}"
        self._tables: set[str] = set()
        self._ended = False
        store.make_directory(self._directory)
        # what a commit must find unchanged: nobody else has published the same run since
        self._noted = {key.run_id: max(found) for key, found in list_manifests(store, ds).versions.items()}

    def __enter__(self) -> Attempt:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except PublishError:
            if kind is None:
                raise  # else the error that ended the attempt is the one to see; the next command clears it

    def table_path(self, table: str) -> str:
        """Where Spark writes `table`, by `partitionBy("run_id")` and, where there is a day, without column ds.

        A table counts as published once this was called, with no rows too; a table that was published of a run
        earlier and is not asked for here is removed with the commit.
        """
        self._tables.add(_name(table))
        return self._store.spark_location(f"{self._directory}/{table}/{day_directory(self.ds)}".rstrip("/"))

    def scratch_path(self, name: str) -> str:
        """Where Spark may write what is never published and goes with the attempt."""
        return self._store.spark_location(f"{self._directory}/{SCRATCH}/{_name(name)}")

    def read_scratch(self, name: str, *, filters: Any = None) -> pa.Table:
        """The rows of Parquet files that Spark wrote to `scratch_path(name)`; filters as pyarrow.parquet takes them."""
        directory = f"{self._directory}/{SCRATCH}/{_name(name)}"
        with storage_errors(f"read {directory} in {self._store.root}"):
            return pq.read_table(self._store.location(directory), filesystem=self._store.filesystem, filters=filters)

    def commit(self, runs: Mapping[str, Mapping[str, Any]]) -> None:
        """Publishes every run of `runs`: run_id -> what its manifest says besides the files, as JSON-ready data.

        'fingerprint', 'schema_version', 'row_counts' (counted in the files where it is left out) and 'inputs' are
        expected. Each run is published by itself, in sorted order. Nothing is published when another writer was
        seen to be first; where one comes in between two runs, those before stay published, the rest is not.

        Raises:
            PublishError: another writer published one of the runs since this attempt began; the attempt holds
                other runs, or files outside any run; the storage fails.
            ValueError: `runs` holds what JSON cannot say, or names a field of the manifest itself.
        """
        with storage_errors(f"publish to {self._store.root}"):
            self._check_open()
            check_root(self._store, self.ds)
            manifests = self._manifests(runs)
            for manifest in manifests:  # before the commit point, or a power cut could leave it naming empty files
                self._store.sync(part_paths(self.id, manifest.key, manifest.content["tables"]))
            lost = [m for m in manifests if highest(self._store, m.key) != m.version - 1]
            done: list[Manifest] = []
            for manifest in () if lost else manifests:
                if not create_version(self._store, manifest):
                    lost = [manifest]
                    break
                done.append(manifest)
        self._bring_into_place(done + lost)
        self.close()
        if lost:
            rest = [m for m in manifests if m not in done]
            raise PublishError(
                f"another writer published {_keys(lost)} first; published by this attempt: {_keys(done)}; "
                f"not published by it: {_keys(rest)}. Run again to replace what the other wrote"
            )

    def stale_runs(self, produced: Iterable[str]) -> list[str]:
        """Runs of this day that were published when the attempt began and still are, and are not in `produced`."""
        with storage_errors(f"read {self._store.root}"):
            return [run for run in sorted(set(self._noted) - set(produced)) if self._published_before(run)]

    def _published_before(self, run_id: str) -> bool:
        try:
            return not read_version(self._store, Key(self.ds, run_id), self._noted[run_id]).retired
        except FileNotFoundError:  # another writer has published it since
            return False

    def retire(self, run_ids: Iterable[str]) -> None:
        """Ends the publication of runs that `stale_runs` named, in all tables; to be called after `commit`.

        Raises:
            PublishError: another writer published one of them since the attempt began: that one stays.
        """
        if not self._ended:
            raise ValueError("runs are retired after the commit of those that stay")
        done: list[Manifest] = []
        lost: list[Manifest] = []
        with storage_errors(f"retire runs in {self._store.root}"):
            for run in sorted(set(run_ids)):
                manifest = self._manifest(Key(self.ds, run), tables={}, retired=True, extras=self._times())
                (done if create_version(self._store, manifest) else lost).append(manifest)
        self._bring_into_place(done + lost)
        if lost:
            raise PublishError(f"not retired, another writer has published it since: {_keys(lost)}")

    def close(self) -> None:
        """Ends the attempt and removes what it wrote and did not commit; may be called again."""
        with storage_errors(f"clear the attempt in {self._store.root}"):
            if not self._ended:
                clear_attempt(self._store, self.id)
            self._ended = True

    def _check_open(self) -> None:
        if self._ended:
            raise PublishError("this attempt has ended; begin another")

    def _manifests(self, runs: Mapping[str, Mapping[str, Any]]) -> list[Manifest]:
        """The manifest of every run, in sorted order; all are known to be good before the first is published."""
        written = attempt_files(self._store, self.id)
        unnamed = sorted(str(key) for key in written if key not in {Key(self.ds, run) for run in runs})
        if unnamed:
            raise PublishError(f"the attempt holds {unnamed[0]}, which the commit does not name")
        refuse_strays(self._store, self.id)
        manifests = []
        for run in sorted(runs):
            key = Key(self.ds, run)
            if Key.parse(key.directory.split("/")) != key:
                raise PublishError(f"{run!r} cannot be the name of a run: Spark stores it as null")
            files = {**{table: [] for table in self._tables}, **written.get(key, {})}
            tables = describe(self._store, self.id, key, files)
            counts = {} if "row_counts" in runs[run] else count_rows(self._store, self.id, key, tables)
            extras = {"row_counts": counts, **self._times(), **runs[run]}
            manifests.append(self._manifest(key, tables=tables, extras=extras))
        return manifests

    def _times(self) -> dict[str, str]:
        now = datetime.now(UTC)
        return {"started": self._started.isoformat(timespec="seconds"), "finished": now.isoformat(timespec="seconds")}

    def _manifest(
        self, key: Key, *, tables: Mapping[str, Any], extras: Mapping[str, Any], retired: bool = False
    ) -> Manifest:
        """The successor of the version noted when the attempt began."""
        noted = self._noted.get(key.run_id, 0)
        previous = None
        if noted:
            with suppress(FileNotFoundError):  # replaced since: the commit will find that out
                previous = read_version(self._store, key, noted).attempt
        taken = sorted(set(extras) & set(RESERVED))
        if taken:
            raise ValueError(f"{taken[0]} is a field of the manifest itself")
        manifest = Manifest.of(
            key, noted + 1, self.id, previous=previous, tables=tables, retired=retired, extras=extras
        )
        _ = manifest.data  # whether JSON can say it
        return manifest

    def _bring_into_place(self, manifests: Iterable[Manifest]) -> None:
        """Settles published runs and those lost to another writer, whose files may have to be cleared as well."""
        with storage_errors(f"move what is published in {self._store.root} into place (the next command does)"):
            for manifest in manifests:
                if not settle(self._store, manifest.key):
                    raise PublishError(f"{manifest.key} is published, but files of it are gone; evaluate it again")


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a table: small letters, digits and '_'")
    return name


def _keys(manifests: Iterable[Manifest]) -> str:
    return ", ".join(str(manifest.key) for manifest in manifests) or "nothing"
