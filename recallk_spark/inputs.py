"""The inputs that a configuration names: opened, listed, checked for names and types, with the plan they allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from recallk_spark.chain import Chain, Inputs
from recallk_spark.config import JobConfig
from recallk_spark.errors import InputError, UsageError
from recallk_spark.evaluation import require_conforming
from recallk_spark.plans import MAX_LABEL_BYTES, Choice, Plan, choose
from recallk_spark.schema import ITEM, QUERY, RANK, RUN, SCORE
from recallk_spark.snapshot import UNKNOWN, input_files
from recallk_spark.sources import MissingDay, read_scores, read_source
from recallk_spark.specs import Format, Kind, Source, parse_day, parse_source
from recallk_spark.watch import Watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Files = list[dict[str, Any]] | str  # as snapshot.input_files gives them


@dataclass(frozen=True)
class Tables:
    """The inputs that a configuration names, parsed but not read."""

    scores: tuple[Source, ...]
    relevance: Source
    queries: Source | None
    ds: str | None

    @classmethod
    def of(cls, config: JobConfig) -> Tables:
        """Raises UsageError where something is missing or malformed."""
        if not config.scores:
            raise UsageError("no scores; give --scores SPEC (or RECALLK_SCORES, or scores in the configuration file)")
        if not config.relevance:
            raise UsageError("no relevance; give --relevance SPEC (or RECALLK_RELEVANCE, or relevance in the file)")
        if config.output and config.output.startswith("table:"):
            raise UsageError(f"output {config.output}: results are published to a directory, not to a catalog table")
        if config.slices and not config.queries:
            raise UsageError("slices are columns of the list of queries; give --queries SPEC")
        return cls(
            tuple(parse_source(text, kind=Kind.SCORES) for text in config.scores),
            parse_source(config.relevance, kind=Kind.RELEVANCE),
            parse_source(config.queries, kind=Kind.QUERIES) if config.queries else None,
            parse_day(config.ds) if config.ds else None,
        )

    def named(self) -> list[Source]:
        """Every input, scores first."""
        return [*self.scores, self.relevance, *([self.queries] if self.queries else [])]


@dataclass(frozen=True)
class Opened:
    """The chain over the inputs of a configuration, with a watch; no row has been read.

    Attributes:
        chain: what computes the result.
        tables: the inputs by name.
        choice: the plan and why it is this one.
        files: the data files of each input as they were when it was opened.
    """

    chain: Chain
    tables: Tables
    choice: Choice
    files: Mapping[Source, Files]

    def require_unchanged(self, config: JobConfig) -> None:
        """Refuses, after two scans of the scores, files that are not what they were before the first.

        Raises:
            InputError: some file was written, added or removed.
        """
        if self.choice.plan is not Plan.PRUNED:
            return
        for source in self.tables.scores:
            if input_files(source, ds=self.tables.ds, ds_column=config.ds_column) != self.files[source]:
                raise InputError(f"{source}: changed while it was read twice; run it again when nothing writes to it")


def open_inputs(spark: SparkSession, config: JobConfig, *, every_repeat: bool = False) -> Opened:
    """Opens what the configuration names. Names and types are checked, no job is run.

    Raises:
        UsageError: the configuration names no inputs, or malformed ones; a plan that does not go with the protocol.
        InputError: an input is missing, unreadable or breaks the contract.
    """
    tables = Tables.of(config)
    files = {source: input_files(source, ds=tables.ds, ds_column=config.ds_column) for source in tables.named()}
    obstacle = _obstacle(tables, files)
    choice = choose(config.plan, config.protocol, whole_lists=every_repeat, obstacle=obstacle)
    relevance = read_source(spark, tables.relevance, kind=Kind.RELEVANCE, ds=tables.ds, ds_column=config.ds_column)
    try:
        scores, one_run = read_scores(
            spark, tables.scores, run_id=config.run_id, ds=tables.ds, ds_column=config.ds_column
        )
    except MissingDay:
        if not config.allow_empty:
            raise
        scores, one_run = _no_scores(relevance), None
    queries = (
        read_source(spark, tables.queries, kind=Kind.QUERIES, ds=tables.ds, ds_column=config.ds_column)
        if tables.queries
        else None
    )
    inputs = Inputs(scores, relevance, queries, tuple(dict.fromkeys(config.slices)), one_run)
    chain = Chain(inputs, config.protocol, watch=Watch(), every_repeat=every_repeat, plan=choice.plan)
    require_conforming(chain)
    return Opened(chain, tables, choice, files)


def _obstacle(tables: Tables, files: Mapping[Source, Files]) -> str:
    """Why these inputs are better not read twice; '' where nothing stands against it."""
    for source in tables.scores:
        if source.format is not Format.PARQUET:
            return f"{source}: only Parquet is read twice"
        if files[source] == UNKNOWN:
            return f"{source}: its files cannot be listed, so a change between two scans could go unseen"
    labels = files[tables.relevance]
    if isinstance(labels, str):
        return f"{tables.relevance}: its files cannot be listed, so its size is not known"
    size = sum(file["size"] for file in labels)
    if size > MAX_LABEL_BYTES:
        return f"{tables.relevance}: {size:,} bytes, more than the {MAX_LABEL_BYTES:,} that are sent to every executor"
    return ""


def _no_scores(relevance: DataFrame) -> DataFrame:
    """A score table without rows, its ids of the types that relevance has."""
    ids = [column for column in (QUERY, ITEM) if column in relevance.columns]
    return relevance.where("false").select(F.lit("").alias(RUN), *ids, F.lit(0.0).alias(SCORE), F.lit(0).alias(RANK))
