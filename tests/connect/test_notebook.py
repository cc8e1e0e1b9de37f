"""The notebook, run from its first cell to its last on the demo's tables: classic Spark and Spark Connect."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

from recallk_spark.demo import write_warehouse

NOTEBOOK = Path(__file__).parents[2] / "jobs" / "notebooks" / "recall_depth.ipynb"
ON_CONNECT = "assert type(spark).__module__ == 'pyspark.sql.connect.session'"
NO_JOB = """
jobs = spark.sparkContext.statusTracker()
before = len(jobs.getJobIdsForGroup())
assert before > 0
shown = report._repr_html_()
assert len(jobs.getJobIdsForGroup()) == before
"""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notebook") / "warehouse"
    write_warehouse(folder)
    return folder


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = [cell for cell in read().cells if cell.cell_type == "code"]
    assert cells
    assert [cell.source for cell in cells if cell.outputs or cell.execution_count is not None] == []


@pytest.mark.parametrize("where", ["classic", "connect"])
def test_the_notebook_runs_and_shows_table_curve_and_worst_queries(
    where: str,
    warehouse: Path,
    spark_conf_dir: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", spark_conf_dir)
    monkeypatch.setenv("RECALLK_WAREHOUSE", str(warehouse))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    notebook = read()
    if where == "connect":
        monkeypatch.setenv("SPARK_REMOTE", request.getfixturevalue("connect_url"))
        notebook.cells.append(nbformat.v4.new_code_cell(ON_CONNECT))
    else:
        monkeypatch.delenv("SPARK_REMOTE", raising=False)
        notebook.cells.append(nbformat.v4.new_code_cell(NO_JOB))
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(warehouse)}}
    ).execute()

    shown = [output for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    tables = [output.data["text/html"] for output in shown if "text/html" in output.data]
    assert len(tables) == 3
    for words in ("keyword", "embedding", "hybrid", "recall macro [95 %]", "queries counted"):
        assert words in tables[0]
    assert [output for output in shown if "image/png" in output.data]
    assert tables[2].count("<tr") == 21


def read() -> NotebookNode:
    return nbformat.read(NOTEBOOK, as_version=4)
