"""A made-up shop's warehouse to try everything on: three search systems, clicks as labels, and a real table's dirt.

What there is to see: 'keyword' is best at k = 1, 'hybrid' at depth, but 'embedding' on mobile at k = 100.

What there is to count among the thousand queries: each run lacks 20; 20 have labels of grade 0 only and 10 none; 30
more are not in the queries table, 20 of them without labels (without that table those are the unjudged ones); 25
have no country; 50 have lists of 3 results, 5 of 1,000, most of 50 to 100. A fifth of the rows tie with the row
above, and one row in 200 repeats an item of its list. On the first day only the first 20 results were logged.

The content is the same wherever it is written; the bytes of the files may differ with the version of pyarrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from recallk_spark.errors import PublishError
from recallk_spark.shop import SYSTEMS, Query, answer, make_query

SEED = 20261129
QUERIES = 1_000
DAYS = {"2026-11-28": 20, "2026-11-29": 1_000}  # day -> results logged per list, at most


@dataclass(frozen=True)
class Warehouse:
    """Where the made-up tables are.

    Attributes:
        scores: folder of Parquet files by day; one row is one result (run_id, query_id, item_id, score, ds).
        relevance: Parquet file; one row is one label (query_id, item_id, grade 0 to 3).
        queries: Parquet file; one row is one query to evaluate (query_id, country, device).
        days: the days of the scores, ascending.
        ds: the last day, the one to evaluate.
        runs: the run_ids, the same on every day.
        slices: the slices worth looking at.
    """

    scores: Path
    relevance: Path
    queries: Path
    days: tuple[str, ...]
    ds: str
    runs: tuple[str, ...]
    slices: tuple[str, ...]


def write_warehouse(folder: Path) -> Warehouse:
    """Write the warehouse under `folder`: about 250,000 score rows in two days. An earlier one is replaced.

    Raises:
        PublishError: the folder cannot be written.
    """
    random = Random(SEED)
    queries = [make_query(random, index) for index in range(QUERIES)]
    scores, relevance, listed = folder / "scores", folder / "relevance.parquet", folder / "queries.parquet"
    try:
        for day, logged in DAYS.items():
            _write(_score_table(random, queries, logged), scores / f"ds={day}" / "part.parquet")
        _write(_relevance_table(queries), relevance)
        _write(_query_table(queries), listed)
    except OSError as error:
        raise PublishError(f"the demo warehouse cannot be written under '{folder}': {error}") from error
    return Warehouse(
        scores=scores,
        relevance=relevance,
        queries=listed,
        days=tuple(DAYS),
        ds=max(DAYS),
        runs=tuple(system.name for system in SYSTEMS),
        slices=("country", "device", "country*device"),
    )


def _score_table(random: Random, queries: list[Query], logged: int) -> pa.Table:
    columns: dict[str, list[str | float]] = {"run_id": [], "query_id": [], "item_id": [], "score": []}
    for system in SYSTEMS:
        for query in queries:
            results = answer(random, system, query, logged)
            columns["run_id"] += [system.name] * len(results)
            columns["query_id"] += [query.name] * len(results)
            columns["item_id"] += [item for item, _ in results]
            columns["score"] += [score for _, score in results]
    return pa.table(columns)


def _relevance_table(queries: list[Query]) -> pa.Table:
    rows = [(query.name, item, float(grade)) for query in queries for item, grade, _ in query.labels]
    names, items, grades = zip(*rows, strict=True)
    return pa.table({"query_id": names, "item_id": items, "grade": grades})


def _query_table(queries: list[Query]) -> pa.Table:
    listed = [query for query in queries if query.listed]
    return pa.table(
        {
            "query_id": [query.name for query in listed],
            "country": [query.country for query in listed],
            "device": [query.device for query in listed],
        }
    )


def _write(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
