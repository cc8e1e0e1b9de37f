"""One use of the package after another, each with its answer as JSON; as a program, through a Spark Connect server.

    python -m tests.connect.answers sc://127.0.0.1:15002 FOLDER OUTPUT.json

The inputs lie in FOLDER (`write_inputs`), and everything that is written goes there too, under a name of its own. A
process is either classic or Connect, so whoever compares the two runs one of them as a child.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from recallk_spark import Protocol, audit, evaluate, from_arrays
from recallk_spark.cli import main
from recallk_spark.errors import RecallkError
from recallk_spark.evaluation import Evaluation
from recallk_spark.manifest import read_table
from recallk_spark.session import spark_errors

FRAMES = {"window": ("ranked", "judged", "per_query", "profile"), "pruned": ("per_query", "profile")}
SEVERAL = Protocol(cutoffs=(1, 3, 10), depth=12, min_grade=(1, 2))
BAD_SCORES = [("r", "q05", "a", float("nan")), ("r", None, "b", 1.0), ("r", "q05", None, 1.0), ("r", "q05", "c", 0.5)]


def write_inputs(folder: Path) -> None:
    """Two runs with ties, repeats and unjudged, missing and short lists; labels; a list of queries; arrays."""
    random = Random(4)
    queries = [f"q{number:02d}" for number in range(30)]
    rows = [
        (run, query, f"i{random.randrange(40):02d}", random.randrange(12) / 8)
        for run in ("A", "Ü")
        for query in queries[:27]
        for _ in range(random.randrange(25))
    ]
    labels = [(query, f"i{item:02d}", random.randrange(4)) for query in queries[2:] for item in range(0, 40, 3)]
    _put(folder / "scores.parquet", ("run_id", "query_id", "item_id", "score"), rows)
    _put(folder / "labels.parquet", ("query_id", "item_id", "grade"), labels)
    _put(
        folder / "queries.parquet",
        ("query_id", "land", "device"),
        [
            (query, ("de", "at", None)[place % 3], "mobile" if place % 2 else "desktop")
            for place, query in enumerate(queries)
        ],
    )
    _put(folder / "bad.parquet", ("run_id", "query_id", "item_id", "score"), BAD_SCORES)
    lists = {query: [{"item": item, "value": score} for _, of, item, score in rows if of == query] for query in queries}
    pq.write_table(pa.table({"query_id": list(lists), "items": list(lists.values())}), folder / "arrays.parquet")
    first = [row for row in rows if row[0] == "A"]
    (folder / "run.jsonl").write_text(
        "".join(
            json.dumps({"query_id": query, "item_id": item, "score": score}) + "\n" for _, query, item, score in first
        )
    )
    (folder / "run.trec").write_text(
        "# a comment\n" + "".join(f"{query} Q0 {item} 1 {score} tag\n" for _, query, item, score in first)
    )
    (folder / "qrels").write_text("".join(f"{query} 0 {item} {grade}\n" for query, item, grade in labels))


def answers(spark: SparkSession, folder: Path, *, out: Path, options: list[str]) -> dict[str, Any]:
    """The answer of every question, by its name. `options` are the command line's own (`--remote URL`)."""
    scores, relevance, queries, bad, arrays = (
        spark.read.parquet(str(folder / f"{name}.parquet")) for name in ("scores", "labels", "queries", "bad", "arrays")
    )

    def several(plan: str) -> Evaluation:
        return evaluate(scores, relevance, protocol=SEVERAL, queries=queries, slices=("land", "land*device"), plan=plan)

    def command(*arguments: str) -> dict[str, Any]:
        return run_command([*arguments, *options], hidden=str(out))

    def published() -> dict[str, Any]:
        inputs = ["--scores", f"{folder}/scores.parquet", "--relevance", f"{folder}/labels.parquet"]
        listed = ["--queries", f"{folder}/queries.parquet", "--slices", "land,device", "--cutoffs", "1,3,10"]
        ended = command("evaluate", *inputs, *listed, "--format", "json", "--output", str(out))
        return {
            **ended,
            **{
                table: _sorted(read_table(str(out), table, ds=None, run_id="A").to_pylist())
                for table in ("profile", "per_query", "protocol")
            },
        }

    def stopped(frame: DataFrame) -> str:
        return refusal(frame.toArrow)

    labels = str(folder / "labels.parquet")
    questions: dict[str, Callable[[], Any]] = {
        **{
            f"{name}, {plan}": lambda n=name, p=plan: rows(frame_of(several(p), n))
            for plan, names in FRAMES.items()
            for name in names
        },
        "report": lambda: _report(several("window")),
        "audit": lambda: audit(scores, relevance, queries=queries, protocol=SEVERAL),
        "frames from literal rows": lambda: _literal(spark),
        "from_arrays": lambda: _report(evaluate(from_arrays(arrays), relevance, protocol=SEVERAL)),
        "from_arrays by rank": lambda: _report(
            evaluate(from_arrays(arrays), relevance, protocol=Protocol(cutoffs=(3,), tie_break="rank"))
        ),
        "a lazy frame refuses": lambda: {
            f"{name}, {plan}": stopped(frame_of(evaluate(bad, relevance, protocol=SEVERAL, plan=plan), name))
            for plan, name in (("window", "judged"), ("pruned", "per_query"), ("pruned", "profile"))
        },
        "report refuses": lambda: refusal(lambda: evaluate(bad, relevance).report()),
        "audit refuses": lambda: refusal(lambda: audit(bad, relevance)),
        "nothing in common": lambda: refusal(lambda: audit(scores, relevance.where("query_id = 'q99'"))),
        "a column is missing": lambda: refusal(lambda: evaluate(scores.drop("score"), relevance)),
        "ids of two types": lambda: refusal(lambda: evaluate(scores, relevance.selectExpr("1L query_id", "item_id"))),
        "recallk evaluate publishes": published,
        **{
            f"recallk evaluate {name}": lambda n=name: command(
                "evaluate", "--scores", f"{folder}/{n}", "--relevance", f"trec:{folder}/qrels", "--format", "json"
            )
            for name in ("run.jsonl", "run.trec")
        },
        "recallk evaluate arrays": lambda: command(
            "evaluate", "--scores", f"A=arrays:{folder}/arrays.parquet", "--relevance", labels, "--format", "json"
        ),
        "recallk evaluate refuses": lambda: command(
            "evaluate", "--scores", f"{folder}/bad.parquet", "--relevance", labels
        ),
        "recallk evaluate without a file": lambda: command(
            "evaluate", "--scores", f"{folder}/nowhere.parquet", "--relevance", labels
        ),
        "recallk evaluate out of time": lambda: command(
            "evaluate", "--scores", f"{folder}/scores.parquet", "--relevance", labels, "--job-timeout", "0.05"
        ),
        "recallk validate": lambda: command(
            "validate", "--scores", f"{folder}/scores.parquet", "--relevance", labels, "--format", "json"
        ),
        "recallk explain": lambda: _until_plan(
            command("explain", "--scores", f"{folder}/scores.parquet", "--relevance", labels)
        ),
    }
    return {name: json.loads(json.dumps(question())) for name, question in questions.items()}


def run_command(arguments: list[str], *, hidden: str) -> dict[str, Any]:
    """Exit code, stdout and stderr of a command, without the name of the folder that it writes to."""
    shown, said = io.StringIO(), io.StringIO()
    with redirect_stdout(shown), redirect_stderr(said):
        code = main(arguments)
    return {"code": code, **{k: v.getvalue().replace(hidden, "OUT") for k, v in (("out", shown), ("err", said))}}


def refusal(action: Callable[[], Any]) -> str:
    """Class and message of our error that the action ends in."""
    try:
        with spark_errors():
            action()
    except RecallkError as error:
        return f"{type(error).__name__}: {error}"
    return "no refusal"


def frame_of(evaluation: Evaluation, name: str) -> DataFrame:
    """One of the lazy frames by its name."""
    found = getattr(evaluation, name)
    return found() if callable(found) else found


def rows(frame: DataFrame) -> list[str]:
    """The rows in an order that does not depend on Spark, each double to its last bit."""
    return _sorted([row.asDict(recursive=True) for row in frame.collect()])


def _sorted(found: list[dict[str, Any]]) -> list[str]:
    # as JSON: a double keeps its last bit, and the keys of a map come in an order of their own
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in found)


def _report(evaluation: Evaluation) -> dict[str, Any]:
    report = evaluation.report()
    return {
        "rows": [dict(row) for row in report.rows],
        "counts": {run: dict(counts) for run, counts in report.counts.items()},
        "html": report._repr_html_(),
        "pandas": report.to_pandas().to_csv(),
        "warnings": list(report.warnings),
    }


def _literal(spark: SparkSession) -> dict[str, Any]:
    scores = spark.createDataFrame([(7, 1, 0.9), (7, 2, 0.8), (8, 4, 0.1)], "query_id bigint, item_id int, score float")
    labels = spark.createDataFrame([(7, 2), (8, 9)], "query_id bigint, item_id bigint")
    return _report(evaluate(scores, labels, protocol=Protocol(cutoffs=(1, 2))))


def _until_plan(ended: dict[str, Any]) -> dict[str, Any]:
    """The plan itself is another one under Connect: it reads other expression numbers."""
    before, found, plan = ended["out"].partition("physical plan\n")
    return {**ended, "out": before + found, "has a plan": "Physical Plan" in plan}


def _put(path: Path, names: tuple[str, ...], found: list[tuple]) -> None:
    pq.write_table(pa.table(dict(zip(names, map(list, zip(*found, strict=True)), strict=True))), path)


if __name__ == "__main__":
    url, inputs, target = sys.argv[1:]
    session = SparkSession.builder.remote(url).getOrCreate()
    found = answers(session, Path(inputs), out=Path(inputs) / "published-connect", options=["--remote", url])
    Path(target).write_text(json.dumps(found), encoding="utf-8")
