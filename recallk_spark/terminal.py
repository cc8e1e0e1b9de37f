"""What the command line shows in a terminal: the table of an evaluation, and progress while it is made."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from recallk_spark.protocol import grade_text
from recallk_spark.report import HEADERS, Report, measure_text

# by importance: what does not fit a narrow terminal is left out from the end
_ORDER = (
    "recall_macro",
    "recall_micro",
    "ndcg",
    "precision_macro",
    "mrr",
    "map",
    "hit_rate",
    "f1_macro",
    "recall_capped_macro",
    "judged_macro",
)
_WIDE = 200  # columns, where the output is no terminal
_MAX_SLICE_ROWS = 60


def print_report(report: Report) -> None:
    """Run x measures at the cutoffs, slices at the largest one, the counts, the protocol in one line."""
    console = Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)
    names, left_out = _fitting(report, console.width)
    console.print(_main_table(report, names))
    if any(row["slice"] for row in report.rows):
        console.print(_slice_table(report))
    for line in report.count_lines():
        console.print(escape(line), soft_wrap=True)
    console.print(f"protocol: {escape(str(report.protocol))}", soft_wrap=True)
    if left_out:
        console.print(f"({', '.join(HEADERS[name] for name in left_out)}: in a wider terminal or with --format json)")


def _fitting(report: Report, width: int) -> tuple[list[str], list[str]]:
    """The measures whose columns fit, and those that do not; recall itself is always shown."""
    rows = report.at_cutoffs(total_only=True)
    used = max((len(str(row["run_id"])) for row in rows), default=3) + 3 + 8
    used += len("min_grade") + 3 if report.several_grades else 0
    shown: list[str] = []
    for place, name in enumerate(_ORDER):
        used += max([len(HEADERS[name]), *(len(measure_text(row, name)) for row in rows)]) + 3
        if used > width and place > 1:
            return shown, list(_ORDER[place:])
        shown.append(name)
    return shown, []


def _main_table(report: Report, names: list[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("run")
    if report.several_grades:
        table.add_column("min_grade", justify="right")
    table.add_column("k", justify="right")
    for name in names:
        table.add_column(escape(HEADERS[name]), justify="left" if "95" in HEADERS[name] else "right", no_wrap=True)
    previous = None
    for row in report.at_cutoffs(total_only=True):
        run = str(row["run_id"])
        grade = [grade_text(row["min_grade"])] if report.several_grades else []
        cells = [escape(measure_text(row, name)) for name in names]
        table.add_row(escape(run) if run != previous else "", *grade, f"{row['k']:,}", *cells)
        previous = run
    return table


def _slice_table(report: Report) -> Table:
    """Recall of every slice at the largest cutoff."""
    k = report.protocol.max_cutoff
    rows = [row for row in report.rows if row["slice"] and row["k"] == k]
    more = f" (the first {_MAX_SLICE_ROWS} of {len(rows):,} rows)" if len(rows) > _MAX_SLICE_ROWS else ""
    table = Table(
        box=None, pad_edge=False, padding=(0, 3, 0, 0), title=f"slices at k = {k:,}{more}", title_justify="left"
    )
    for name in ("run", *(["min_grade"] if report.several_grades else []), "slice", "value"):
        table.add_column(name, justify="right" if name == "min_grade" else "left")
    table.add_column("queries", justify="right")
    for name in ("recall_macro", "recall_micro"):
        table.add_column(escape(HEADERS[name]), no_wrap=True)
    for row in rows[:_MAX_SLICE_ROWS]:
        grade = [grade_text(row["min_grade"])] if report.several_grades else []
        place = [escape(str(row["run_id"])), *grade, *(escape(str(row[name])) for name in ("slice", "slice_value"))]
        measures = [escape(measure_text(row, name)) for name in ("recall_macro", "recall_micro")]
        table.add_row(*place, f"{row['queries']:,}", *measures)
    return table


@dataclass
class Progress:
    """The line that says which step runs, how far it is where Spark tells, and how long all took so far."""

    show: Callable[[str], None]
    step: str = "starting Spark"
    started: float = field(default_factory=time.monotonic)

    def __call__(self, step: str) -> None:
        """Says that a step begins."""
        self.step = step
        self._say("")

    def tasks(self, done: int, begun: int) -> None:
        """Says how many tasks of the step's job are done."""
        if begun:
            self._say(f"{done:,} of {begun:,} tasks, ")

    def _say(self, far: str) -> None:
        self.show(f"{self.step} ({far}{time.monotonic() - self.started:.0f} s so far)")


@contextmanager
def progress() -> Iterator[Progress]:
    """A line on stderr while the block runs; silent where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield Progress(lambda _: None)
        return
    with Console(stderr=True).status("starting Spark") as status:
        yield Progress(status.update)
