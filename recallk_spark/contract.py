"""The contract of the inputs: names and types are checked on the driver, values where they are read.

`conform_scores`, `conform_relevance` and `conform_queries` run no job. Faults of names and types raise at once,
all together. Faults of values are found by the scan that reads them, in one of two ways:

* without a `Watch` the refusal sits inside the plan: `raise_error` stands in place of the very column at fault,
  so whatever needs that column meets it;
* with a `Watch` bad rows are counted on their way (observed aggregates of the same scan), and the caller asks
  `Watch.faults()` after its action, before it publishes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DateType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    NumericType,
    StringType,
)

from recallk_spark.checks import Check, guard, key_in_words, malformed, skipped, sound
from recallk_spark.columns import id_faults, missing_columns, type_fault
from recallk_spark.errors import ContractError, Fault
from recallk_spark.policies import Gain, InvalidScores, ScorePrecision, TieBreak
from recallk_spark.protocol import MAX_EXPONENTIAL_GRADE, Protocol
from recallk_spark.schema import (
    DEFAULT_RUN,
    EMPTY_LIST,
    GRADE,
    ITEM,
    LISTED,
    QUERY,
    RANK,
    RUN,
    SCORE,
)
from recallk_spark.watch import AHEAD, Watch

_NO_NAMES = ("", "__HIVE_DEFAULT_PARTITION__")  # Spark writes both, and null, to one directory


def conform_scores(
    scores: DataFrame,
    *,
    protocol: Protocol,
    watch: Watch | None = None,
    queries: DataFrame | None = None,
    shuffle: bool = True,
    ahead: bool = False,
) -> DataFrame:
    """Scores as ranking takes them: run_id, query_id, item_id, and score or (`tie_break = rank`) rank.

    One row is one result. Integer ids become bigint, nothing else is converted; `score_precision = float32` rounds
    scores to single precision. Under `invalid_scores` drop and last a NaN score is null afterwards. A row with a
    null item_id says only that its query is in the run: it returned a list of length 0, or it is not on the list of
    `queries`; of the latter no score is looked at. With `queries` the rows are partitioned by query, or, without
    `shuffle`, the list of queries is sent to every executor.

    Args:
        scores: one row is one result, see schema.SCORES.
        protocol: tie_break, invalid_scores and score_precision are read here.
        watch: where given, faults are counted instead of stopping the job.
        queries: conformed list of queries, or None.
        shuffle: whether rows meet a list of queries by a shuffle.
        ahead: for the first scan of two: rows are not looked at for faults, which is left to the second; a watch
            counts them as 'scores ahead'.

    Raises:
        ContractError: columns that are missing or of a wrong type, all of them at once.
    """
    by_rank = protocol.tie_break is TieBreak.RANK
    order_column = RANK if by_rank else SCORE
    faults = missing_columns("scores", scores, (QUERY, ITEM, order_column))
    faults += id_faults("scores", scores, (QUERY, ITEM))
    faults += type_fault("scores", scores, RUN, (StringType,), "a string names a run; cast it to string")
    if by_rank:
        faults += type_fault("scores", scores, RANK, (IntegralType,), "a rank is an integer")
    else:
        faults += type_fault("scores", scores, SCORE, (NumericType,), "a score is a number; cast it, or read it so")
    if faults:
        raise ContractError(faults)

    listed = F.col(LISTED) if queries is not None else F.lit(True)
    run = F.col(RUN) if RUN in scores.columns else F.lit(DEFAULT_RUN)
    empty_list = F.col(EMPTY_LIST) if EMPTY_LIST in scores.columns else F.lit(False)
    key = key_in_words(("run", run), ("query", F.col(QUERY)), ("item", F.col(ITEM)))
    checks = [
        *malformed("scores", scores, QUERY),
        Check("scores", QUERY, "null query_id", sound(scores) & F.col(QUERY).isNull(), key),
        Check("scores", ITEM, "null item_id", sound(scores) & F.col(ITEM).isNull() & ~empty_list, key),
    ]
    if RUN in scores.columns:
        nameless = sound(scores) & (run.isNull() | run.isin(*_NO_NAMES))
        checks.append(Check("scores", RUN, "null or empty run_id, or Spark's word for null", nameless, key))
    looked_at = sound(scores) & ~empty_list & listed
    invalid = F.lit(False) if by_rank else _invalid(scores) & looked_at
    if by_rank:
        broken = F.col(RANK).isNull() & looked_at
        checks.append(Check("scores", RANK, "null rank", broken, key))
    elif protocol.invalid_scores is InvalidScores.ERROR:
        message = "null or NaN score; set invalid_scores to drop or last, or repair the table"
        checks.append(Check("scores", SCORE, message, invalid, key))

    counted = {} if by_rank or protocol.invalid_scores is InvalidScores.ERROR else {"invalid_scores": invalid}
    if ahead:
        checks, counted = [], {}
    if queries is not None:  # the query's own refusal comes first: rows are partitioned by what comes out of it
        query = F.col(QUERY) if watch is not None else guard(QUERY, checks)
        scores = scores.withColumn(QUERY, _id(scores, QUERY, query))
        scores = _mark_listed(scores.repartition(QUERY) if shuffle else scores, queries, send=not shuffle)
    frame, guarded = _apply(scores, AHEAD if ahead else "scores", checks, watch, counted=counted)
    return frame.select(
        (guarded(RUN) if RUN in scores.columns else run).alias(RUN),
        F.col(QUERY) if queries is not None else _id(scores, QUERY, guarded(QUERY)),
        _id(scores, ITEM, guarded(ITEM) if queries is None else F.when(listed, guarded(ITEM))),
        _order_value(scores, order_column, guarded(order_column), protocol).alias(order_column),
    )


def conform_relevance(
    relevance: DataFrame, *, protocol: Protocol, watch: Watch | None = None, queries: DataFrame | None = None
) -> DataFrame:
    """Labels as judging takes them: query_id, item_id, grade (double; 1 where the table has no grade), and LISTED.

    One row is one label; repeats are still in it. LISTED says whether the query is on the list of `queries`.

    Raises:
        ContractError: columns that are missing or of a wrong type, all of them at once.
    """
    faults = missing_columns("relevance", relevance, (QUERY, ITEM))
    faults += id_faults("relevance", relevance, (QUERY, ITEM))
    faults += type_fault("relevance", relevance, GRADE, (NumericType,), "a grade is a number; cast it, or read it so")
    if faults:
        raise ContractError(faults)

    if queries is not None:
        relevance = _mark_listed(relevance, queries)
    grade = _grade(relevance)
    key = key_in_words(("query", F.col(QUERY)), ("item", F.col(ITEM)))
    whole = sound(relevance)
    infinite = grade.isin(float("inf"), float("-inf"))
    checks = [
        *malformed("relevance", relevance, QUERY),
        Check("relevance", QUERY, "null query_id", whole & F.col(QUERY).isNull(), key),
        Check("relevance", ITEM, "null item_id", whole & F.col(ITEM).isNull(), key),
    ]
    if GRADE in relevance.columns:
        broken = whole & (grade.isNull() | F.isnan(grade) | infinite)
        checks.append(Check("relevance", GRADE, "null, NaN or infinite grade", broken, key))
        if protocol.gain is Gain.EXPONENTIAL:
            message = f"grade above {MAX_EXPONENTIAL_GRADE} under gain = exponential; rescale the grades or use linear"
            broken = whole & (grade > MAX_EXPONENTIAL_GRADE) & ~F.isnan(grade) & ~infinite
            checks.append(Check("relevance", GRADE, message, broken, key))

    content = F.xxhash64(QUERY, ITEM, grade)
    frame, guarded = _apply(relevance, "relevance", checks, watch, content=content)
    return frame.select(
        _id(relevance, QUERY, guarded(QUERY)),
        _id(relevance, ITEM, guarded(ITEM)),
        _grade(relevance, guarded(GRADE)).alias(GRADE),
        (F.col(LISTED) if queries is not None else F.lit(True)).alias(LISTED),
    )


def conform_queries(queries: DataFrame, *, slices: Sequence[str], watch: Watch | None = None) -> DataFrame:
    """The queries to evaluate: query_id and the columns that `slices` name, as they came. One row is one query.

    Raises:
        ContractError: a missing column, a floating id, a slice column that is an array, map or struct.
    """
    columns = slice_columns(slices)
    faults = missing_columns("queries", queries, (QUERY, *columns))
    faults += id_faults("queries", queries, (QUERY,))
    atomic = (StringType, NumericType, DateType)
    for column in columns:
        if column in queries.columns and queries.schema[column].dataType.typeName() in (
            "array",
            "map",
            "struct",
            "binary",
        ):
            faults += type_fault("queries", queries, column, atomic, "a slice is a plain value")
    if "weight" in queries.columns:
        faults.append(Fault("queries", "weight", "weighted evaluation is not offered; rename or drop the column"))
    if faults:
        raise ContractError(faults)
    checks = [
        *malformed("queries", queries, QUERY),
        Check("queries", QUERY, "null query_id", sound(queries) & F.col(QUERY).isNull(), F.lit("null")),
    ]
    content = F.xxhash64(QUERY, *(F.col(column).cast("string") for column in columns))
    frame, guarded = _apply(queries, "queries", checks, watch, content=content)
    return frame.select(_id(queries, QUERY, guarded(QUERY)), *(F.col(column) for column in columns if column != QUERY))


def slice_columns(slices: Sequence[str]) -> tuple[str, ...]:
    """The columns that slices such as ('country', 'country*device') are made of, each once, in order."""
    return tuple(dict.fromkeys(column for name in slices for column in name.split("*")))


def _mark_listed(frame: DataFrame, queries: DataFrame, *, send: bool = False) -> DataFrame:
    """The frame, LISTED true where the query is on the list; the list decides which queries exist, before all else.

    With `send` the list goes to every executor, and the frame stays where it is.
    """
    ids = queries.select(QUERY).distinct().withColumn(LISTED, F.lit(True))
    return frame.join(F.broadcast(ids) if send else ids, on=QUERY, how="left").withColumn(
        LISTED, F.coalesce(LISTED, F.lit(False))
    )


def _apply(
    frame: DataFrame,
    table: str,
    checks: Sequence[Check],
    watch: Watch | None,
    *,
    counted: Mapping[str, Column] | None = None,
    content: Column | None = None,
) -> tuple[DataFrame, Callable[[str], Column]]:
    """The frame without its skipped lines, and a function that gives a column with the refusals that stand in it."""
    skip = skipped(frame)
    if watch is not None:
        counted = dict(counted or {})
        if skip is not None and table != AHEAD:
            counted["skipped_lines"] = skip
        frame = watch.over(frame, table, checks, counted=counted, content=content)
    if skip is not None:
        frame = frame.where(~skip)
    return frame, lambda name: F.col(name) if watch is not None else guard(name, checks)


def _invalid(scores: DataFrame) -> Column:
    score = F.col(SCORE)
    floating = isinstance(scores.schema[SCORE].dataType, DoubleType | FloatType)
    return score.isNull() | F.isnan(score) if floating else score.isNull()


def _grade(relevance: DataFrame, column: Column | None = None) -> Column:
    """The grade as double, 1 where the table has none; a single-precision 0.7 is 0.7, not 0.699999988."""
    if GRADE not in relevance.columns:
        return F.lit(1.0)
    grade = F.col(GRADE) if column is None else column
    if isinstance(relevance.schema[GRADE].dataType, FloatType):
        grade = grade.cast("string")
    return grade.cast(DoubleType())


def _order_value(scores: DataFrame, name: str, column: Column, protocol: Protocol) -> Column:
    """The value that results are ordered by: NaN becomes null where it is to be dropped or ranked last."""
    if name == RANK:
        return column
    if protocol.invalid_scores is not InvalidScores.ERROR:
        column = F.when(~_invalid(scores), column)
    return column.cast(FloatType()) if protocol.score_precision is ScorePrecision.FLOAT32 else column


def _id(frame: DataFrame, name: str, column: Column) -> Column:
    """The id as bigint, or as a string that is compared by its bytes whatever its column's collation was."""
    data_type = frame.schema[name].dataType
    plain = LongType() if isinstance(data_type, IntegralType) else StringType()
    return (column if data_type == plain else column.cast(plain)).alias(name)
