"""The evaluation job behind the command line: read, evaluate, check, publish. One day and its runs at a time."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from recallk_spark.chain import Chain
from recallk_spark.config import JobConfig
from recallk_spark.errors import Fault
from recallk_spark.evaluation import run_counts
from recallk_spark.inputs import Opened, Tables
from recallk_spark.manifest import published
from recallk_spark.refusals import Row, find_faults, require_sound, warnings
from recallk_spark.report import Report
from recallk_spark.schema import (
    PER_QUERY,
    PROFILE,
    PROTOCOL,
    RELEVANCE_SET_ALL,
    RUN,
    SCHEMA_VERSION,
)
from recallk_spark.sinks import Attempt, Output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Step = Callable[[str], None]


def validate(opened: Opened) -> tuple[list[Fault], list[str], dict[str, dict[str, int]]]:
    """Reads the inputs once: every fault, every warning, the counts of each run."""
    chain = opened.chain
    rows = _rows_at(chain, (chain.protocol.max_cutoff,))
    faults = find_faults(chain, rows)
    return faults, [] if faults else warnings(chain, rows), run_counts(chain, rows)


def evaluate_only(opened: Opened, config: JobConfig) -> Report:
    """The report of the inputs, nothing published.

    Raises:
        ContractError: naming every fault.
    """
    rows = _rows_at(opened.chain, config.protocol.cutoffs)
    opened.require_unchanged(config)
    require_sound(opened.chain, rows, allow_empty=config.allow_empty)
    return _report(opened.chain, rows)


def evaluate_and_publish(spark: SparkSession, opened: Opened, config: JobConfig, *, step: Step) -> Report:
    """Evaluates and publishes profile, per-query table and protocol of each run under `config.output`.

    The scores are read by the first step, which stores the lists; all else is made from these. Nothing is
    published before every check holds.

    `step` is told the name of each step before it starts, publishing last; it may raise to stop the job.

    Raises:
        ContractError: naming every fault; an earlier result stays as it was.
        PublishError: storage failed, or another writer was first.
    """
    tables = opened.tables
    output = Output(str(config.output), ds=tables.ds)
    with output.begin() as attempt:
        step("reading scores, ranking, judging")
        stored = _store_lists(spark, opened.chain, attempt)
        opened.require_unchanged(config)
        step("profile")
        profile, rows = _store_profile(spark, stored, attempt)
        require_sound(stored, rows, allow_empty=config.allow_empty)
        _write(profile.select(*PROFILE.names), attempt, "profile")
        if config.per_query:
            step("per-query table")
            _write(stored.per_query.select(*PER_QUERY.names), attempt, "per_query")
        report = _report(stored, rows)
        counts = {**{run: {} for run in _empty_runs(config, tables, report)}, **report.counts}
        _write(_protocol_rows(spark, stored, opened, counts), attempt, "protocol")
        step("publishing")
        attempt.commit(dict.fromkeys(counts, _manifest(config, opened)))
        stale = attempt.stale_runs(counts)
        if config.replace_day and stale:
            attempt.retire(stale)
    if stale and not config.replace_day:
        kept = f"published runs no longer in the input: {', '.join(stale)}; --replace-day retires them"
        report = replace(report, warnings=(*report.warnings, kept))
    return report


def as_json(report: Report) -> str:
    """The result of an evaluation as one JSON object: protocol, fingerprint, counts, profile at the cutoffs.

    The profile has the rows of every min_grade, the counts are those of the lowest.
    """
    content = {
        "protocol": report.protocol.settings(),
        "fingerprint": report.protocol.fingerprint,
        "counts": {run: {RELEVANCE_SET_ALL: dict(counts)} for run, counts in report.counts.items()},
        "profile": [{name: row[name] for name in PROFILE.names} for row in report.at_cutoffs()],
    }
    return json.dumps(content, ensure_ascii=False)


def _store_lists(spark: SparkSession, chain: Chain, attempt: Attempt) -> Chain:
    """The chain going on from its stored lists, so that no later step reads the scores again."""
    path = attempt.scratch_path("lists")
    chain.lists.write.parquet(path)
    return replace(chain, gathered=spark.read.schema(chain.lists.schema).parquet(path))


def _store_profile(spark: SparkSession, chain: Chain, attempt: Attempt) -> tuple[DataFrame, list[Row]]:
    """The profile, stored, and its rows at the cutoffs, with the counts that are not published."""
    path = attempt.scratch_path("profile")
    chain.profile.write.parquet(path)
    filters = [("k", "in", list(chain.protocol.cutoffs))]
    rows: list[Row] = [dict(row) for row in attempt.read_scratch("profile", filters=filters).to_pylist()]
    return spark.read.schema(chain.profile.schema).parquet(path), rows


def _rows_at(chain: Chain, cutoffs: Sequence[int]) -> list[Row]:
    return [dict(row) for row in chain.profile.where(F.col("k").isin(*cutoffs)).toArrow().to_pylist()]


def _write(frame: DataFrame, attempt: Attempt, table: str) -> None:
    """One file per run where the table is small; a day's results are a few of them, not hundreds."""
    frame.write.partitionBy(RUN).parquet(attempt.table_path(table))


def _report(chain: Chain, rows: Sequence[Row]) -> Report:
    counts = run_counts(chain, rows)
    return Report.of(rows, protocol=chain.protocol, counts=counts, warnings=warnings(chain, rows))


def _empty_runs(config: JobConfig, tables: Tables, report: Report) -> list[str]:
    """The runs that a day without score rows stands for: those named by options, else those published of that day."""
    if report.counts:
        return []
    named = [source.label for source in tables.scores if source.label]
    if config.run_id:
        named.append(config.run_id)
    return named or [item.run_id for item in published(str(config.output)) if item.ds == tables.ds]


def _protocol_rows(
    spark: SparkSession, chain: Chain, opened: Opened, counts: Mapping[str, Mapping[str, int]]
) -> DataFrame:
    assert chain.watch is not None
    versions = {"recallk_spark": version("recallk-spark"), "spark": spark.version, "python": platform.python_version()}
    shared = {
        "fingerprint": chain.protocol.fingerprint,
        "protocol": _json(chain.protocol.settings()),
        "digests": _json(chain.watch.digests()),
        "inputs": _json([str(source) for source in opened.tables.named()]),
        "plan": str(opened.choice.plan),
        "schema_version": SCHEMA_VERSION,
        "versions": _json(versions),
    }
    rows = [
        {RUN: run, "counts": _json({RELEVANCE_SET_ALL: dict(counted)}), **shared} for run, counted in counts.items()
    ]
    # through Arrow: a list of rows would start a Python worker
    table = pa.table({name: [row[name] for row in rows] for name in PROTOCOL.names})
    return spark.createDataFrame(table, PROTOCOL)


def _manifest(config: JobConfig, opened: Opened) -> dict[str, Any]:
    inputs = [{"name": str(source), "files": files} for source, files in opened.files.items()]
    return {"fingerprint": config.protocol.fingerprint, "schema_version": SCHEMA_VERSION, "inputs": inputs}


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
