"""Column names and the schema of every table: what one row is, and of which type each column is.

Ids are strings or integers (bigint). A schema written here with a string id is the same with a bigint one: the
id type of a result is the id type of its input. Stages end in `.select(*SCHEMA.names)`.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

DS = "ds"
RUN = "run_id"
QUERY = "query_id"
ITEM = "item_id"
SCORE = "score"
RANK = "rank"
GRADE = "grade"
MIN_GRADE = "min_grade"

RELEVANCE_SET_ALL = "all"  # the value of relevance_set where relevance has no sources
DEFAULT_RUN = "run"  # the run_id of scores that name none
TOTAL = ""  # slice and slice_value of the row over all queries
NULL_SLICE = "(null)"

# one row is one result: what a run returned for a query (input)
SCORES = StructType(
    [
        StructField(RUN, StringType()),
        StructField(QUERY, StringType()),
        StructField(ITEM, StringType()),
        StructField(SCORE, DoubleType()),
    ]
)

# one row is one label: how relevant an item is to a query (input)
RELEVANCE = StructType(
    [
        StructField(QUERY, StringType()),
        StructField(ITEM, StringType()),
        StructField(GRADE, DoubleType()),
    ]
)

# one row is one result within depth, at its 1-based rank in its query's list. A null rank says only that the
# query is in the run: a result removed before ranking, or a list of length 0
RANKED = StructType(
    [
        StructField(RUN, StringType()),
        StructField(QUERY, StringType()),
        StructField(ITEM, StringType()),
        StructField(RANK, IntegerType()),
    ]
)

# one row is one ranked result with its label: grade null where the pair is not judged, hit_number (1, 2, ... down
# the list) only where it is a hit, num_relevant null where the query is not judged; both at the lowest min_grade
JUDGED = StructType(
    [
        StructField(RUN, StringType()),
        StructField(QUERY, StringType()),
        StructField(ITEM, StringType()),
        StructField(RANK, IntegerType()),
        StructField(GRADE, DoubleType()),
        StructField("hit_number", IntegerType()),
        StructField("num_relevant", IntegerType()),
    ]
)

# one row is one run, relevance set and evaluated query, queries missing from the run included; counted and
# num_relevant at the lowest min_grade (published)
PER_QUERY = StructType(
    [
        StructField(RUN, StringType()),
        StructField("relevance_set", StringType()),
        StructField(QUERY, StringType()),
        StructField("in_run", BooleanType()),
        StructField("counted", BooleanType()),
        StructField("num_relevant", IntegerType()),
        StructField("num_judged", IntegerType()),
        StructField("num_retrieved", IntegerType()),
        StructField("num_relevant_returned", IntegerType()),
        StructField("ranks", ArrayType(IntegerType())),
        StructField("grades", ArrayType(DoubleType())),
        StructField("ideal_grades", ArrayType(DoubleType())),
        StructField("slices", MapType(StringType(), StringType())),
        StructField("weight", DecimalType(18, 6)),
        StructField("fingerprint", StringType()),
    ]
)

_MEASURES = (
    "recall_macro",
    "recall_macro_low",
    "recall_macro_high",
    "recall_micro",
    "recall_micro_low",
    "recall_micro_high",
    "recall_capped_macro",
    "precision_macro",
    "f1_macro",
    "hit_rate",
    "mrr",
    "map",
    "ndcg",
    "judged_macro",
)
_COUNTS = (
    "hits",
    "relevant",
    "retrieved",
    "queries",
    "queries_missing",
    "queries_no_relevant",
    "queries_unjudged",
    "queries_short",
)

# one row is one run, relevance set, min_grade, slice and depth k; measures are in [0, 1] or null (published)
PROFILE = StructType(
    [
        StructField(RUN, StringType()),
        StructField("relevance_set", StringType()),
        StructField(MIN_GRADE, DoubleType()),
        StructField("slice", StringType()),
        StructField("slice_value", StringType()),
        StructField("k", IntegerType()),
        *(StructField(name, DoubleType()) for name in _MEASURES),
        *(StructField(name, LongType()) for name in _COUNTS),
    ]
)

# one row is one run: under which protocol, from which inputs and with which counts its numbers were made (published)
PROTOCOL = StructType(
    [
        StructField(RUN, StringType()),
        StructField("fingerprint", StringType()),
        StructField("protocol", StringType()),
        StructField("digests", StringType()),
        StructField("counts", StringType()),
        StructField("inputs", StringType()),
        StructField("plan", StringType()),
        StructField("schema_version", IntegerType()),
        StructField("versions", StringType()),
    ]
)

SCHEMA_VERSION = 1

# Notes that a source leaves on its rows for the contract, which counts, refuses or removes them:
MALFORMED = "_malformed"  # string: the text of a line that could not be parsed, else null
SKIPPED = "_skipped"  # boolean: a blank or comment line, to be counted and left out
LISTED = "_listed"  # boolean: the query is on the list of queries (set by the contract)
EMPTY_LIST = "_empty_list"  # boolean: the row only says that its query returned a list of length 0
