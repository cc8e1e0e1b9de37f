"""Roots for the tests of publishing: published to, copied, and looked at in every way."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pads

from recallk_spark.manifest import published, read_table
from recallk_spark.sinks import Output
from tests.jobs.publishing_child import write_rows

TABLES = ("profile", "per_query")


def publish(root: Path, ds: str | None, runs: dict[str, int], *, tables: Sequence[str] = TABLES) -> None:
    with Output(str(root), ds=ds).begin() as attempt:
        for table in tables:
            for run_id, first in runs.items():
                write_rows(attempt, table, run_id, range(first, first + 4))
        attempt.commit({run_id: {"fingerprint": f"f{first}"} for run_id, first in runs.items()})


def values(root: Path, table: str, ds: str | None = None, run_id: str | None = None) -> list[int]:
    return sorted(read_table(str(root), table, ds=ds, run_id=run_id)["k"].to_pylist())


def plain(root: Path, table: str = "profile") -> dict[tuple[str, ...], list[int]]:
    """What a reader who knows no manifest sees: partition values -> sorted k."""
    return by_key(pads.dataset(str(root / table), partitioning="hive").to_table())


def by_key(table: pa.Table) -> dict[tuple[str, ...], list[int]]:
    found: dict[tuple[str, ...], list[int]] = {}
    for row in table.to_pylist():
        key = tuple(str(row[name]) for name in ("ds", "run_id") if name in row)
        found.setdefault(key, []).append(row["k"])
    return {key: sorted(found[key]) for key in sorted(found)}


def tree(root: Path) -> dict[str, bytes]:
    """Every file with its content."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def assert_tidy(root: Path) -> None:
    """Nothing but what is published: one manifest per key, its files in their place, no attempts."""
    listed = set()
    for one in published(str(root)):
        directory = (f"ds={one.ds}/" if one.ds else "") + f"run_id={one.run_id}"
        listed.add(f"_manifest/{directory}/v{one.version:06d}.json")
        for table, files in one.details["tables"].items():
            listed |= {f"{table}/{directory}/{file['name']}" for file in files}
    assert set(tree(root)) == listed
    assert not (root / "_attempts").exists()


def four(first: int) -> list[int]:
    return [first, first + 1, first + 2, first + 3]


def two_days(root: Path) -> Path:
    """A root with two days of two runs."""
    publish(root, "2026-11-28", {"A": 10, "B": 20})
    publish(root, "2026-11-29", {"A": 30, "B": 40})
    return root


def copies(earlier: Path, folder: Path) -> Iterator[Path]:
    """Fresh copies of the root, one after the other."""
    for number in range(1000):
        root = folder / f"out{number}"
        shutil.copytree(earlier, root, copy_function=os.link)  # no file is ever written twice
        yield root


def untouched(root: Path) -> dict[str, bytes]:
    return {path: data for path, data in tree(root).items() if "2026-11-28" in path or "run_id=B" in path}
