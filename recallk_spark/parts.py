"""The data files an attempt has written: of which run and table they are, under which names, with how many rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import pyarrow.parquet as pq

from recallk_spark.errors import PublishError
from recallk_spark.keys import Key
from recallk_spark.storage import Store
from recallk_spark.versions import ATTEMPTS

SCRATCH = "_scratch"

_PART = re.compile(r"part-.*\.parquet")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_part(name: str) -> bool:
    """Whether a file in a run's directory is data, as Spark names it; everything else there is left alone."""
    return _PART.fullmatch(name) is not None


def attempt_files(store: Store, attempt: str) -> dict[Key, dict[str, list[str]]]:
    """The data files an attempt holds, by key and table; keys with none but other files are named too."""
    found: dict[Key, dict[str, list[str]]] = {}
    for path in store.files(f"{ATTEMPTS}/{attempt}"):
        table, key, name = _parsed(path)
        if key is not None:
            files = found.setdefault(key, {}).setdefault(table, [])
            if is_part(name):
                files.append(name)
    return found


def _parsed(path: str) -> tuple[str, Key | None, str]:
    *parents, name = PurePosixPath(path).parts
    table = parents[0] if parents else ""
    return table, None if table.startswith("_") else Key.parse(parents[1:]), name


def refuse_strays(store: Store, attempt: str) -> None:
    """Refuses an attempt with data outside the directory of any run, which would silently stay unpublished.

    Raises:
        PublishError: there is such a file.
    """
    for path in store.files(f"{ATTEMPTS}/{attempt}"):
        table, key, name = _parsed(path)
        if key is None and is_part(name) and not table.startswith("_") and "/_temporary/" not in path:
            raise PublishError(f"'{path}' of the attempt is of no run; write tables with partitionBy('run_id')")


def describe(
    store: Store, attempt: str, key: Key, files: Mapping[str, Sequence[str]]
) -> dict[str, list[dict[str, Any]]]:
    """Name and size of every file of a key by table, after each has got a name no other attempt gives."""
    described = {}
    for table, names in sorted(files.items()):
        directory = f"{ATTEMPTS}/{attempt}/{table}/{key.directory}"
        unique = [_unique_name(store, directory, name, attempt) for name in names]
        described[table] = [{"name": name, "size": store.size(f"{directory}/{name}")} for name in unique]
    return described


def _unique_name(store: Store, directory: str, name: str, attempt: str) -> str:
    """Spark puts a UUID into every name; what other writers name is renamed."""
    if _UUID.search(name):
        return name
    unique = f"part-{attempt}-{name}"
    store.move(f"{directory}/{name}", f"{directory}/{unique}")
    return unique


def part_paths(attempt: str, key: Key, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Where the attempt holds the files that `describe` told of."""
    start = f"{ATTEMPTS}/{attempt}"
    return [f"{start}/{table}/{key.directory}/{file['name']}" for table in tables for file in tables[table]]


def count_rows(
    store: Store, attempt: str, key: Key, tables: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, int]:
    """Rows by table, as the files' own footers say."""
    return {
        table: sum(_rows(store, path) for path in part_paths(attempt, key, {table: files}))
        for table, files in tables.items()
    }


def _rows(store: Store, path: str) -> int:
    with store.filesystem.open_input_file(store.location(path)) as file:
        return int(pq.read_metadata(file).num_rows)
