"""The nightly DAG by a real Airflow in an environment of its own; every task is a real spark-submit."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path

import pyspark
import pytest

from recallk_spark.manifest import published, read_table
from tests.jobs.test_evaluate import files_of, put, recall, two_days

ROOT = Path(__file__).parents[2]
AIRFLOW = ROOT / ".venv-airflow" / "bin" / "airflow"
DAG = ROOT / "jobs" / "airflow" / "recall_nightly.py"


@pytest.fixture
def airflow(tmp_path: Path, spark_conf_dir: str) -> dict[str, str]:
    """The environment of an Airflow with an empty database, whose Spark is the one of these tests."""
    if not AIRFLOW.is_file():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{AIRFLOW} is absent, and CI=true requires it")
        pytest.skip(
            "no .venv-airflow: uv venv .venv-airflow && uv pip install --python .venv-airflow -r conf/airflow.txt"
        )
    environ = {
        **os.environ,
        "SPARK_CONF_DIR": spark_conf_dir,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAG.parent),
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
        "AIRFLOW_VAR_RECALLK_JOBS": str(ROOT / "jobs"),
        "AIRFLOW_VAR_RECALLK_CONFIG": str(tmp_path / "night.toml"),
    }
    subprocess.run([str(AIRFLOW), "db", "migrate"], env=environ, check=True, capture_output=True, timeout=300)
    return environ


def night(environ: dict[str, str], day: str) -> dict[str, tuple[str, int]]:
    """State and number of tries of each task, and of the run ('') itself, in the night after a day."""
    run_date = f"{date.fromisoformat(day) + timedelta(days=1)}T02:00:00+00:00"
    ended = subprocess.run(
        [str(AIRFLOW), "dags", "test", "recall_nightly", run_date, "-f", str(DAG)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    print(ended.stdout[-8000:], ended.stderr[-2000:])  # shown where an assertion fails
    with closing(sqlite3.connect(Path(environ["AIRFLOW_HOME"]) / "airflow.db")) as database:
        run = database.execute("select run_id, state from dag_run order by id desc limit 1").fetchone()
        tasks = database.execute("select task_id, state, try_number from task_instance where run_id = ?", run[:1])
        return {"": (run[1], 1), **{task: (state, tries) for task, state, tries in tasks}}


def test_a_night_publishes_its_day_again_the_same_and_nothing_of_a_refused_one(
    airflow: dict[str, str], tmp_path: Path
) -> None:
    labels = put(tmp_path / "labels.parquet", query_id=["q1", "q1", "q2"], item_id=["a", "b", "c"], grade=[1, 1, 1])
    scores = two_days(tmp_path / "scores", d2026_11_28=["A", "B"], d2026_11_29=["A", "B"])
    put(
        tmp_path / "scores" / "ds=2026-11-30" / "part.parquet",
        **{"run_id": ["A", "A"], "query_id": ["q1", "q2"], "item_id": ["a", None], "score": [1.0, 1.0]},
    )
    out = tmp_path / "out"
    (tmp_path / "night.toml").write_text(
        f'[job]\nscores = ["{scores}"]\nrelevance = "{labels}"\noutput = "{out}"\n[protocol]\ncutoffs = [1, 2]\n',
        encoding="utf-8",
    )
    well = {"": ("success", 1), "validate": ("success", 1), "evaluate": ("success", 1)}

    assert night(airflow, "2026-11-29") == well
    assert recalls(out) == {("2026-11-29", "A"): 0.5, ("2026-11-29", "B"): 0.5}
    first = tables(out)

    assert night(airflow, "2026-11-29") == well
    assert [(found.ds, found.run_id, found.version) for found in published(str(out))] == [
        ("2026-11-29", run, 2) for run in ("A", "B")
    ]
    assert tables(out) == first

    before = files_of(out)
    assert night(airflow, "2026-11-30") == {
        "": ("failed", 1),
        "validate": ("failed", 1),  # two tries are left, which nobody needs
        "evaluate": ("upstream_failed", 0),
    }
    assert files_of(out) == before


def recalls(out: Path) -> dict[tuple[str, str], float]:
    return {(str(found.ds), found.run_id): recall(out, found.ds, found.run_id) for found in published(str(out))}


def tables(out: Path) -> dict[tuple[str, str, str], list[str]]:
    """The rows that are published, to the last bit."""
    return {
        (str(found.ds), found.run_id, table): sorted(
            repr(row) for row in read_table(str(out), table, ds=found.ds, run_id=found.run_id).to_pylist()
        )
        for found in published(str(out))
        for table in found.tables
    }
