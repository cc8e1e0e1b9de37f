"""What a person sees of an evaluation: small collected tables, printed or written. No Spark in here."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from recallk_spark.protocol import Protocol, grade_text

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, Any]

_WITH_INTERVAL = ("recall_macro", "recall_micro")
_PLAIN = ("recall_capped_macro", "precision_macro", "f1_macro", "hit_rate", "mrr", "map", "ndcg", "judged_macro")
MEASURES = (*_WITH_INTERVAL, *_PLAIN)
HEADERS = {
    "recall_macro": "recall macro [95 %]",
    "recall_micro": "recall micro [95 %]",
    "recall_capped_macro": "capped",
    "precision_macro": "precision",
    "f1_macro": "F1",
    "hit_rate": "hit rate",
    "mrr": "MRR",
    "map": "MAP",
    "ndcg": "nDCG",
    "judged_macro": "judged",
}


@dataclass(frozen=True)
class Report:
    """A collected evaluation.

    Attributes:
        rows: the profile, one mapping per run, min_grade, slice and k, at every depth.
        protocol: the settings the numbers were made under.
        counts: per run, the counts that say whether to believe the numbers, at the lowest min_grade.
        warnings: what is allowed but probably not meant.
    """

    rows: tuple[Row, ...]
    protocol: Protocol
    counts: Mapping[str, Mapping[str, int]]
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        rows: Sequence[Row],
        *,
        protocol: Protocol,
        counts: Mapping[str, Mapping[str, int]],
        warnings: Sequence[str] = (),
    ) -> Report:
        """A report of profile rows in any order."""
        key = ("run_id", "min_grade", "slice", "slice_value", "k")
        ordered = sorted(rows, key=lambda row: tuple(row[name] for name in key))
        return cls(tuple(ordered), protocol, counts, tuple(warnings))

    def at_cutoffs(self, *, total_only: bool = False) -> list[Row]:
        """The rows at the cutoffs, by run, min_grade, slice and k."""
        cutoffs = set(self.protocol.cutoffs)
        return [row for row in self.rows if row["k"] in cutoffs and not (total_only and row["slice"])]

    def to_pandas(self) -> pd.DataFrame:
        """The whole profile as a pandas frame, one row per run, min_grade, slice and k (needs pandas)."""
        table = pa.Table.from_pylist([dict(row) for row in self.rows])
        for place, column in enumerate(table.schema):
            if pa.types.is_null(column.type):  # a measure that is null everywhere
                table = table.set_column(place, column.name, table.column(place).cast(pa.float64()))
        frame: pd.DataFrame = table.to_pandas()
        return frame

    def to_markdown(self) -> str:
        """The table at the cutoffs, the counts and the protocol, as Markdown."""
        head = self._head()
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        lines += ["| " + " | ".join(_in_a_cell(text) for text in cells) + " |" for cells in self._cells()]
        return "\n".join([*lines, "", *(f"- {line}" for line in self.notes())]) + "\n"

    def to_html(self, path: str | Path) -> None:
        """Writes the table, the counts and the protocol as one self-contained page."""
        style = "body{font-family:sans-serif}td,th{padding:.2em .6em;text-align:right}"
        page = f"<!doctype html><meta charset='utf-8'><title>Recall at k</title><style>{style}</style>"
        Path(path).write_text(page + self._repr_html_(), encoding="utf-8")

    def notes(self) -> list[str]:
        """The counts of each run, the protocol and the warnings, a line each."""
        return [*self.count_lines(), f"protocol: {self.protocol}", *(f"warning: {text}" for text in self.warnings)]

    def count_lines(self) -> list[str]:
        """The counts of each run, a line each, which names the min_grade they are of where there are several."""
        where = f", min_grade {grade_text(self.protocol.min_grades[0])}" if self.several_grades else ""
        return [f"{run}{where}: {counts_line(counts)}" for run, counts in sorted(self.counts.items())]

    @property
    def several_grades(self) -> bool:
        """Whether the tables have a column min_grade."""
        return len(self.protocol.min_grades) > 1

    def _head(self) -> list[str]:
        grade = ["min_grade"] if self.several_grades else []
        return ["run", *grade, "slice", "k", *(HEADERS[name] for name in MEASURES)]

    def _cells(self) -> list[list[str]]:
        cells = []
        for row in self.at_cutoffs():
            part = f"{row['slice']} = {row['slice_value']}" if row["slice"] else "all"
            grade = [grade_text(row["min_grade"])] if self.several_grades else []
            measures = [measure_text(row, name) for name in MEASURES]
            cells.append([str(row["run_id"]), *grade, part, str(row["k"]), *measures])
        return cells

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(text)}</th>" for text in self._head())
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in cells) + "</tr>" for cells in self._cells()
        )
        notes = "".join(f"<li>{html.escape(line)}</li>" for line in self.notes())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><ul>{notes}</ul>"


def _in_a_cell(text: str) -> str:
    """Text that does not end its cell or line of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")


def measure_text(row: Row, name: str) -> str:
    """A measure to four digits, with its interval where it has one; '-' where it is null."""
    value = row[name]
    if value is None:
        return "-"
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    interval = f" [{low:.3f}, {high:.3f}]" if low is not None and high is not None else ""
    return f"{value:.4f}{interval}"


def counts_line(counts: Mapping[str, int]) -> str:
    """The five counts in words, then every other count that is not 0."""
    first = [
        f"{counts['queries']:,} queries counted",
        f"{counts['queries_missing']:,} missing",
        f"{counts['queries_no_relevant']:,} with no relevant item",
        f"{counts['queries_unjudged']:,} unjudged",
        f"{counts['queries_short']:,} shorter than the largest k",
    ]
    shown = {"queries_unlisted", "duplicate_results", "duplicate_labels", "conflicting_labels", "invalid_scores"}
    others = [f"{counts[name]:,} {name.replace('_', ' ')}" for name in sorted(shown) if counts.get(name)]
    return ", ".join([*first, *others])
