"""What is measured inside one Spark session: floors, our plans, and MLlib."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.mllib.evaluation import RankingMetrics
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from recallk_spark import Protocol, audit, evaluate
from recallk_spark.config import JobConfig
from recallk_spark.inputs import open_inputs
from recallk_spark.job import evaluate_and_publish

Values = dict[str, float]
Work = Callable[[], Values]

DEPTH = 1000
CUTOFFS = (1, 5, 10, 20, 50, 100, 200, 500, 1000)


def floors(spark: SparkSession, folder: Path) -> dict[str, Work]:
    """What reading, shuffling and ordering the scores costs at least, with nothing computed from them."""
    scores = spark.read.parquet(str(folder / "scores")).select("query_id", "item_id", "score")
    shuffled = scores.repartition("query_id")
    ordered = shuffled.sortWithinPartitions("query_id", F.desc("score"), "item_id")
    numbered = scores.withColumn("query", F.pmod(F.xxhash64("query_id"), F.lit(100_000)).cast("int"))
    # a radix pass over one packed long (each step weakly monotone), then the exact order over almost sorted rows; the
    # column in between keeps Spark from leaving the first sort out
    packed = F.shiftleft(F.col("query").cast("long"), 32) + (F.lit(2**31) - F.floor(_clamped(F.col("score") * 2.0**28)))
    nearly = numbered.repartition("query").withColumn("packed", packed).sortWithinPartitions("packed")
    radix = nearly.withColumn("row", F.monotonically_increasing_id()).where("row >= 0")
    radix = radix.sortWithinPartitions("packed", F.desc("score"), "item_id")
    return {
        "floor: scan": lambda: _nowhere(scores),
        "floor: scan, shuffle": lambda: _nowhere(shuffled),
        "floor: scan, shuffle, exact order (three-key sort)": lambda: _nowhere(ordered),
        "floor: scan, shuffle, exact order (radix)": lambda: _nowhere(radix),
    }


def ours(
    spark: SparkSession,
    folder: Path,
    plan: str,
    *,
    depth: int = DEPTH,
    cutoffs: tuple[int, ...] = CUTOFFS,
    slices: tuple[str, ...] = (),
    **settings: Any,
) -> Work:
    """Every measure at every depth with its interval: collected, or with slices computed and thrown away."""
    tables = [spark.read.parquet(str(folder / name)) for name in ("scores", "relevance")]
    queries = spark.read.parquet(str(folder / "queries")) if slices else None
    protocol = Protocol(cutoffs=[k for k in cutoffs if k <= depth], depth=depth, **settings)

    def work() -> Values:
        evaluation = evaluate(*tables, protocol=protocol, plan=plan, queries=queries, slices=slices)
        if slices:
            return _nowhere(evaluation.profile())
        rows = evaluation.profile().toArrow().to_pylist()
        totals = {row["k"]: row for row in rows if row["min_grade"] == protocol.min_grades[0]}
        return {f"recall@{k}": totals[k]["recall_macro"] for k in (10, 100) if k in totals}

    return work


def audited(spark: SparkSession, folder: Path) -> Work:
    """The counts of an audit."""
    tables = [spark.read.parquet(str(folder / name)) for name in ("scores", "relevance")]

    def work() -> Values:
        audit(*tables, protocol=Protocol(cutoffs=CUTOFFS))
        return {}

    return work


def published(spark: SparkSession, folder: Path, *, per_query: bool) -> Work:
    """The whole job: checked, evaluated, published."""

    def work() -> Values:
        output = tempfile.mkdtemp()
        config = JobConfig(
            scores=(f"run={folder}/scores",),
            relevance=f"{folder}/relevance",
            output=output,
            per_query=per_query,
            protocol=Protocol(cutoffs=CUTOFFS),
        )
        try:
            report = evaluate_and_publish(spark, open_inputs(spark, config), config, step=str)
        finally:
            shutil.rmtree(output)
        totals = {row["k"]: row for row in report.at_cutoffs()}
        return {f"recall@{k}": totals[k]["recall_macro"] for k in (10, 100)}

    return work


def mllib(spark: SparkSession, folder: Path, cutoffs: tuple[int, ...]) -> Work:
    """Recall at some cutoffs by RankingMetrics, whose lists are made as its users make them: collected and sorted.

    Its recall divides by the number of labels and counts every copy of a result; relevant are grades from 1 on.
    """

    def work() -> Values:
        # anew each time: Spark keeps what an RDD has shuffled, and its next evaluation would start from there
        scores, relevance = (spark.read.parquet(str(folder / name)) for name in ("scores", "relevance"))
        best_first = F.sort_array(F.collect_list(F.struct((-F.col("score")).alias("descending"), "item_id")))
        lists = scores.groupBy("query_id").agg(F.slice(best_first, 1, DEPTH).alias("list"))
        right = relevance.where("grade >= 1").groupBy("query_id").agg(F.collect_list("item_id").alias("right"))
        pairs = right.join(lists, on="query_id", how="left").select(
            F.coalesce(F.col("list.item_id"), F.array().cast("array<bigint>")), "right"
        )
        metrics = RankingMetrics(pairs.rdd.map(tuple))
        return {f"recall@{k}": metrics.recallAt(k) for k in cutoffs}

    return work


def _clamped(value: Column) -> Column:
    return F.greatest(F.least(value, F.lit(2.0**31 - 1)), F.lit(-(2.0**31) + 1))


def _nowhere(frame: DataFrame) -> Values:
    frame.write.format("noop").mode("overwrite").save()
    return {}
