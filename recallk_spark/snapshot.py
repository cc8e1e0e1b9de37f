"""What an input was when it was read: its files with sizes and modification times, for the manifest."""

from __future__ import annotations

from typing import Any

from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from recallk_spark.locations import is_glob
from recallk_spark.specs import Format, Source

UNKNOWN = "unknown"
_SIGNS_OF_NO_DATA = ("_", ".")


def input_files(source: Source, *, ds: str | None, ds_column: str) -> list[dict[str, Any]] | str:
    """The data files of an input: path, size in bytes, modification time (UTC, ISO 8601), by path.

    Where the input is a directory by day and a day is read, only the files of that day. 'unknown' for tables, for
    patterns and for file systems this machine cannot open.
    """
    if source.format is Format.TABLE or is_glob(source.location):
        return UNKNOWN
    try:
        system, path = FileSystem.from_uri(source.location) if ":/" in source.location else _local(source.location)
        info = system.get_file_info(path)
        files = [info]
        if info.type is FileType.Directory:
            files = system.get_file_info(FileSelector(path, recursive=True))
    except (OSError, ValueError):
        return UNKNOWN
    day = f"/{ds_column}={ds}/"
    data = [file for file in files if file.type is FileType.File and _is_data(file.path.removeprefix(path))]
    of_day = [file for file in data if day in file.path] if ds else []
    return [
        {"path": file.path, "size": file.size, "modified": file.mtime.isoformat() if file.mtime else UNKNOWN}
        for file in sorted(of_day or data, key=lambda file: str(file.path))
    ]


def _local(location: str) -> tuple[FileSystem, str]:
    return LocalFileSystem(), location


def _is_data(below: str) -> bool:
    return not any(part.startswith(_SIGNS_OF_NO_DATA) for part in below.split("/"))
