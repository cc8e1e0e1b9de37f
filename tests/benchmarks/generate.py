"""Made-up score and relevance tables of any size: the same tables for the same arguments.

    python -m tests.benchmarks.generate FOLDER --rows 20000000 [--ids string] [--hot 2000000] [--runs 8] [--dense]

writes FOLDER/scores, FOLDER/relevance and FOLDER/queries as Parquet. They are skewed the way a shop's logs are: list
lengths are lognormal (median 200, at most 20,000), relevant items per query follow a power law up to 500; a third of
the queries has coarse scores (ties), one row in two hundred repeats an earlier one, some queries have no results and
some no relevant item. The rows of a query lie in every file, in random order: the worst case for a shuffle.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ITEMS = 1_000_000  # in the shop; relevant items that no run returns have greater numbers
BATCH = 2_500_000  # score rows that are made and shuffled at once
FILES = 8
SLICES = 100
STRIDES = np.array([3, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89])  # to ITEMS


@dataclass(frozen=True)
class Size:
    """What is made.

    Attributes:
        rows: score rows of one run, about.
        ids: 'bigint' or 'string' (query-000000000013, item-000000000042).
        hot: the length of one query's list, besides the others; 0 for none.
        runs: runs over the same queries, told by run_id when there are several.
        dense: as many labels as score rows, instead of about 3 a query.
    """

    rows: int
    ids: str = "bigint"
    hot: int = 0
    runs: int = 1
    dense: bool = False
    seed: int = 20261130


def generate(folder: Path, size: Size) -> Path:
    """Writes the tables unless they are there already, and returns the folder."""
    done, wanted = folder / "made.json", json.dumps(asdict(size))
    if done.exists() and done.read_text() == wanted:
        return folder
    (folder / "scores").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(size.seed)
    shop = _Queries.draw(rng, size)
    writers: list[pq.ParquetWriter] = []
    labels = []
    for queries in shop.batches():
        lists = _Lists.draw(rng, queries)
        labels.append(lists.labels(rng))
        for run in range(size.runs):
            table = _table(size, "score", *lists.results(rng))
            if size.runs > 1:
                table = table.append_column("run_id", pa.array([f"run{run}"] * table.num_rows).dictionary_encode())
            writers = writers or [
                pq.ParquetWriter(folder / "scores" / f"part-{number:03d}.parquet", table.schema, compression="zstd")
                for number in range(FILES)
            ]
            for writer, part in zip(writers, np.array_split(rng.permutation(table.num_rows), FILES), strict=True):
                writer.write_table(table.take(part))
    for writer in writers:
        writer.close()
    columns = [np.concatenate(column) for column in zip(*labels, strict=True)]
    _write(folder / "relevance", _table(size, "grade", *columns))
    segments = np.array([f"s{number:02d}" for number in range(SLICES)])[shop.query % SLICES]
    _write(folder / "queries", pa.table({"query_id": _ids(shop.query, size, "query"), "segment": segments}))
    done.write_text(wanted)
    return folder


@dataclass(frozen=True)
class _Queries:
    """Side by side: id, length of the list, number of relevant items, whether it has results at all."""

    query: Integers
    length: Integers
    relevant: Integers
    answered: npt.NDArray[np.bool_]

    @classmethod
    def draw(cls, rng: np.random.Generator, size: Size) -> _Queries:
        drawn = np.clip(rng.lognormal(np.log(200), 1.3, size.rows // 200 + 100), 1, 20_000).astype(np.int64)
        length = drawn[: np.searchsorted(np.cumsum(drawn), size.rows) + 1]
        relevant = length.copy() if size.dense else np.minimum(rng.zipf(1.6, len(length)), 500)
        relevant[rng.random(len(length)) < 0.02] = 0
        answered = rng.random(len(length)) >= 0.02
        if size.hot:
            middle = len(length) // 2
            length[middle], relevant[middle], answered[middle] = size.hot, 500, True
        query = rng.permutation(len(length) * 2)[: len(length)].astype(np.int64) * 7919 + 13
        return cls(query, length, relevant, answered)

    def batches(self) -> Iterator[_Queries]:
        starts = np.flatnonzero(np.diff(np.cumsum(self.length) // BATCH, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(self.length)], strict=True):
            yield _Queries(*(getattr(self, name)[start:end] for name in ("query", "length", "relevant", "answered")))


@dataclass(frozen=True)
class _Lists:
    """The results of some queries, not yet scored: per row the place of its query, its item, whether it is relevant."""

    queries: _Queries
    place: Integers
    item: Integers
    relevant: npt.NDArray[np.bool_]

    @classmethod
    def draw(cls, rng: np.random.Generator, queries: _Queries) -> _Lists:
        length = queries.length
        place = np.repeat(np.arange(len(length)), length)
        first = np.cumsum(length) - length
        position = np.arange(len(place)) - first[place]
        items = np.maximum(length, ITEMS)
        start, stride = rng.integers(ITEMS, size=len(length)), rng.choice(STRIDES, len(length))
        item = (start[place] + position * stride[place]) % items[place]  # distinct within a query
        wanted = np.repeat(np.arange(len(length)), rng.binomial(queries.relevant, 0.8))
        relevant = np.zeros(len(place), dtype=bool)
        relevant[first[wanted] + rng.integers(0, length[wanted])] = True
        return cls(queries, place, item, relevant)

    def labels(self, rng: np.random.Generator) -> tuple[Integers, Integers, Integers]:
        """Query, item and grade (0 to 3) of every label: the relevant results, and items that nobody returns."""
        returned = np.bincount(self.place[self.relevant], minlength=len(self.queries.length))
        beyond = np.repeat(np.arange(len(returned)), np.maximum(self.queries.relevant - returned, 0))
        number = np.arange(len(beyond)) - (np.searchsorted(beyond, beyond))
        place = np.concatenate([self.place[self.relevant], beyond])
        item = np.concatenate([self.item[self.relevant], ITEMS * 100 + number])
        grade = np.where(rng.random(len(place)) < 0.05, 0, rng.integers(1, 4, len(place)))
        return self.queries.query[place], item, grade

    def results(self, rng: np.random.Generator) -> tuple[Integers, Integers, Floats]:
        """Query, item and score of every result of one run; relevant ones score higher, some rows are repeats."""
        score = rng.normal(0, 1, len(self.place)) + 1.5 * self.relevant
        coarse = self.queries.query[self.place] % 3 == 0
        score = np.where(coarse, np.round(score, 1), np.round(score, 3))
        repeat = np.flatnonzero(rng.random(len(self.place)) < 0.005)
        rows = np.concatenate([np.arange(len(self.place)), repeat])
        score = np.concatenate([score, score[repeat] - np.round(rng.random(len(repeat)), 1)])
        there = self.queries.answered[self.place[rows]]
        rows, score = rows[there], score[there]
        return self.queries.query[self.place[rows]], self.item[rows], score


def _table(size: Size, value: str, query: Integers, item: Integers, values: Integers | Floats) -> pa.Table:
    return pa.table({"query_id": _ids(query, size, "query"), "item_id": _ids(item, size, "item"), value: values})


def _ids(numbers: Integers, size: Size, word: str) -> pa.Array:
    if size.ids == "bigint":
        return pa.array(numbers)
    distinct, places = np.unique(numbers, return_inverse=True)
    return pa.DictionaryArray.from_arrays(places, [f"{word}-{number:012d}" for number in distinct]).cast(pa.string())


def _write(folder: Path, table: pa.Table) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / "part-000.parquet", compression="zstd")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--ids", choices=("bigint", "string"), default="bigint")
    parser.add_argument("--hot", type=int, default=0)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--dense", action="store_true")
    options = vars(parser.parse_args())
    generate(options.pop("folder"), Size(**options))


if __name__ == "__main__":
    main()
