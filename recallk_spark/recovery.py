"""Bringing what was committed into place, and clearing what writers that died have left.

Everything here may run in any number of processes at once, at any time, stop anywhere and run again. It rests on:
- a version is settled by anybody, the highest only; what was listed *before* the highest version was read again
  and found unchanged cannot belong to a newer one;
- the files of a superseded attempt are removed from its own directory first, so that a slow process cannot move
  them into place later; the superseded version is deleted last, so that nobody forgets this was needed;
- only the process that made an attempt commits it, so the attempt of a dead process changes no more. Whether it
  is dead is asked before its runs are settled, and only then is its directory deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import PurePosixPath

from recallk_spark.keys import Key
from recallk_spark.owners import is_abandoned
from recallk_spark.parts import attempt_files, is_part
from recallk_spark.storage import Store, open_store, storage_errors
from recallk_spark.versions import (
    ATTEMPTS,
    TABLES,
    Manifest,
    highest,
    latest,
    list_manifests,
    read_version,
    version_path,
    versions,
)

_ROUNDS = 20  # how many newer commits settling follows before it leaves them to their writers
_TRIES = 5


def recover(root: str) -> None:
    """Finishes every unfinished move under `root` and clears what ended writers left; harmless at any time.

    Attempts of living processes are left alone, and so is everything that recallk did not write. A root that is
    not there, or where nothing is to be done, is not written to.

    Raises:
        PublishError: the storage fails.
    """
    with storage_errors(f"finish what is unfinished in {root}"):
        recover_store(open_store(root))


def recover_store(store: Store) -> None:
    """See `recover`."""
    now = datetime.now(UTC)
    attempts = store.names(ATTEMPTS)
    abandoned = [attempt for attempt in attempts if is_abandoned(attempt, now)]
    listing = list_manifests(store)
    keys = {key for key, numbers in listing.versions.items() if len(numbers) > 1}
    for attempt in attempts:
        keys |= attempt_files(store, attempt).keys()
    for key in sorted(keys, key=lambda k: k.order):
        settle(store, key)
    for path, attempt in listing.temporary.items():
        if is_abandoned(attempt, now):
            store.delete(path)
    for attempt in abandoned:
        _delete_attempt(store, attempt)
    store.delete_if_empty(ATTEMPTS)


def clear_attempt(store: Store, attempt: str) -> None:
    """Ends an attempt that will commit no more: what it has committed is moved into place, the rest deleted."""
    for key in attempt_files(store, attempt):
        settle(store, key)
    _delete_attempt(store, attempt)


def _delete_attempt(store: Store, attempt: str) -> None:
    """Deletes an attempt's directory if it can be: what stays is hidden, and tried again by the next command."""
    with suppress(OSError):
        store.delete_tree(f"{ATTEMPTS}/{attempt}")
    store.delete_if_empty(ATTEMPTS)


def settle(store: Store, key: Key) -> bool:
    """Makes the tables hold, of this key, exactly the files of its highest version; older versions go.

    False where files of the highest version are gone, deleted by somebody else: then nothing more is deleted.
    """
    for _ in range(_ROUNDS):
        current = latest(store, key)
        if current is None:
            return True
        whole = _settle_version(store, current)
        if whole or highest(store, key) == current.version:
            return whole
    return True  # newer versions keep coming, each with a writer that settles it


def _settle_version(store: Store, current: Manifest) -> bool:
    """One round of settling; False where it was not finished because a newer version holds or files are gone."""
    older = [number for number in versions(store, current.key) if number < current.version]
    tables = {*TABLES, *current.tables, *drop_superseded(store, current.key, older)}
    if not move_into_place(store, current) or not remove_replaced(store, current, sorted(tables)):
        return False
    drop_versions(store, current.key, older)
    with suppress(OSError):  # what stays is hidden
        drop_attempt(store, current)
    return True


def drop_superseded(store: Store, key: Key, older: Iterable[int]) -> set[str]:
    """Deletes the directories, of this key, of superseded attempts; returns the tables that these had."""
    tables: set[str] = set()
    for number in older:
        # a version that is gone was cleared by somebody who had done this before
        with suppress(FileNotFoundError):
            superseded = read_version(store, key, number)
            tables |= superseded.tables.keys()
            drop_attempt(store, superseded)
    return tables


def move_into_place(store: Store, current: Manifest) -> bool:
    """Moves a version's files to where plain readers look; False if one is nowhere to be found."""
    complete = True
    for table, names in current.tables.items():
        target = f"{table}/{current.key.directory}"
        source = f"{ATTEMPTS}/{current.attempt}/{target}"
        present = set(store.names(target))
        for name in names:
            if name not in present:
                complete &= _move_file(store, f"{source}/{name}", f"{target}/{name}")
    if complete:
        store.sync_directories(f"{table}/{current.key.directory}" for table, names in current.tables.items() if names)
    return complete


def _move_file(store: Store, source: str, target: str) -> bool:
    for left in reversed(range(_TRIES)):
        try:
            store.make_directory(str(PurePosixPath(target).parent))
            store.move(source, target)
            return True
        except OSError:
            if not store.exists(source):
                return store.exists(target)  # another process has moved it, or a newer version has removed it
            if not left:
                raise
    return False


def remove_replaced(store: Store, current: Manifest, tables: Iterable[str]) -> bool:
    """Deletes a key's data files that the highest version does not list; False if that is no longer `current`."""
    replaced = []
    for table in tables:
        directory, kept = f"{table}/{current.key.directory}", set(current.tables.get(table, ()))
        names = store.names(directory)
        replaced.append((directory, [name for name in names if is_part(name) and name not in kept]))
    if highest(store, current.key) != current.version:
        return False
    for directory, names in replaced:
        for name in names:
            store.delete(f"{directory}/{name}")
        for empty in (directory, str(PurePosixPath(directory).parent)):
            store.delete_if_empty(empty)
    return True


def drop_versions(store: Store, key: Key, older: Iterable[int]) -> None:
    """Deletes superseded versions, the oldest first."""
    for number in older:
        store.delete(version_path(key, number))


def drop_attempt(store: Store, manifest: Manifest) -> None:
    """Deletes what is left in the attempt's directories of this key, whose files are in place or superseded."""
    for table in manifest.tables:
        store.delete_tree(f"{ATTEMPTS}/{manifest.attempt}/{table}/{manifest.key.directory}")
