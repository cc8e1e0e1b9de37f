"""Where results lie: one root, and the few file operations that publishing and reading rest on.

Paths are relative to the root, with '/'. `LocalStore` keeps every promise below on a POSIX file system; `Store`
is the same through any file system pyarrow knows, where a move may be a copy, a create-if-absent may be a check
followed by a move, and nothing can be flushed: one writer per day and run at a time is then the user's duty.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Any

from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from recallk_spark.errors import InputError, PublishError

_TRIES = 5  # how often an operation is repeated that another process got in the way of
_URI = re.compile(r"([a-z][a-z0-9+.-]+):(?://)?(.*)", re.DOTALL)
_HADOOP_NAMES = {"s3a": "s3", "s3n": "s3"}  # Spark's name of a file system -> pyarrow's
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
# a directory that cannot be flushed, or is gone because what was put there has been replaced since
_NO_FLUSH = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EACCES, errno.EPERM, errno.ENOENT}


def open_store(root: str) -> Store:
    """The store at `root`: a path, or a URI of a file system pyarrow knows; nothing is written or made.

    A 'file:' URI is taken literally, as Hadoop does: '%20' in it is no blank.

    Raises:
        InputError: the file system is unknown or cannot be reached.
    """
    match = _URI.fullmatch(os.fspath(root))
    if not match or match[1] == "file":
        return LocalStore(os.path.abspath("/" + match[2].lstrip("/") if match else root))
    scheme, rest = match.groups()
    try:
        filesystem, base = FileSystem.from_uri(f"{_HADOOP_NAMES.get(scheme, scheme)}://{rest}")
    except (OSError, ValueError, NotImplementedError) as error:
        raise InputError(f"cannot open {root}: {reason(error)}") from error
    return Store(root.rstrip("/"), filesystem, base.rstrip("/"))


def reason(error: BaseException) -> str:
    """One line that says what went wrong."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    name = getattr(error, "filename", None)
    return str(text).splitlines()[0] + (f": {name}" if name else "")


@contextmanager
def storage_errors(action: str) -> Iterator[None]:
    """Turns an error of the file system into a PublishError of one line, 'cannot `action`: why'."""
    try:
        yield
    except OSError as error:
        raise PublishError(f"cannot {action}: {reason(error)}") from error


class Store:
    """One root on any file system.

    Attributes:
        root: the root as users name it.
        filesystem: pyarrow's file system.
        base: the root as `filesystem` names it.
    """

    def __init__(self, root: str, filesystem: Any, base: str) -> None:
        self.root = root
        self.filesystem = filesystem
        self.base = base

    def spark_location(self, path: str) -> str:
        """`path` as Spark is to be told it."""
        return f"{self.root}/{path}"

    def location(self, path: str) -> str:
        """`path` as `filesystem` names it."""
        return f"{self.base}/{path}" if path else self.base

    def is_file(self, path: str) -> bool:
        """Whether `path` is a file."""
        return bool(self._info(path).type == FileType.File)

    def exists(self, path: str) -> bool:
        """Whether `path` is there."""
        return bool(self._info(path).type != FileType.NotFound)

    def size(self, path: str) -> int:
        """Size of a file in bytes."""
        return int(self._info(path).size)

    def _info(self, path: str) -> Any:
        return self.filesystem.get_file_info(self.location(path))

    def names(self, directory: str) -> list[str]:
        """Names directly in `directory`, sorted; none where it is absent."""
        selector = FileSelector(self.location(directory), allow_not_found=True)
        return sorted(info.base_name for info in self.filesystem.get_file_info(selector))

    def files(self, directory: str) -> list[str]:
        """Paths of all files below `directory`, relative to it, sorted; none where it is absent."""
        start = self.location(directory)
        selector = FileSelector(start, allow_not_found=True, recursive=True)
        found = [info.path for info in self.filesystem.get_file_info(selector) if info.type == FileType.File]
        return sorted(str(PurePosixPath(path).relative_to(start)) for path in found)

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        with self.filesystem.open_input_stream(self.location(path)) as stream:
            return bytes(stream.read())

    def make_directory(self, path: str) -> None:
        """Makes a directory with its parents; it may be there already."""
        self.filesystem.create_dir(self.location(path), recursive=True)

    def write(self, path: str, data: bytes) -> None:
        """Writes a new file, durably where the file system can, and makes its directory."""
        self.make_directory(str(PurePosixPath(path).parent))
        with self.filesystem.open_output_stream(self.location(path)) as stream:
            stream.write(data)

    def create(self, temporary: str, path: str) -> bool:
        """Gives the content of `temporary` the name `path` if nobody has it; says whether it did.

        Here: a look followed by a move. HDFS refuses to move onto a name that exists, so it is atomic there;
        an object store overwrites, and of two writers at the same instant the later one stays.
        """
        if self.exists(path):
            return False
        self.move(temporary, path)
        return True

    def move(self, source: str, target: str) -> None:
        """Moves a file; the target's directory exists."""
        self.filesystem.move(self.location(source), self.location(target))

    def delete(self, path: str) -> None:
        """Deletes a file; it may be gone already."""
        with suppress(FileNotFoundError):
            self.filesystem.delete_file(self.location(path))

    def delete_tree(self, path: str) -> None:
        """Deletes a directory with all it holds; afterwards it is gone, whoever else was deleting it."""
        for left in reversed(range(_TRIES)):
            if not self.exists(path):
                return
            try:
                self.filesystem.delete_dir(self.location(path))
            except OSError:
                if not left:
                    raise

    def delete_if_empty(self, path: str) -> None:
        """Deletes a directory that holds nothing, where the file system can do that in one step."""

    def sync(self, files: Iterable[str]) -> None:
        """Flushes files that somebody else wrote, and the directories they lie in, where that is possible."""

    def sync_directories(self, paths: Iterable[str]) -> None:
        """Flushes the names in directories and in their parents up to the root, where that is possible."""


class LocalStore(Store):
    """One root on a local file system: names are listed in one step, a commit is atomic and survives a power cut."""

    def __init__(self, path: str) -> None:
        super().__init__(path, LocalFileSystem(), path.rstrip("/"))

    def spark_location(self, path: str) -> str:
        """See `Store.spark_location`. A bare path would be one of Spark's default file system, HDFS perhaps."""
        return f"file://{self.location(path)}"

    def names(self, directory: str) -> list[str]:
        """See `Store.names`. Names only: a look at each file would lose those deleted since."""
        try:
            return sorted(os.listdir(self.location(directory) or "/"))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def files(self, directory: str) -> list[str]:
        """See `Store.files`."""
        start = self.location(directory)
        found = []
        for folder, _, names in os.walk(start, onerror=_unless_absent):
            found += [os.path.relpath(os.path.join(folder, name), start) for name in names]
        return sorted(found)

    def make_directory(self, path: str) -> None:
        """See `Store.make_directory`. An empty parent may be deleted under our feet: tried again."""
        for left in reversed(range(_TRIES)):
            try:
                return os.makedirs(self.location(path), exist_ok=True)
            except FileNotFoundError:
                if not left:
                    raise
        return None

    def write(self, path: str, data: bytes) -> None:
        """See `Store.write`."""
        self.make_directory(os.path.dirname(path))
        with open(self.location(path), "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def create(self, temporary: str, path: str) -> bool:
        """See `Store.create`. A hard link is made or refused in one step, by the server on NFS too."""
        try:
            os.link(self.location(temporary), self.location(path))
        except FileExistsError:
            # over NFS a request can be carried out, its answer lost, and the repeated request refused
            with suppress(FileNotFoundError):
                return os.path.samefile(self.location(temporary), self.location(path))
            return False
        except OSError as error:
            if error.errno in _NO_HARD_LINKS:
                return super().create(temporary, path)
            raise
        return True

    def move(self, source: str, target: str) -> None:
        """See `Store.move`."""
        os.replace(self.location(source), self.location(target))

    def delete_if_empty(self, path: str) -> None:
        """See `Store.delete_if_empty`."""
        with suppress(OSError):
            os.rmdir(self.location(path))

    def sync(self, files: Iterable[str]) -> None:
        """See `Store.sync`."""
        directories = set()
        for path in files:
            _flush(self.location(path))
            directories.add(os.path.dirname(path))
        self.sync_directories(directories)

    def sync_directories(self, paths: Iterable[str]) -> None:
        """See `Store.sync_directories`. The root's own name, which may be new, is flushed too."""
        inside = {above for path in paths for above in (path, *map(str, PurePosixPath(path).parents))}
        for location in [*map(self.location, sorted(inside - {"."})), self.base, os.path.dirname(self.base)]:
            try:
                _flush(location or "/")
            except OSError as error:
                if error.errno not in _NO_FLUSH:
                    raise


def _flush(location: str) -> None:
    descriptor = os.open(location, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unless_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error
