"""Spark Connect gives the bits, the refusals and the exit codes of classic Spark, by the API and the command line."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.connect.answers import answers, write_inputs

ROOT = Path(__file__).parents[2]
RECALLK = str(Path(sys.executable).with_name("recallk"))
Both = tuple[dict[str, Any], dict[str, Any]]


@pytest.fixture(scope="module")
def both(spark: SparkSession, connect_url: str, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Every answer, from classic Spark in this process and through the server in a child."""
    folder = tmp_path_factory.mktemp("both")
    write_inputs(folder)
    target = folder / "answers.json"
    child = subprocess.Popen(
        [
            sys.executable,
            "-W",
            "error::DeprecationWarning:recallk_spark",
            "-m",
            "tests.connect.answers",
            connect_url,
            str(folder),
            str(target),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        here = answers(spark, folder, out=folder / "published-classic", options=[])
        _, said = child.communicate(timeout=300)
    finally:
        child.kill()
    assert child.returncode == 0, said[-4000:]
    return here, json.loads(target.read_text(encoding="utf-8"))


def test_every_answer_through_connect_is_the_classic_one(both: Both) -> None:
    classic, connect = both
    assert list(classic) == list(connect)
    assert {name: connect[name] for name in classic if classic[name] != connect[name]} == {}


def test_the_command_line_ends_in_its_exit_codes_through_connect(both: Both) -> None:
    codes = {name: answer["code"] for name, answer in both[1].items() if name.startswith("recallk ")}
    assert codes == {
        "recallk evaluate publishes": 0,
        "recallk evaluate run.jsonl": 0,
        "recallk evaluate run.trec": 0,
        "recallk evaluate arrays": 0,
        "recallk evaluate refuses": 3,
        "recallk evaluate without a file": 3,
        "recallk evaluate out of time": 4,
        "recallk validate": 0,
        "recallk explain": 0,
    }


def test_connect_names_every_fault_at_once_and_a_lazy_frame_one_of_them(both: Both) -> None:
    _, connect = both
    for name in ("report refuses", "audit refuses"):
        assert connect[name].startswith("ContractError: input refused, 3 faults:")
        for column in ("scores.item_id", "scores.query_id", "scores.score"):
            assert f"- {column}: null" in connect[name]
    lazy = connect["a lazy frame refuses"]
    assert len(lazy) == 3
    assert [
        name for name, said in lazy.items() if not said.startswith("ContractError: input refused: input: scores.")
    ] == []


def test_literal_rows_through_connect_have_the_recall_that_one_counts_by_hand(both: Both) -> None:
    # query 7 finds its only relevant item at rank 2, query 8 does not find its own
    rows = both[1]["frames from literal rows"]["rows"]
    assert [(row["k"], row["recall_macro"], row["recall_micro"], row["hits"]) for row in rows] == [
        (1, 0.0, 0.0, 0),
        (2, 0.5, 0.5, 1),
    ]


def test_a_terminal_sees_how_many_tasks_of_the_server_are_done(connect_url: str, tmp_path: Path) -> None:
    write_inputs(tmp_path)
    command = [RECALLK, "evaluate", "--remote", connect_url]
    tables = ["--scores", f"{tmp_path}/scores.parquet", "--relevance", f"{tmp_path}/labels.parquet"]
    terminal, stderr = pty.openpty()
    with subprocess.Popen([*command, *tables], stdout=subprocess.DEVNULL, stderr=stderr) as job:
        os.close(stderr)
        seen = read_all(terminal)
        assert job.wait(120) == 0
    assert re.search(r"reading scores, ranking, judging \(\d+ of \d+ tasks, \d+ s so far\)", seen)


def test_no_server_is_said_at_once(tmp_path: Path) -> None:
    tables = ["--scores", f"{tmp_path}/scores.parquet", "--relevance", f"{tmp_path}/labels.parquet"]
    ended = subprocess.run(
        [RECALLK, "validate", "--remote", "sc://127.0.0.1:1", *tables],
        env={name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (4, "")
    assert ended.stderr.startswith("recallk: no Spark Connect server at 127.0.0.1:1: ")


def read_all(terminal: int) -> str:
    """What a process writes to a terminal, until it ends."""
    pieces = []
    try:
        while piece := os.read(terminal, 65536):
            pieces.append(piece)
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(terminal)
    return b"".join(pieces).decode()
