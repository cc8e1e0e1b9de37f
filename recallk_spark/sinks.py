"""Writing results so that each (day, run) changes as a whole: attempts, their commit, and retiring runs.

    with Output("out", ds="2026-11-29").begin() as attempt:
        frame.write.partitionBy("run_id").parquet(attempt.table_path("profile"))
        attempt.commit({"A": {"fingerprint": ..., "schema_version": 1, "row_counts": {...}, "inputs": [...]}})

What is written lies hidden until `commit` makes the manifest of each (day, run) name this attempt: one atomic file
operation each. Then the files are moved to where plain readers look. Spark is not needed here.
"""

from __future__ import annotations

from datetime import date

from recallk_spark.attempt import Attempt, check_root
from recallk_spark.errors import UsageError
from recallk_spark.recovery import recover, recover_store
from recallk_spark.storage import open_store, storage_errors

__all__ = ["Attempt", "Output", "recover"]


class Output:
    """One output root: a local path, or a URI of a file system pyarrow knows.

    Attributes:
        root: as it was given.
        ds: the day that is written, None where the root is not by day.

    Raises:
        InputError: the root is a file, is by day while no day is given (or the reverse), or has data under the
            names of our tables that recallk did not write.
        UsageError: `ds` is no ISO day.
    """

    def __init__(self, root: str, *, ds: str | None) -> None:
        self.root = root
        self.ds = ds
        if ds is not None and not _is_day(ds):
            raise UsageError(f"ds: a day like 2026-11-29, not {ds!r}")
        self._store = open_store(root)
        with storage_errors(f"read {root}"):
            check_root(self._store, ds)

    def begin(self) -> Attempt:
        """A new attempt, after what earlier commands left unfinished is finished or cleared.

        Raises:
            PublishError: the root cannot be written.
        """
        with storage_errors(f"write to {self.root}"):
            recover_store(self._store)
            return Attempt(self._store, ds=self.ds)


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
