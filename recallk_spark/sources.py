"""From a SPEC to a DataFrame with the columns of schema.SCORES, schema.RELEVANCE or a list of queries.

Names and types stay as they are stored; the contract checks them, and counts what the notes on text rows say.
Only schemas, first lines and directories are looked at; the two places where a job may run say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from recallk_spark.arrays import from_arrays
from recallk_spark.errors import ContractError, Fault, InputError, UsageError
from recallk_spark.json_lines import parse_json_lines
from recallk_spark.opening import MissingDay, of_day, one_line_errors, open_source
from recallk_spark.schema import DEFAULT_RUN, GRADE, ITEM, QUERY, RANK, RUN, SCORE
from recallk_spark.specs import Format, Kind, Source, check_name, parse_day, parse_source
from recallk_spark.text_sources import parse_csv, parse_trec
from recallk_spark.union import union

__all__ = [
    "Format",
    "Kind",
    "MissingDay",
    "Source",
    "from_arrays",
    "parse_day",
    "parse_source",
    "read_relevance",
    "read_scores",
    "read_source",
]

_SOURCE = "source"  # the column of relevance that says who labelled


def read_source(
    spark: SparkSession, source: Source, *, kind: Kind, ds: str | None = None, ds_column: str = "ds"
) -> DataFrame:
    """The rows of one input, as they are stored.

    Parquet and tables keep their columns and types; text formats give a row per line with the notes `_malformed`
    and `_skipped`; arrays a row per result with `_empty_list`. A TREC run's tag is its run_id. A label sets the
    column `source` of relevance; that of scores is for `read_scores`. With a day only its rows are read, and the ds
    column is left out: scores always when `ds` is given, other inputs when their location ends in `@ds` or
    `@latest`. `@latest` of anything but a partitioned directory on this machine runs a job over the ds column.

    Raises:
        UsageError: `@ds` or `@latest` without a day.
        MissingDay: no partition for the day.
        InputError: missing, empty, unreadable, without the ds column, or (ContractError) with a column that a label
            sets.
    """
    wanted = source.day or ("ds" if kind is Kind.SCORES and ds is not None else "")
    if wanted and ds is None:
        raise UsageError(f"{kind} '{source}' is read by day: say which, with --ds")

    def chosen(frame: DataFrame) -> DataFrame:
        return of_day(frame, source, wanted=wanted, ds=ds, ds_column=ds_column) if wanted and ds else frame

    frame = open_source(spark, source)
    by_directory = ds_column in frame.columns  # choose before parsing: the other days' files are not opened
    frame = chosen(frame) if by_directory else frame
    with one_line_errors(source):
        frame = _parsed(frame, source, kind)
    frame = frame if by_directory else chosen(frame)
    if source.format is Format.ARRAYS:
        frame = from_arrays(frame)
    if kind is Kind.RELEVANCE and source.label:
        _refuse_own(frame, source, _SOURCE, kind)
        frame = frame.withColumn(_SOURCE, F.lit(source.label))
    return frame


def _parsed(frame: DataFrame, source: Source, kind: Kind) -> DataFrame:
    if source.json_lines:
        return parse_json_lines(frame, source, kind=kind)
    if source.format is Format.CSV:
        return parse_csv(frame, source, kind=kind)
    return parse_trec(frame, source, kind=kind) if source.format is Format.TREC else frame


def read_scores(
    spark: SparkSession, sources: Sequence[Source], *, run_id: str | None, ds: str | None, ds_column: str = "ds"
) -> tuple[DataFrame, str | None]:
    """The rows of all scores in one frame, every one with a run_id; and that run_id where it is known to be only one.

    A run is named by its label or `run_id`, else by the input's own run_id column, the TREC tag, the file's stem,
    or (a table) 'run'. Several inputs of which some name their runs themselves are asked for those names: a job over
    their run_id columns.

    Raises:
        UsageError: `run_id` for several inputs or beside a label; two inputs that give one run_id.
        ContractError: a name for an input that has a run_id column; inputs whose ids or scores differ in type.
        MissingDay: no input has a partition for the day; InputError if only some have none.
        InputError: as `read_source`.
    """
    _check_labels(sources, run_id)
    frames, names, missing = [], [], []
    for source in sources:
        try:
            frame = read_source(spark, source, kind=Kind.SCORES, ds=ds, ds_column=ds_column)
        except MissingDay as error:
            missing.append(error)
            continue
        name = _run_name(frame, source, run_id)
        frames.append(frame if name is None else frame.withColumn(RUN, F.lit(name)))
        names.append(name)
    if missing:
        raise missing[0] if not frames else InputError(f"{missing[0]}; other scores have that day")
    _refuse_shared_runs(frames, names, sources)
    scores = union(frames, sources, Kind.SCORES, (RUN, QUERY, ITEM, SCORE, RANK))
    return scores, names[0] if len(names) == 1 else None


def read_relevance(
    spark: SparkSession, sources: Sequence[Source], *, ds: str | None, ds_column: str = "ds"
) -> DataFrame:
    """The labels of all relevance inputs in one frame, with `source` where they are labelled.

    Where only some inputs have grades, the labels of the others have grade 1.

    Raises:
        UsageError: some inputs with a label and some without; two with the same.
        ContractError: as `read_scores`; MissingDay, InputError: as `read_source`.
    """
    _check_labels(sources, None)
    if 0 < sum(bool(source.label) for source in sources) < len(sources):
        raise UsageError("name the source of every --relevance (SOURCE=SPEC), or of none")
    frames = [read_source(spark, source, kind=Kind.RELEVANCE, ds=ds, ds_column=ds_column) for source in sources]
    graded = [frame for frame in frames if GRADE in frame.columns]
    if graded:
        grade = F.lit(1).cast(graded[0].schema[GRADE].dataType)
        frames = [frame if GRADE in frame.columns else frame.withColumn(GRADE, grade) for frame in frames]
    return union(frames, sources, Kind.RELEVANCE, (QUERY, ITEM, GRADE, _SOURCE))


def _check_labels(sources: Sequence[Source], run_id: str | None) -> None:
    """Refuses what is wrong with the names as they are given, before anything is opened."""
    if run_id is not None:
        check_name(run_id, "run id")
        if len(sources) > 1:
            raise UsageError("--run-id names one run, but there are several scores: write --scores NAME=SPEC for each")
        if sources and sources[0].label:
            raise UsageError(f"'{sources[0]}' has a name already; leave out --run-id {run_id}")
    _refuse_repeated([(source.label, source) for source in sources if source.label])


def _refuse_repeated(named: Sequence[tuple[str, Source]]) -> None:
    seen: dict[str, Source] = {}
    for name, source in named:
        if name in seen:
            raise UsageError(f"'{seen[name]}' and '{source}' both give '{name}'; name them apart with NAME=SPEC")
        seen[name] = source


def _run_name(frame: DataFrame, source: Source, run_id: str | None) -> str | None:
    """The name of the source's one run; None where its rows say which run they are of."""
    given = source.label or run_id
    if given and source.format is not Format.TREC:  # a tag is there to be overridden
        _refuse_own(frame, source, RUN, Kind.SCORES)
    return given or (None if RUN in frame.columns else source.stem or DEFAULT_RUN)


def _refuse_own(frame: DataFrame, source: Source, column: str, kind: Kind) -> None:
    if column in frame.columns:
        raise ContractError([Fault(kind, column, f"{source} has such a column; leave out the name given to it")])


def _refuse_shared_runs(frames: Sequence[DataFrame], names: Sequence[str | None], sources: Sequence[Source]) -> None:
    """Refuses two inputs that would give one run_id; runs a job only where rows of several inputs name their runs."""
    _refuse_repeated([(name, source) for name, source in zip(names, sources, strict=True) if name is not None])
    own = [
        frame.select(F.col(RUN).cast("string").alias(RUN), F.lit(place).alias("place"))
        for place, (frame, name) in enumerate(zip(frames, names, strict=True))
        if name is None
    ]
    if not own or len(frames) == 1:
        return
    given = {name: source for name, source in zip(names, sources, strict=True) if name is not None}
    places = reduce(DataFrame.union, own).groupBy(RUN).agg(F.min("place").alias("first"), F.max("place").alias("last"))
    shared = places.where((F.col("first") < F.col("last")) | F.col(RUN).isin(list(given))).orderBy(RUN).first()
    if shared:
        first, last = sources[shared["first"]], given.get(shared[RUN], sources[shared["last"]])
        _refuse_repeated([(shared[RUN], first), (shared[RUN], last)])
