"""Where results meet relevance: the labels of each query, and the only big join.

Relevance is gathered per query into two parallel arrays, so that results meet it by a join on query_id alone:
the results are already partitioned by query, and a search in an array of a few dozen items costs less than a join
on two keys.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from recallk_spark.policies import DuplicateRelevance, NoRelevant, UnjudgedQueries
from recallk_spark.protocol import Protocol, grade_text
from recallk_spark.ranking import REPEATS
from recallk_spark.schema import GRADE, ITEM, JUDGED, LISTED, NULL_SLICE, QUERY, RANK, RUN

NUM_RELEVANT_EACH = "num_relevant_each"

ITEM_BITS = "item_bits"

# what is known of a query's labels as a whole: how many items are relevant at the lowest min_grade, at each of them by
# ascending min_grade, and how many have a label of any grade; all its positive grades, best first, cut at depth; how
# many labels repeat another one, and how many items have repeats that disagree
_AS_A_WHOLE = (
    "num_relevant",
    NUM_RELEVANT_EACH,
    "num_judged",
    "ideal_grades",
    "repeated_labels",
    "conflicting_labels",
)

# one row is one query with labels: its judged items (grade >= 0) and their grades side by side; 64 bits that most other
# items are told from them by, see may_be_judged()
LABELS = (QUERY, "items", "grades", ITEM_BITS, *_AS_A_WHOLE)

# one row is one query that is evaluated, or (listed = false) one that has labels but is not on the list of queries;
# copies is how often the list names it
TOPICS = (QUERY, "listed", "copies", *_AS_A_WHOLE, "slices")

_BIT = f"hash({ITEM}) & 63"  # which of the 64 an item sets


def label_queries(relevance: DataFrame, *, protocol: Protocol, refuse: bool = True) -> DataFrame:
    """The labels of each query: LABELS columns. A pair labelled twice has its highest grade.

    Rows without a query are left out.

    Args:
        relevance: conformed relevance.
        protocol: min_grade, duplicate_relevance and depth are read here.
        refuse: under `duplicate_relevance = error`, whether a repeat stops the job or is only counted.
    """
    grade = F.max(GRADE)
    if protocol.duplicate_relevance is DuplicateRelevance.ERROR and refuse:
        grade = F.when((F.count(F.lit(1)) > 1) & F.bool_or(LISTED), _refuse_repeat()).otherwise(grade)
    # what joins by query infer for their own branch: said here, all branches read one exchange
    relevance = relevance.where(F.col(QUERY).isNotNull())
    pairs = (
        relevance.repartition(QUERY)
        .groupBy(QUERY, ITEM)
        .agg(
            grade.alias(GRADE),
            (F.count(F.lit(1)) - 1).alias("repeats"),
            (F.max(GRADE) != F.min(GRADE)).alias("conflict"),
        )
    )
    judged = F.col(GRADE) >= 0
    relevant = [F.count_if(F.col(GRADE) >= min_grade).cast("int") for min_grade in protocol.min_grades]
    # best grade first, then item: the same arrays whatever the order of rows was
    label = F.when(judged, F.struct((-F.col(GRADE)).alias("descending"), ITEM, GRADE))
    positive = F.when(F.col(GRADE) > 0, F.col(GRADE))
    gathered = pairs.groupBy(QUERY).agg(
        F.sort_array(F.collect_list(label)).alias("labels"),
        # gathered apart from the items, which those who ask for the ideal do not need
        F.sort_array(F.collect_list(positive), asc=False).alias("positive"),
        F.bit_or(F.when(judged, F.expr(f"shiftleft(1L, {_BIT})"))).alias(ITEM_BITS),
        relevant[0].alias("num_relevant"),
        F.array(*relevant).alias(NUM_RELEVANT_EACH),
        F.count(F.lit(1)).cast("int").alias("num_judged"),
        F.sum("repeats").alias("repeated_labels"),
        F.count_if("conflict").alias("conflicting_labels"),
    )
    return gathered.select(
        QUERY,
        F.col("labels.item_id").alias("items"),
        F.col("labels.grade").alias("grades"),
        ITEM_BITS,
        "num_relevant",
        NUM_RELEVANT_EACH,
        "num_judged",
        # the cast costs nothing: PER_QUERY's elements may be null, collected ones may not
        F.slice("positive", 1, protocol.depth).cast("array<double>").alias("ideal_grades"),
        "repeated_labels",
        "conflicting_labels",
    )


def may_be_judged() -> Column:
    """Whether a result may be one of a judged item of its query, over its item_id and item_bits.

    True wherever it is: equal items set the same bit. For most other results false, or null where nothing is judged,
    which spares them the search among the items; with some hundred judged items every bit is set, and nobody is spared.
    """
    return F.expr(f"shiftrightunsigned({ITEM_BITS}, {_BIT}) & 1L = 1L")


def topics(
    labels: DataFrame,
    queries: DataFrame | None,
    *,
    slices: tuple[str, ...],
    protocol: Protocol,
    refuse: bool = True,
) -> DataFrame:
    """The queries that are evaluated: TOPICS columns. Without a list of queries these are the labelled ones.

    A listed query without labels has no relevant item; a labelled query that is not listed is kept with
    `listed = false`, to be counted.

    Args:
        labels: LABELS.
        queries: conformed queries, or None.
        slices: slice names over columns of `queries`; 'a*b' is a cross.
        protocol: no_relevant and min_grade are read here.
        refuse: whether a repeated query, or a query at odds with `no_relevant = error` at any min_grade, stops the
            job.
    """
    labelled = labels.select(QUERY, *_AS_A_WHOLE)
    if queries is None:
        everything = labelled.select(
            "*",
            F.lit(True).alias("listed"),
            F.lit(1).cast("bigint").alias("copies"),
            _no_slices().alias("slices"),
        )
    else:
        listed = _one_row_each(queries, slices=slices, refuse=refuse).withColumn("listed", F.lit(True))
        everything = listed.join(labelled, on=QUERY, how="full").select(
            QUERY,
            F.coalesce("listed", F.lit(False)).alias("listed"),
            F.coalesce("copies", F.lit(0)).cast("bigint").alias("copies"),
            F.coalesce("num_relevant", F.lit(0)).alias("num_relevant"),
            F.coalesce(NUM_RELEVANT_EACH, F.array(*[F.lit(0)] * len(protocol.min_grades))).alias(NUM_RELEVANT_EACH),
            F.coalesce("num_judged", F.lit(0)).alias("num_judged"),
            F.coalesce("ideal_grades", F.array().cast("array<double>")).alias("ideal_grades"),
            F.coalesce("repeated_labels", F.lit(0)).cast("bigint").alias("repeated_labels"),
            F.coalesce("conflicting_labels", F.lit(0)).cast("bigint").alias("conflicting_labels"),
            F.coalesce("slices", _no_slices()).alias("slices"),
        )
    if protocol.no_relevant is NoRelevant.ERROR and refuse:
        message = f"relevance: query {no_relevant_words(protocol)} (for example query "
        refusal = F.raise_error(F.concat(F.lit(message), F.col(QUERY), F.lit(")")))
        at_fault = F.expr(has_no_relevant(protocol))
        for column in ("num_relevant", NUM_RELEVANT_EACH):  # whichever is read carries the refusal
            everything = everything.withColumn(column, F.when(at_fault, refusal).otherwise(F.col(column)))
    return everything.select(*TOPICS)


def has_no_relevant(protocol: Protocol) -> str:
    """Whether a judged query has no relevant item at some min_grade, so at the highest: SQL over TOPICS."""
    return f"listed and get({NUM_RELEVANT_EACH}, {len(protocol.min_grades) - 1}) = 0"


def no_relevant_words(protocol: Protocol) -> str:
    """What such a query is refused for."""
    where = f" at min_grade {grade_text(protocol.min_grades[-1])}" if len(protocol.min_grades) > 1 else ""
    return f"with no relevant item{where}, and no_relevant = error"


def judge(
    ranked: DataFrame,
    labels: DataFrame,
    *,
    protocol: Protocol,
    every_query_judged: bool = False,
    refuse: bool = True,
) -> DataFrame:
    """The ranked results with their labels: JUDGED columns and `repeats`. No result is lost or added.

    hit_number and num_relevant are those of the lowest min_grade.

    Args:
        ranked: RANKED and `repeats`.
        labels: LABELS.
        protocol: min_grade and unjudged_queries are read here.
        every_query_judged: a list of queries was given, so no query of the run counts as unjudged.
        refuse: under `unjudged_queries = error`, whether such a query stops the job.
    """
    met = ranked.join(labels.select(QUERY, "items", "grades", "num_relevant"), on=QUERY, how="left")
    if protocol.unjudged_queries is UnjudgedQueries.ERROR and refuse and not every_query_judged:
        met = refuse_unjudged(met, RANK)
    place = F.array_position("items", F.col(ITEM))
    graded = met.withColumn(
        GRADE, F.when(F.col(RANK).isNotNull() & (place > 0), F.get("grades", (place - 1).cast("int")))
    )
    return _number_hits(graded, protocol).select(*JUDGED.names, REPEATS)


def refuse_unjudged(met: DataFrame, column: str) -> DataFrame:
    """The rows, with the refusal in a column where their query has no labels (`items` is null)."""
    message = "scores.query_id: unjudged query in the run, and unjudged_queries = error (for example query "
    refusal = F.raise_error(F.concat(F.lit(message), F.col(QUERY), F.lit(")")))
    return met.withColumn(column, F.when(F.col("items").isNull(), refusal).otherwise(F.col(column)))


def _number_hits(graded: DataFrame, protocol: Protocol) -> DataFrame:
    """hit_number: 1, 2, ... at the hits, down each list. An item counts once, at its best position."""
    by_rank = F.col(RANK).asc_nulls_last()
    copy = F.row_number().over(Window.partitionBy(QUERY, RUN, ITEM).orderBy(by_rank))
    so_far = Window.partitionBy(QUERY, RUN).orderBy(by_rank).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    hit = (F.col(GRADE) >= protocol.min_grades[0]) & (F.col("copy") == 1)
    return graded.withColumn("copy", copy).withColumn(
        "hit_number", F.when(hit, F.count_if(hit).over(so_far)).cast("int")
    )


def _one_row_each(queries: DataFrame, *, slices: tuple[str, ...], refuse: bool) -> DataFrame:
    """One row per listed query with its slices; a query that is listed twice is refused."""
    pairs = [part for name in dict.fromkeys(slices) for part in (F.lit(name), _slice_value(name))]
    named = F.create_map(*pairs) if pairs else _no_slices()
    copies = F.count(F.lit(1))
    if refuse:
        message = "queries.query_id: duplicate query, a query is listed once (for example "
        refusal = F.raise_error(F.concat(F.lit(message), F.col(QUERY), F.lit(")")))
        named = F.when(copies > 1, refusal).otherwise(named)
    return queries.groupBy(QUERY).agg(named.alias("slices"), copies.alias("copies"))


def _slice_value(name: str) -> Column:
    values = [F.coalesce(F.min(column).cast("string"), F.lit(NULL_SLICE)) for column in name.split("*")]
    return F.concat_ws("*", *values)


def _no_slices() -> Column:
    return F.create_map().cast("map<string,string>")


def _refuse_repeat() -> Column:
    key = F.concat(F.lit("query "), F.col(QUERY), F.lit(", item "), F.col(ITEM), F.lit(")"))
    message = "relevance.item_id: duplicate label, and duplicate_relevance = error (for example "
    return F.raise_error(F.concat(F.lit(message), key))
