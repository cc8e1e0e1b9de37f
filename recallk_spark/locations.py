"""What a local file system says about a location: what stands there, near it, and in its partitions.

Answers are None where only Spark can look (a pattern, another file system, a path that is not on this machine);
so nothing here decides that an input is missing, it makes the answer quicker and the message better.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from pyarrow.fs import FileInfo, FileSelector, FileType, LocalFileSystem

from recallk_spark.keys import unescape

_LOCAL = LocalFileSystem()
_GLOB_SIGNS = frozenset("*?[{")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)")


def is_glob(location: str) -> bool:
    """Whether Spark takes the location as a pattern."""
    return not _GLOB_SIGNS.isdisjoint(location)


def exists(location: str) -> bool:
    """Whether something on this machine has exactly this path."""
    info = _info(location)
    return info is not None and info.type is not FileType.NotFound


def near_name(location: str) -> str:
    """The path beside a missing location whose name is nearest to its own, or ''."""
    parent, _, name = (_local_path(location) or "").rstrip("/").rpartition("/")
    if not name:
        return ""
    siblings = [child.base_name for child in _children(parent or "/")]
    near = get_close_matches(name, siblings, n=1)
    return location.rstrip("/").removesuffix(name) + near[0] if near else ""


def is_empty(location: str) -> bool:
    """Whether this is a local directory without a single data file (hidden files and markers do not count)."""
    info = _info(location)
    return info is not None and info.type is FileType.Directory and not _holds_file(info.path)


def partition_columns(location: str) -> list[str]:
    """Names of the partition columns of a local directory, outermost first."""
    columns: list[str] = []
    level = _partitions(_local_path(location))
    while level:
        columns.append(level[0].base_name.partition("=")[0])
        level = _partitions(level[0].path)
    return columns


def partition_values(location: str, column: str) -> list[str] | None:
    """The values of a partition column of a local directory, sorted; None if it has no such column."""
    level = _partitions(_local_path(location))
    while level:
        if level[0].base_name.partition("=")[0] == column:
            return sorted({unescape(child.base_name.partition("=")[2]) for child in level})
        level = [below for child in level for below in _partitions(child.path)]
    return None


def _local_path(location: str) -> str | None:
    scheme = _SCHEME.match(location)
    if is_glob(location) or (scheme and scheme[1] != "file"):
        return None
    if scheme:
        return re.sub("^//[^/]*", "", location[scheme.end() :])
    return location if location.startswith("/") else f"./{location}"  # pyarrow takes 'a:b' for an address


def _info(location: str) -> FileInfo | None:
    path = _local_path(location)
    return None if path is None else _LOCAL.get_file_info(path)


def _children(path: str) -> list[FileInfo]:
    if _LOCAL.get_file_info(path).type is not FileType.Directory:
        return []
    children = _LOCAL.get_file_info(FileSelector(path))
    return sorted(children, key=lambda child: child.base_name)


def _partitions(path: str | None) -> list[FileInfo]:
    return [child for child in _children(path or "") if child.type is FileType.Directory and "=" in child.base_name]


def _holds_file(path: str) -> bool:
    shown = [child for child in _children(path) if not child.base_name.startswith((".", "_"))]
    return any(child.type is FileType.File or _holds_file(child.path) for child in shown)
