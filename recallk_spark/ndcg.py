"""nDCG at the cutoffs: DCG of a list's judged results over that of all positive grades of its query, best first.

Discount log2(rank + 1); gain g or 2^g - 1. Jarvelin and Kekalainen (2002), as trec_eval's ndcg_cut takes it. Every
positive grade gains, whatever min_grade. The terms are added by ascending rank, for every cutoff in one pass.
"""

from __future__ import annotations

from recallk_spark.policies import Gain
from recallk_spark.protocol import Protocol

NDCG_TYPE = "decimal(38,15)"  # of each query's value; such decimals are added exactly


def dcg(protocol: Protocol) -> str:
    """SQL over ranks and grades of a list: DCG at each cutoff, an array of doubles."""
    gain = _gain("result.grades", protocol)
    return _at_cutoffs(
        f"transform(arrays_zip(ranks, grades), result -> struct(result.ranks as rank, "
        f"{gain} / log2(result.ranks + 1) as gain))",
        protocol,
    )


def ideal_dcg(protocol: Protocol) -> str:
    """SQL over the ideal_grades of a query: the greatest DCG there can be at each cutoff, an array of doubles."""
    best = f"slice(ideal_grades, 1, {protocol.max_cutoff})"
    gain = _gain("grade", protocol)
    return _at_cutoffs(
        f"transform({best}, (grade, place) -> struct(place + 1 as rank, {gain} / log2(place + 2) as gain))", protocol
    )


def ndcg(protocol: Protocol) -> str:
    """SQL over dcg and ideal_dcg: nDCG at each cutoff, an array of decimals; 0 where the ideal is 0."""
    places = range(len(protocol.cutoffs))
    values = (f"coalesce(try_divide(get(dcg, {place}), get(ideal_dcg, {place})), 0D)" for place in places)
    return f"array({', '.join(f'cast({value} as {NDCG_TYPE})' for value in values)})"


def _gain(grade: str, protocol: Protocol) -> str:
    return f"if({grade} > 0, {grade if protocol.gain is Gain.LINEAR else f'pow(2D, {grade}) - 1'}, 0D)"


def _at_cutoffs(terms: str, protocol: Protocol) -> str:
    """The sum of the gains up to each cutoff, the terms taken in their order."""
    zero = ", ".join(f"0D as at_{k}" for k in protocol.cutoffs)
    more = ", ".join(f"so_far.at_{k} + if(term.rank <= {k}, term.gain, 0D) as at_{k}" for k in protocol.cutoffs)
    sums = ", ".join(f"sums.at_{k}" for k in protocol.cutoffs)
    return f"aggregate({terms}, struct({zero}), (so_far, term) -> struct({more}), sums -> array({sums}))"
