"""Real runs and judgments through the command line, against hit counts, means and trec_eval's own output."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from recallk_spark.cli import main
from recallk_spark.protocol import Protocol
from tests import oracle
from tests.golden.trec import column_of, hit_counts, printed

HIT_CUTOFFS = (1, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
CUTOFFS = (1, 3, 5, 10, 15, 20, 30, 50, 100, 200, 500, 1000)
DEPTH = 1000


@dataclass(frozen=True)
class Job:
    """One call of the command: runs of one folder under names, against one qrels at one level."""

    folder: str
    qrels: str
    level: int
    runs: dict[str, str]


JOBS = {
    "trec6": Job("trec_eval_test", "qrels.test", 1, {"full": "results.test", "trunc": "results.trunc"}),
    "level2": Job("trec_eval_test", "qrels.rel_level", 2, {"full": "results.test"}),
    "rag24": Job("trec_eval_test", "qrels.comment.test", 1, {"rag": "results.comment.test"}),
    "cast19": Job(
        "cast19_runs",
        "qrels.cast2019.txt",
        1,
        {name: f"bert_base_run_{name}.trec" for name in ("raw", "oracle", "self_learn_cv")},
    ),
}
RUNS = [(job, run) for job in JOBS for run in JOBS[job].runs]

# trec_eval's output, the run it is of, and the depth it was read at; all with -c but the files of plain means,
# whose runs have every judged query
PRINTED = [
    ("trec_eval_test/out.test", "trec6", "full", 1000),
    ("trec_eval_test/out.test.a", "trec6", "full", 1000),
    ("trec_eval_test/out.test.aq", "trec6", "full", 1000),
    ("trec_eval_test/out.test.aqc", "trec6", "trunc", 1000),
    ("trec_eval_test/out.test.aqcM", "trec6", "trunc", 100),
    ("trec_eval_test/out.test.aql", "level2", "full", 1000),
    ("trec_eval_test/out.comment.test", "rag24", "rag", 1000),
    ("trec_eval_test/expected.trec_eval10.comment.c.l1.txt", "rag24", "rag", 1000),
    ("trec_eval_test/v9.0.8_out/out.test.aq", "trec6", "full", 1000),
    ("trec_eval_test/v9.0.8_out/out.test.aqc", "trec6", "trunc", 1000),
    ("trec_eval_test/v9.0.8_out/out.test.aqcM", "trec6", "trunc", 100),
    ("trec_eval_test/v9.0.8_out/out.test.aql", "level2", "full", 1000),
    ("cast19_runs/expected.trec_eval10.raw.c.l1.txt", "cast19", "raw", 1000),
    ("cast19_runs/expected.trec_eval10.oracle.c.l1.txt", "cast19", "oracle", 1000),
    ("cast19_runs/expected.trec_eval10.self_learn_cv.c.l1.txt", "cast19", "self_learn_cv", 1000),
]


@dataclass(frozen=True)
class Published:
    """What one call published: profile rows by (run, k), per-query rows by (run, query)."""

    profile: dict[tuple[str, int], dict[str, Any]]
    per_query: dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def published(spark: SparkSession, golden: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Published]:
    """Each job, run once through the command line."""
    results = {}
    for name, job in JOBS.items():
        folder, output = golden / job.folder, tmp_path_factory.mktemp(name) / "out"
        scores = [f"--scores={run}=trec:{folder / file}" for run, file in job.runs.items()]
        code = main(
            [
                "evaluate",
                *scores,
                f"--relevance=trec:{folder / job.qrels}",
                "--preset=trec_eval",
                f"--cutoffs={','.join(map(str, CUTOFFS))}",
                f"--set=protocol.min_grade={job.level}",
                f"--output={output}",
            ]
        )
        assert code == 0
        profile = {(row["run_id"], row["k"]): row for row in rows(output / "profile") if row["slice"] == ""}
        per_query = {(row["run_id"], row["query_id"]): row for row in rows(output / "per_query")}
        results[name] = Published(profile, per_query)
    return results


def rows(table: Path) -> list[dict[str, Any]]:
    """The rows of a published table, as any reader of Parquet that keeps partition values as strings sees them."""
    hive = pyarrow.dataset.partitioning(pa.schema([("run_id", pa.string())]), flavor="hive")
    return pyarrow.dataset.dataset(table, partitioning=hive, format="parquet").to_table().to_pylist()


@pytest.mark.parametrize(("job", "run"), RUNS)
def test_hit_counts_of_every_query_are_exact(golden: Path, published: dict[str, Published], job: str, run: str) -> None:
    made, level = JOBS[job], JOBS[job].level
    path = golden / made.folder / f"golden_hits.{made.runs[run]}__{made.qrels}.l{level}.tsv"
    expected = hit_counts(path)
    ours = {query: row for (name, query), row in published[job].per_query.items() if name == run}
    assert set(ours) == set(expected)
    for query, counts in expected.items():
        row = ours[query]
        hits = [rank for rank, grade in zip(row["ranks"], row["grades"], strict=True) if grade >= level]
        facts = {
            "judged": row["num_judged"],
            "num_rel": row["num_relevant"],
            "num_ret": row["num_retrieved"],
            **{f"hits@{k}": sum(rank <= k for rank in hits) for k in HIT_CUTOFFS},
            **{f"judged@{k}": sum(rank <= k for rank in row["ranks"]) for k in HIT_CUTOFFS},
        }
        assert facts == counts, query


@pytest.mark.parametrize(("job", "run"), RUNS)
def test_means_agree_with_the_golden_summary_to_twelve_digits(
    golden: Path, published: dict[str, Published], job: str, run: str
) -> None:
    assert {k for name, k in published[job].profile if name == run} == set(range(1, DEPTH + 1))
    of_run = {k: row for (name, k), row in published[job].profile.items() if name == run}
    assert_golden_means(golden, JOBS[job], run, of_run)


@pytest.mark.parametrize("job", ["level2", "cast19"])
def test_a_level_among_several_has_the_means_of_the_golden_summary(
    spark: SparkSession, golden: Path, capsys: pytest.CaptureFixture[str], job: str
) -> None:
    made, run = JOBS[job], next(iter(JOBS[job].runs))
    folder = golden / made.folder
    code = main(
        [
            "evaluate",
            f"--scores={run}=trec:{folder / made.runs[run]}",
            f"--relevance=trec:{folder / made.qrels}",
            "--preset=trec_eval",
            f"--cutoffs={','.join(map(str, HIT_CUTOFFS))}",
            "--set=protocol.min_grade=1,2,3,4",
            "--format=json",
        ]
    )
    assert code == 0
    profile = json.loads(capsys.readouterr().out)["profile"]
    assert len(profile) == 4 * len(HIT_CUTOFFS)
    assert_golden_means(golden, made, run, {row["k"]: row for row in profile if row["min_grade"] == made.level})


def assert_golden_means(golden: Path, made: Job, run: str, of_run: dict[int, dict[str, Any]]) -> None:
    """Profile rows of a run by k, against the summary of that run, qrels and level."""
    names = ("ds", "qrels", "run", "level")
    [pair] = [
        pair
        for pair in json.loads((golden / "golden_summary.json").read_text(encoding="utf-8"))
        if tuple(pair[name] for name in names) == (made.folder, made.qrels, made.runs[run], made.level)
    ]
    for k in HIT_CUTOFFS:
        row = of_run[k]
        measures = {
            "macro_c": row["recall_macro"],
            "micro_all_qrels": row["recall_micro"],
            "r_cap_c": row["recall_capped_macro"],
            "success_c": row["hit_rate"],
        }
        for name, value in measures.items():
            assert value == pytest.approx(pair[name][str(k)], rel=0, abs=1e-12), (name, k)
        counts = {
            "hits": pair["hits"][str(k)],
            "relevant": pair["total_rel"],
            "queries": pair["qrels_queries"],
            "queries_missing": pair["qrels_queries"] - pair["in_run"],
            "queries_unjudged": pair["run_only_queries"],
            "queries_no_relevant": pair["no_rel"],
        }
        assert {name: row[name] for name in counts} == counts


@pytest.mark.parametrize("output", PRINTED, ids=[file for file, *_ in PRINTED])
def test_what_trec_eval_printed_is_what_we_measure(
    golden: Path, published: dict[str, Published], output: tuple[str, str, str, int]
) -> None:
    file, job, run, depth = output
    protocol = Protocol.from_settings({"cutoffs": CUTOFFS, "min_grade": JOBS[job].level}, preset="trec_eval")
    compared = 0
    for (measure, query), text in printed(golden / file).items():
        place = column_of(measure, depth=depth)
        if place is None:
            continue
        if query == "all":
            value = published[job].profile[run, place[1]][place[0]]
        else:
            value = value_of_query(published[job].per_query[run, query], *place, protocol)
        assert value == pytest.approx(float(text), rel=0, abs=0.000050001), (measure, query)
        compared += 1
    assert compared >= 15


def value_of_query(row: dict[str, Any], column: str, k: int, protocol: Protocol) -> float:
    """A measure of one query at k, from its published row alone."""
    hits = [r for r, grade in zip(row["ranks"], row["grades"], strict=True) if grade >= protocol.min_grade]
    counts = {
        "retrieved": min(row["num_retrieved"], k),
        "relevant": row["num_relevant"],
        "hits": sum(rank <= k for rank in hits),
    }
    if column in counts:
        return counts[column]
    standing = oracle.Judged(
        in_run=row["in_run"],
        counted=row["counted"],
        num_relevant=row["num_relevant"],
        num_judged=row["num_judged"],
        num_retrieved=row["num_retrieved"],
        ranks=row["ranks"],
        grades=row["grades"],
        ideal=row["ideal_grades"],
        hits=hits,
    )
    return float(oracle.measures(standing, k, protocol)[column])
