"""The values that the settings of the protocol take, one enum each, the default first."""

from __future__ import annotations

from enum import StrEnum


class ScoreOrder(StrEnum):
    """Which end of the scores is best."""

    DESC = "desc"  # larger is better
    ASC = "asc"  # smaller is better: distances


class ScorePrecision(StrEnum):
    """The type scores are compared in."""

    NATIVE = "native"  # as they arrive
    FLOAT32 = "float32"  # rounded to single precision first, as trec_eval 9 does


class TieBreak(StrEnum):
    """What orders results of equal score."""

    ITEM_ASC = "item_asc"
    ITEM_DESC = "item_desc"  # trec_eval's
    RANK = "rank"  # the given `rank` column is the order, then item id ascending; the score is ignored


class Duplicates(StrEnum):
    """What becomes of a (run, query, item) that stands in the scores more than once."""

    OCCUPY = "occupy"  # every row keeps its position, the item counts once, at its best position
    COLLAPSE = "collapse"  # later positions are removed before ranking
    ERROR = "error"  # refused when it happens within depth


class DuplicateRelevance(StrEnum):
    """What becomes of a (query, item) labelled more than once."""

    MAX = "max"  # the highest grade counts
    ERROR = "error"


class InvalidScores(StrEnum):
    """What becomes of null and NaN scores."""

    ERROR = "error"
    DROP = "drop"  # the row is left out of its list
    LAST = "last"  # ranked after every valid score, by item id


class ShortLists(StrEnum):
    """Whether a counted query may have fewer than max(cutoffs) results."""

    ALLOW = "allow"
    ERROR = "error"


class NoRelevant(StrEnum):
    """What becomes of a judged query with no relevant item."""

    EXCLUDE = "exclude"
    ZERO = "zero"  # recall, capped recall and MAP are 0
    ONE = "one"  # recall and capped recall are 1, MAP is 0
    ERROR = "error"


class MissingQueries(StrEnum):
    """What becomes of a judged query that is absent from the run."""

    ZERO = "zero"  # evaluated as an empty list
    EXCLUDE = "exclude"
    ERROR = "error"


class UnjudgedQueries(StrEnum):
    """What becomes of a query of the run without judgments. It is never part of a mean."""

    IGNORE = "ignore"
    ERROR = "error"


class Gain(StrEnum):
    """How much a grade is worth in nDCG."""

    LINEAR = "linear"  # the grade itself
    EXPONENTIAL = "exponential"  # 2^grade - 1


class Preset(StrEnum):
    """A named set of settings."""

    TREC_EVAL = "trec_eval"  # trec_eval 10 with -c
    TREC_EVAL9 = "trec_eval9"  # the same with scores compared in single precision
