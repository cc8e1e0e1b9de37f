"""Intervals of the means: 95 %, from the same aggregation as the means themselves."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

Z_95 = 1.959963984540054  # the 0.975 quantile of the standard normal distribution


def standard_error(
    groups: str, *, n: Column, mean: Column, total: Column, per_relevant: bool, without: float
) -> Column:
    """Standard error of macro (`per_relevant`) or micro recall over n queries; null when n < 2 or the mean is null.

    se^2 = n/(n-1) * sum (x - mean)^2 / total^2, with x = h/|R| and total = n for macro recall, and for micro recall
    (a ratio of sums, linearised) x - mean replaced by h - mean |R| and total = sum |R|.

    The sum of squares is taken inside each group of queries with the same |R| and between the groups, so that no
    two large numbers are subtracted: sum (h - H/n)^2 = sum h^2 - H^2/n, exactly zero for equal h.

    Args:
        groups: array column of structs (r = |R|, n, h = sum of hits, squares = sum of squared hits), doubles,
            by ascending r.
        n: number of counted queries.
        mean: the estimate.
        total: what the sum of squares is divided by, squared.
        per_relevant: whether x is h/|R| (macro) or h (micro).
        without: the value of a query with |R| = 0.
    """

    def add(sum_so_far: Column, group: Column) -> Column:
        r, size = group["r"], group["n"]
        within = F.greatest(group["squares"] - group["h"] * group["h"] / size, F.lit(0.0))
        if per_relevant:
            off = F.when(r > 0, group["h"] / (size * r)).otherwise(without) - mean
            within = F.when(r > 0, within / (r * r)).otherwise(0.0)
        else:
            off = group["h"] / size - mean * r
        return sum_so_far + within + size * off * off

    squares = F.aggregate(groups, F.lit(0.0), add)
    variance = F.try_divide(n * squares, (n - 1) * total * total)
    return F.when(n >= 2, F.sqrt(F.greatest(variance, F.lit(0.0))))


def low(mean: Column, error: Column) -> Column:
    """Lower end of the 95 % interval, not below 0; null where the error is."""
    return F.when(error.isNotNull(), F.greatest(mean - Z_95 * error, F.lit(0.0)))


def high(mean: Column, error: Column) -> Column:
    """Upper end of the 95 % interval, not above 1; null where the error is."""
    return F.when(error.isNotNull(), F.least(mean + Z_95 * error, F.lit(1.0)))
