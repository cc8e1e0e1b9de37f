"""Intervals of the means: 95 %, from the same aggregation as the means themselves.

The expressions are SQL over `groups`, an array of the cells of grid.py by ascending |R|, and over n, relevant,
recall_macro and recall_micro.

The sum of squares is taken inside each group of queries with the same |R|, which the cells hold, and between the
groups, so that no two large numbers are subtracted.
"""

from __future__ import annotations

Z_95 = 1.959963984540054  # the 0.975 quantile of the standard normal distribution


def squares() -> str:
    """SQL: `macro` and `micro`, the sums of squared deviations behind the two standard errors, in one pass.

    Macro: sum (x - mean)^2 with x = h/|R|. Micro, a ratio of sums rho, linearised: sum (h - rho |R|)^2.
    """
    off_macro = "(g.own_macro - recall_macro)"
    off_micro = "(g.own_micro - recall_micro * g.r)"
    macro = f"so_far.macro + (g.within_macro + g.n * {off_macro} * {off_macro})"
    micro = f"so_far.micro + (g.within_micro + g.n * {off_micro} * {off_micro})"
    zero = "cast(0 as double)"
    return (
        f"aggregate(groups, struct({zero} as macro, {zero} as micro), "
        f"(so_far, g) -> struct({macro} as macro, {micro} as micro))"
    )


def standard_error(which: str, *, total: str) -> str:
    """SQL: se^2 = n/(n-1) * squares / total^2, total being n for macro recall and sum |R| for micro recall.

    Null when n < 2 or the total is 0.
    """
    return f"if(n >= 2, sqrt(try_divide(n * squares.{which}, (n - 1) * double({total}) * {total})), null)"


def interval(mean: str) -> tuple[str, str]:
    """Columns `mean`_low and `mean`_high: mean -+ z se, clipped to [0, 1]; null where the error is."""
    off = f"{Z_95!r}D * {mean}_error"
    return (
        f"if({mean}_error is null, null, greatest({mean} - {off}, 0D)) as {mean}_low",
        f"if({mean}_error is null, null, least({mean} + {off}, 1D)) as {mean}_high",
    )
