"""Manifest files: what is published of a day and run, in numbered versions of which the highest holds.

OUT/_manifest/[ds=2026-11-29/]run_id=A/v000007.json. A version is created only as the successor of the version
its writer saw when it began, and only if no file has that name: that is the commit point. The highest version is
never deleted, so numbers never start again; a run that is retired gets a version that says so and lists no files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from recallk_spark.errors import InputError
from recallk_spark.keys import DS, RUN, Key, day_directory
from recallk_spark.storage import Store

TABLES = ("profile", "per_query", "protocol")
MANIFESTS = "_manifest"
ATTEMPTS = "_attempts"
RESERVED = ("format", DS, RUN, "version", "attempt", "previous_attempt", "retired", "tables")

_FORMAT = 1
_TRIES = 20  # how often the highest version is looked for again when it was replaced before it was read
_VERSION = re.compile(r"v(\d{6,})\.json")
_TEMPORARY = re.compile(r"\.v\d{6,}\.([^/]+)\.tmp")


@dataclass(frozen=True)
class Manifest:
    """One version of a key.

    Attributes:
        key, version: what it is the manifest of.
        attempt: the attempt that wrote it, and whose files it lists.
        content: everything it says, as it stands in the file.
    """

    key: Key
    version: int
    attempt: str
    content: Mapping[str, Any]

    @property
    def retired(self) -> bool:
        """Whether it says that the run is published no longer."""
        return bool(self.content["retired"])

    @property
    def tables(self) -> dict[str, list[str]]:
        """The names of each table's files."""
        return {name: [file["name"] for file in files] for name, files in self.content["tables"].items()}

    @classmethod
    def of(
        cls,
        key: Key,
        version: int,
        attempt: str,
        *,
        previous: str | None,
        tables: Mapping[str, Sequence[Mapping[str, Any]]],
        retired: bool = False,
        extras: Mapping[str, Any],
    ) -> Manifest:
        """The manifest with this content; `extras` hold what publishing itself makes no use of."""
        content = {
            "format": _FORMAT,
            DS: key.ds,
            RUN: key.run_id,
            "version": version,
            "attempt": attempt,
            "previous_attempt": previous,
            "retired": retired,
            "tables": tables,
            **extras,
        }
        return cls(key, version, attempt, content)

    @property
    def data(self) -> bytes:
        """The content of its file.

        Raises:
            ValueError, TypeError: `extras` cannot be said in JSON.
        """
        return json.dumps(self.content, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"

    @classmethod
    def parse(cls, data: bytes, path: str) -> Manifest:
        """The manifest in a file.

        Raises:
            InputError: the file is no manifest, or one of a later release.
        """
        try:
            content = json.loads(data)
            if content["format"] > _FORMAT:
                raise InputError(f"{path} was written by a later release of recallk; upgrade to read it")
            key = Key(content[DS], content[RUN])
            manifest = cls(key, content["version"], content["attempt"], content)
            _ = manifest.tables, manifest.retired
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is not a manifest of recallk ({error!r}); restore or remove it") from error
        return manifest


def version_path(key: Key, version: int) -> str:
    """Where a version lies."""
    return f"{MANIFESTS}/{key.directory}/v{version:06d}.json"


def versions(store: Store, key: Key) -> list[int]:
    """The versions of a key that are there, ascending."""
    return _numbers(store.names(f"{MANIFESTS}/{key.directory}"))


def _numbers(names: Iterable[str]) -> list[int]:
    return sorted(int(match[1]) for match in map(_VERSION.fullmatch, names) if match)


def highest(store: Store, key: Key) -> int:
    """The version that holds, 0 where there is none."""
    return max(versions(store, key), default=0)


@dataclass(frozen=True)
class Listing:
    """All manifest files of a root (or of one day): versions by key, and temporary files by the attempt they are of."""

    versions: Mapping[Key, list[int]]
    temporary: Mapping[str, str]


def list_manifests(store: Store, ds: str | None = None) -> Listing:
    """Lists them in one walk; files that are none of ours are passed over. Keys are sorted."""
    prefix = f"{MANIFESTS}/{day_directory(ds)}"
    found: dict[Key, list[str]] = {}
    temporary = {}
    for path in store.files(prefix.rstrip("/")):
        parts = PurePosixPath(prefix + path).parts
        key = Key.parse(parts[1:-1])
        match = _TEMPORARY.fullmatch(parts[-1])
        if key and match:
            temporary[prefix + path] = match[1]
        elif key and _VERSION.fullmatch(parts[-1]):
            found.setdefault(key, []).append(parts[-1])
    return Listing({key: _numbers(found[key]) for key in sorted(found, key=lambda k: k.order)}, temporary)


def read_version(store: Store, key: Key, version: int) -> Manifest:
    """One version.

    Raises:
        FileNotFoundError: it is gone, so that a higher one holds.
        InputError: the file is no manifest.
    """
    path = version_path(key, version)
    return Manifest.parse(store.read(path), f"{store.root}/{path}")


def latest(store: Store, key: Key) -> Manifest | None:
    """The version that holds, None where the key was never published."""
    for _ in range(_TRIES):
        version = highest(store, key)
        try:
            return read_version(store, key, version) if version else None
        except FileNotFoundError:  # replaced since it was listed
            continue
    raise InputError(f"{store.root}: the manifest of {key} is replaced faster than it can be read; try again")


def create_version(store: Store, manifest: Manifest) -> bool:
    """The commit point: makes `manifest` the version that holds, if its predecessor still is; says whether it did.

    False is also the answer to a writer whose version was superseded in the same instant. A file of a number that
    was used and cleared before may be left below the highest: whoever settles the key next clears it.
    """
    key, path = manifest.key, version_path(manifest.key, manifest.version)
    if highest(store, key) != manifest.version - 1:
        return False
    temporary = f"{MANIFESTS}/{key.directory}/.v{manifest.version:06d}.{manifest.attempt}.tmp"
    try:
        store.write(temporary, manifest.data)
        created = store.create(temporary, path)
    finally:
        store.delete(temporary)
    if created:
        store.sync_directories([str(PurePosixPath(path).parent)])
    return created and highest(store, key) == manifest.version
