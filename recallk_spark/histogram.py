"""From lists to an integer histogram over (|R|, rank): one aggregation for all depths and both averages.

Only the ranks of hits matter. A hit at rank r with running number h in a query with |R| relevant items adds 1 to
the hits at every depth >= r, 1/|R| to macro recall, h/r/|R| to MAP and (2h - 1)/|R|^2 to the sum of squares behind
the interval. So it is enough to count, per (|R|, rank), the hits and the sum of their running numbers.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from recallk_spark.judging import NUM_RELEVANT_EACH
from recallk_spark.lists import counted_text
from recallk_spark.policies import Gain
from recallk_spark.protocol import Protocol
from recallk_spark.ranking import REPEATS
from recallk_spark.schema import QUERY, RANK, RUN, TOTAL

NUM_RELEVANT = "num_relevant"
SLICE = ("slice", "slice_value")
PLACE = "min_grade_place"  # of a min_grade among those of the protocol, from 0
NDCG_TYPE = "decimal(38,15)"

# one row is one run, min_grade, slice, |R| and rank; counts over the counted queries of the run with that |R|:
#   hits, first_hits (those with running number 1), hit_numbers (sum of running numbers), judged (judged items),
#   lists (lists that end here; lists of length 0 end at rank 0), ndcg (sum of nDCG at this cutoff).
# The one row of each min_grade with |R| = 0 and rank 0 holds, besides, the counts over whole queries of the run:
#   queries (counted), queries_in_run (evaluated), queries_unjudged, run_unlisted (not on the list of queries),
#   repeats, results (rows of their lists), judged_results
RANK_COUNTS = ("hits", "first_hits", "hit_numbers", "judged", "lists")
QUERY_COUNTS = (
    "queries",
    "queries_in_run",
    "queries_unjudged",
    "run_unlisted",
    REPEATS,
    "results",
    "judged_results",
)

# one row is one min_grade, slice and |R|, whatever the run: judged queries that count if they are in the run or missing
# queries count (population), judged queries without relevant items, labelled queries that are not listed, repeats
# among labels and listed queries
POPULATION_COUNTS = (
    "population",
    "queries_no_relevant",
    "labels_unlisted",
    "repeated_labels",
    "conflicting_labels",
    "repeated_queries",
)


def grade_key(protocol: Protocol) -> tuple[str, ...]:
    """The column that tells the min_grades apart, where there are several.

    Rows grouped by a double or by a constant are aggregated once more than they need be; so a place stands for a
    min_grade, and nothing for the only one.
    """
    return (PLACE,) if len(protocol.min_grades) > 1 else ()


def min_grade_text(protocol: Protocol) -> str:
    """The min_grade of a row: SQL over grade_key()."""
    grades = [f"{grade!r}D" for grade in protocol.min_grades]
    return grades[0] if len(grades) == 1 else f"get(array({', '.join(grades)}), {PLACE})"


def histogram(lists: DataFrame, topics: DataFrame, *, protocol: Protocol, queries_given: bool) -> DataFrame:
    """The counts behind every measure: run_id, grade_key(), SLICE, num_relevant, rank, RANK_COUNTS, ndcg, QUERY_COUNTS.

    Args:
        lists: LISTS.
        topics: TOPICS.
        protocol: min_grade, no_relevant, gain and cutoffs are read here.
        queries_given: whether a list of queries decides which queries exist.
    """
    needed = topics.select(QUERY, "listed", NUM_RELEVANT, NUM_RELEVANT_EACH, "ideal_grades", "slices")
    known = lists.join(needed, on=QUERY, how="left")
    grade = grade_key(protocol)
    rows = _at_each_min_grade(known, protocol).selectExpr(
        RUN,
        *grade,
        f"{_SLICES} as slice",
        f"coalesce({NUM_RELEVANT}, 0) as {NUM_RELEVANT}",
        "coalesce(listed, false) as evaluated",
        f"coalesce(listed, false) and {counted_text(protocol)} as counted",
        "listed is null as unknown",
        f"{'false' if queries_given else 'true'} or coalesce(listed, false) as exists",
        "num_retrieved",
        "arrays_zip(ranks, grades) as results",
        "coalesce(ideal_grades, cast(array() as array<double>)) as ideal_grades",
        REPEATS,
    )
    entries = rows.selectExpr(RUN, *grade, "explode(slice) as slice", f"{_entries(protocol)} as entries")
    flat = entries.selectExpr(RUN, *grade, "slice.*", "explode(entries) as entry").select(
        RUN, *grade, *SLICE, "entry.*"
    )
    counts = {
        "hits": "count(hit_number)",
        "first_hits": "count_if(hit_number = 1)",
        "hit_numbers": "coalesce(sum(hit_number), 0)",
        "judged": "sum(judged)",
        "lists": "sum(lists)",
        "ndcg": f"cast(sum(ndcg) as {NDCG_TYPE})",
        **{name: f"coalesce(sum(query.{name}), 0)" for name in QUERY_COUNTS},
    }
    return flat.groupBy(RUN, *grade, *SLICE, NUM_RELEVANT, RANK).agg(
        *(F.expr(f"{count} as {name}") for name, count in counts.items())
    )


def population(topics: DataFrame, *, protocol: Protocol) -> DataFrame:
    """How many judged queries there are, whatever the runs: grade_key(), SLICE, num_relevant, POPULATION_COUNTS.

    Args:
        topics: TOPICS.
        protocol: min_grade and no_relevant are read here.
    """
    grade = grade_key(protocol)
    at_each = _at_each_min_grade(topics, protocol)
    members = at_each.selectExpr(
        *grade,
        f"explode({_SLICES}) as slice",
        f"if(listed, {NUM_RELEVANT}, 0) as {NUM_RELEVANT}",
        f"bigint(listed and {counted_text(protocol)}) as population",
        f"bigint(listed and {NUM_RELEVANT} = 0) as queries_no_relevant",
        "bigint(not listed) as labels_unlisted",
        "if(listed, repeated_labels, 0) as repeated_labels",
        "if(listed, conflicting_labels, 0) as conflicting_labels",
        "greatest(copies - 1, 0) as repeated_queries",
    ).select(*grade, "slice.*", NUM_RELEVANT, *POPULATION_COUNTS)
    return members.groupBy(*grade, *SLICE, NUM_RELEVANT).agg(
        *(F.expr(f"sum({name}) as {name}") for name in POPULATION_COUNTS)
    )


def _at_each_min_grade(rows: DataFrame, protocol: Protocol) -> DataFrame:
    """The rows once for each min_grade, num_relevant being |R| at that one; 0 where a query has no labels."""
    if not grade_key(protocol):
        return rows
    each = f"coalesce({NUM_RELEVANT_EACH}, array_repeat(0, {len(protocol.min_grades)}))"
    return rows.drop(NUM_RELEVANT).selectExpr("*", f"posexplode({each}) as ({PLACE}, {NUM_RELEVANT})")


# The slices of a query, the total first, as an array of (slice, slice_value)
_TOTAL = f"named_struct('slice', '{TOTAL}', 'slice_value', '{TOTAL}')"
_SLICES = (
    f"concat(array({_TOTAL}), coalesce(transform(map_entries(slices), "
    "entry -> named_struct('slice', entry.key, 'slice_value', entry.value)), array()))"
)


def _entries(protocol: Protocol) -> str:
    """What one list adds to the histogram: itself as a query and, when counted, its results, its end and its nDCG."""
    relevant = f"result.grades >= {min_grade_text(protocol)}"
    hit = _entry("hit.ranks", hit_number="place + 1", judged=1)
    other = _entry("other.ranks", judged=1)
    cutoffs = ", ".join(map(str, protocol.cutoffs))
    own = _entry("0", num_relevant="0", query=_query_counts())
    return f"""if(
        counted,
        concat(
            array({own}),
            transform(filter(results, result -> {relevant}), (hit, place) -> {hit}),
            transform(filter(results, result -> not {relevant}), other -> {other}),
            array({_entry("num_retrieved", lists=1)}),
            transform(array({cutoffs}), k -> {_entry("k", ndcg=_ndcg(protocol))})
        ),
        array({own})
    )"""


def _entry(
    rank: str,
    *,
    num_relevant: str = NUM_RELEVANT,
    hit_number: str = "null",
    judged: int = 0,
    lists: int = 0,
    ndcg: str = "null",
    query: str = "null",
) -> str:
    query_type = f"struct<{', '.join(f'{name}: bigint' for name in QUERY_COUNTS)}>"
    return (
        f"named_struct('{NUM_RELEVANT}', {num_relevant}, '{RANK}', int({rank}), 'hit_number', bigint({hit_number}), "
        f"'judged', {judged}, 'lists', {lists}, 'ndcg', cast({ndcg} as {NDCG_TYPE}), "
        f"'query', cast({query} as {query_type}))"
    )


def _query_counts() -> str:
    counts = {
        "queries": "counted",
        "queries_in_run": "evaluated",
        "queries_unjudged": "unknown and exists",
        "run_unlisted": "unknown and not exists",
        REPEATS: f"if(exists, {REPEATS}, 0)",
        "results": "num_retrieved",
        "judged_results": "size(results)",
    }
    return f"named_struct({', '.join(f'{name!r}, bigint({counts[name]})' for name in QUERY_COUNTS)})"


def _ndcg(protocol: Protocol) -> str:
    """nDCG@k of one list: DCG of its judged results over DCG of all positive grades, best first; 0 where that is 0.

    Discount log2(rank + 1); gain g or 2^g - 1. Jarvelin and Kekalainen (2002), as trec_eval's ndcg_cut takes it.
    Every positive grade gains, whatever min_grade.
    """

    def gain(grade: str) -> str:
        return f"if({grade} > 0, {grade if protocol.gain is Gain.LINEAR else f'pow(2D, {grade}) - 1'}, 0D)"

    def total(terms: str) -> str:
        return f"aggregate({terms}, 0D, (so_far, term) -> so_far + term)"

    dcg = total(
        f"transform(filter(results, result -> result.ranks <= k), "
        f"result -> {gain('result.grades')} / log2(result.ranks + 1))"
    )
    ideal = total(f"transform(slice(ideal_grades, 1, k), (grade, place) -> {gain('grade')} / log2(place + 2))")
    return f"coalesce(try_divide({dcg}, {ideal}), 0D)"
