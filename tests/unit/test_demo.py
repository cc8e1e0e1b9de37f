"""The made-up warehouse: it has what it promises, and it is the same every time."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from recallk_spark.demo import Warehouse, write_warehouse
from recallk_spark.errors import PublishError

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return write_warehouse(tmp_path_factory.mktemp("shop") / "not" / "there")


def rows(path: Path) -> Rows:
    return pq.ParquetFile(path).read().to_pylist()


def day(warehouse: Warehouse, ds: str) -> Rows:
    return rows(warehouse.scores / f"ds={ds}" / "part.parquet")


@pytest.fixture(scope="module")
def scores(warehouse: Warehouse) -> Rows:
    return day(warehouse, warehouse.ds)


@pytest.fixture(scope="module")
def lists(scores: Rows) -> dict[tuple[str, str], list[str]]:
    """(run, query) -> items, by score descending and item id ascending."""
    found = defaultdict(list)
    for row in scores:
        found[row["run_id"], row["query_id"]].append((-row["score"], row["item_id"]))
    return {key: [item for _, item in sorted(results)] for key, results in found.items()}


@pytest.fixture(scope="module")
def queries(warehouse: Warehouse) -> dict[str, dict[str, Any]]:
    return {row["query_id"]: row for row in rows(warehouse.queries)}


@pytest.fixture(scope="module")
def labels(warehouse: Warehouse) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows(warehouse.relevance):
        found[row["query_id"]][row["item_id"]] = row["grade"]
    return dict(found)


def test_the_warehouse_says_where_everything_is(warehouse: Warehouse) -> None:
    assert warehouse.days == ("2026-11-28", "2026-11-29")
    assert warehouse.ds == "2026-11-29"
    assert warehouse.runs == ("keyword", "embedding", "hybrid")
    assert warehouse.slices == ("country", "device", "country*device")
    assert sorted(path.name for path in warehouse.scores.iterdir()) == ["ds=2026-11-28", "ds=2026-11-29"]


def test_the_last_day_has_about_two_hundred_thousand_rows_of_three_runs(warehouse: Warehouse, scores: Rows) -> None:
    assert 190_000 < len(scores) < 210_000
    assert {row["run_id"] for row in scores} == set(warehouse.runs)
    first = day(warehouse, "2026-11-28")
    assert 50_000 < len(first) < 60_000
    assert max(Counter((row["run_id"], row["query_id"]) for row in first).values()) == 20


def test_tables_have_plain_types_and_shop_like_ids(warehouse: Warehouse, scores: Rows) -> None:
    schema = {
        name: str(pq.read_schema(path).field(name).type)
        for path in (warehouse.scores / "ds=2026-11-29" / "part.parquet", warehouse.relevance, warehouse.queries)
        for name in pq.read_schema(path).names
    }
    assert schema == {
        "run_id": "string",
        "query_id": "string",
        "item_id": "string",
        "score": "double",
        "grade": "double",
        "country": "string",
        "device": "string",
    }
    assert (scores[0]["query_id"], len(scores[0]["item_id"])) == ("q0001", 9)
    assert all(row["item_id"].startswith("sku-") and row["score"] > 0 for row in scores)


def test_grades_run_from_0_to_3_and_higher_ones_are_rarer(labels: dict[str, dict[str, float]]) -> None:
    grades = Counter(grade for items in labels.values() for grade in items.values())
    assert set(grades) == {0.0, 1.0, 2.0, 3.0}
    assert grades[0.0] > grades[1.0] > grades[2.0] > grades[3.0] > 100


def test_most_lists_have_50_to_100_results_some_3_and_a_few_1000(lists: dict[Any, list[str]]) -> None:
    lengths = Counter(min(length, 101) if length >= 50 else length for length in map(len, lists.values()))
    assert set(lengths) == {3, *range(50, 101), 101}
    assert lengths[3] == 150
    assert sum(len(items) == 1_000 for items in lists.values()) == lengths[101] == 15


def test_many_rows_tie_and_one_in_200_repeats_an_item(scores: Rows, lists: dict[Any, list[str]]) -> None:
    distinct = len({(row["run_id"], row["query_id"], row["score"]) for row in scores})
    assert 0.15 < 1 - distinct / len(scores) < 0.25
    repeated = sum(len(items) - len(set(items)) for items in lists.values())
    assert 0.004 < repeated / len(scores) < 0.006


def test_each_run_lacks_20_listed_queries_with_relevant_items(
    warehouse: Warehouse, lists: dict[Any, list[str]], queries: dict[str, Any], labels: dict[str, Any]
) -> None:
    lacking = {run: {q for q in queries if (run, q) not in lists} for run in warehouse.runs}
    assert {run: len(names) for run, names in lacking.items()} == {"keyword": 20, "embedding": 20, "hybrid": 20}
    assert len(set.union(*lacking.values())) == 60
    assert all(max(labels[q].values()) >= 1 for names in lacking.values() for q in names)


def test_queries_without_relevant_items_unlisted_and_unjudged_ones_are_as_many_as_promised(
    lists: dict[Any, list[str]], queries: dict[str, Any], labels: dict[str, dict[str, float]]
) -> None:
    in_runs = {query for _, query in lists}
    assert len(in_runs) == 1_000
    assert sum(q in labels and max(labels[q].values()) == 0 for q in queries) == 20
    assert sum(q not in labels for q in queries) == 10
    assert len(in_runs - set(queries)) == 30
    assert len(in_runs - set(queries) - set(labels)) == 20


def test_25_queries_have_no_country(queries: dict[str, Any]) -> None:
    assert len(queries) == 970
    assert sum(row["country"] is None for row in queries.values()) == 25
    assert {row["country"] for row in queries.values()} == {"de", "fr", "us", "jp", None}
    assert {row["device"] for row in queries.values()} == {"mobile", "desktop", "tablet"}


def test_each_system_is_best_somewhere(
    warehouse: Warehouse, lists: dict[Any, list[str]], queries: dict[str, Any], labels: dict[str, Any]
) -> None:
    def recall(run: str, k: int, devices: tuple[str, ...] = ("mobile", "desktop", "tablet")) -> float:
        values = []
        for query, row in queries.items():
            relevant = {item for item, grade in labels.get(query, {}).items() if grade >= 1}
            if relevant and row["device"] in devices:
                values.append(len(relevant & set(lists.get((run, query), [])[:k])) / len(relevant))
        return sum(values) / len(values)

    def order(k: int, *devices: str) -> list[str]:
        return sorted(warehouse.runs, key=lambda run: -recall(run, k, *([devices] if devices else [])))

    assert order(1) == ["keyword", "hybrid", "embedding"]
    assert order(100) == ["hybrid", "embedding", "keyword"]
    assert order(100, "mobile") == ["embedding", "hybrid", "keyword"]
    assert recall("keyword", 1) - recall("hybrid", 1) > 0.03
    assert recall("hybrid", 100) - recall("embedding", 100) > 0.03
    assert recall("embedding", 100, ("mobile",)) - recall("hybrid", 100, ("mobile",)) > 0.03


def digest(warehouse: Warehouse) -> str:
    tables = [day(warehouse, ds) for ds in warehouse.days] + [rows(warehouse.relevance), rows(warehouse.queries)]
    return hashlib.sha256(repr(tables).encode()).hexdigest()


def test_another_process_without_numpy_and_pyspark_writes_the_same_over_an_earlier_one(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    (tmp_path / "relevance.parquet").write_text("of an earlier version")
    code = (
        "import sys; sys.modules['numpy'] = sys.modules['pyspark'] = None\n"
        "from pathlib import Path; from recallk_spark.demo import write_warehouse\n"
        "write_warehouse(Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    again = replace(
        warehouse,
        scores=tmp_path / "scores",
        relevance=tmp_path / "relevance.parquet",
        queries=tmp_path / "queries.parquet",
    )
    # the literal is what was first released: whoever changes it changes the demo for everyone
    assert digest(warehouse) == digest(again) == "dd52497779536780d19b010c2d154a234467fc082a162719869de161f0254193"


def test_a_folder_that_cannot_be_written_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "shop").write_text("a file")
    with pytest.raises(PublishError, match=r"the demo warehouse cannot be written under '.*shop'"):
        write_warehouse(tmp_path / "shop")
