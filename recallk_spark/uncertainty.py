"""Intervals of the means: 95 %, from the same aggregation as the means themselves.

The expressions are SQL over `groups`, an array of structs (r = |R|, n = queries, h = sum of their hits, squares = sum
of their squared hits; doubles, by ascending r), and over n, relevant, recall_macro and recall_micro.

The sum of squares is taken inside each group of queries with the same |R| and between the groups, so that no two
large numbers are subtracted: sum (h - H/n)^2 = sum h^2 - H^2/n, exactly zero for equal h.
"""

from __future__ import annotations

Z_95 = 1.959963984540054  # the 0.975 quantile of the standard normal distribution

_WITHIN = "greatest(g.squares - g.h * g.h / g.n, 0D)"


def standard_error_macro(bare: int) -> str:
    """Standard error of macro recall: se^2 = n/(n-1) * sum (x - mean)^2 / n^2, x = h/|R|; null when n < 2.

    Args:
        bare: the recall of a query with |R| = 0.
    """
    within = f"if(g.r > 0, {_WITHIN} / (g.r * g.r), 0D)"
    off = f"(if(g.r > 0, g.h / (g.n * g.r), {bare}) - recall_macro)"
    return _standard_error(f"{within} + g.n * {off} * {off}", total="n")


def standard_error_micro() -> str:
    """Standard error of micro recall rho, a ratio of sums, linearised; null when n < 2 or sum |R| = 0.

    se^2 = n/(n-1) * sum (h - rho |R|)^2 / (sum |R|)^2.
    """
    off = "(g.h / g.n - recall_micro * g.r)"
    return _standard_error(f"{_WITHIN} + g.n * {off} * {off}", total="relevant")


def interval(mean: str) -> tuple[str, str]:
    """Columns `mean`_low and `mean`_high: mean -+ z se, clipped to [0, 1]; null where the error is."""
    off = f"{Z_95!r}D * {mean}_error"
    return (
        f"if({mean}_error is null, null, greatest({mean} - {off}, 0D)) as {mean}_low",
        f"if({mean}_error is null, null, least({mean} + {off}, 1D)) as {mean}_high",
    )


def _standard_error(squares: str, *, total: str) -> str:
    summed = f"aggregate(groups, 0D, (so_far, g) -> so_far + {squares})"
    return f"if(n >= 2, sqrt(try_divide(n * {summed}, (n - 1) * double({total}) * {total})), null)"
