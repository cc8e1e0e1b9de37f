"""The report: what a person sees of collected rows, as text, Markdown, HTML and pandas. No JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql.types import LongType

from recallk_spark.protocol import Protocol
from recallk_spark.report import MEASURES, Report, counts_line, measure_text
from recallk_spark.schema import PROFILE
from recallk_spark.terminal import print_report

NO_COUNTS = {"queries": 0, "queries_missing": 0, "queries_no_relevant": 0, "queries_unjudged": 0, "queries_short": 0}
COUNTS = {
    "queries": 43_000,
    "queries_missing": 1_200,
    "queries_no_relevant": 3,
    "queries_unjudged": 0,
    "queries_short": 1_201,
}


def row(
    run: str = "bm25", part: str = "", value: str = "", *, k: int, min_grade: float = 1.0, **measures: float | None
) -> dict[str, Any]:
    """A profile row with the given values; all other measures are null, all counts 0."""
    key = {"run_id": run, "relevance_set": "all", "min_grade": min_grade, "slice": part, "slice_value": value, "k": k}
    counts = dict.fromkeys((field.name for field in PROFILE if field.dataType == LongType()), 0)
    return {**dict.fromkeys(PROFILE.names), **counts, **key, **measures}


def test_rows_stand_by_run_slice_and_depth_whatever_their_order_was() -> None:
    rows = [
        row("b", k=1),
        row("a", "country", "de", k=2),
        row("a", "country", "de", k=1),
        row("a", "country", "at", k=10),
        row("a", k=10),
        row("a", k=2),
    ]
    report = Report.of(rows, protocol=Protocol(cutoffs=(1, 10)), counts={})
    keys = [(one["run_id"], one["slice_value"], one["k"]) for one in report.rows]
    assert keys == [("a", "", 2), ("a", "", 10), ("a", "at", 10), ("a", "de", 1), ("a", "de", 2), ("b", "", 1)]


def test_at_cutoffs_leaves_out_other_depths_and_on_request_the_slices() -> None:
    rows = [row(k=k) for k in range(1, 6)] + [row("bm25", "country", "de", k=k) for k in range(1, 6)]
    report = Report.of(rows, protocol=Protocol(cutoffs=(2, 4)), counts={})
    assert [(one["slice"], one["k"]) for one in report.at_cutoffs()] == [
        ("", 2),
        ("", 4),
        ("country", 2),
        ("country", 4),
    ]
    assert [(one["slice"], one["k"]) for one in report.at_cutoffs(total_only=True)] == [("", 2), ("", 4)]
    assert len(report.rows) == 10


def test_markdown_shows_measures_intervals_counts_protocol_and_warnings() -> None:
    rows = [
        row(k=1, recall_macro=0.25, recall_macro_low=0.1234, recall_macro_high=0.3766, recall_micro=0.5, map=0.00004),
        row("bm25", "country", "de", k=1, recall_macro=1.0, recall_micro=0.0, ndcg=1 / 3),
    ]
    report = Report.of(
        rows,
        protocol=Protocol(cutoffs=(1,), tie_break="item_desc"),
        counts={"bm25": COUNTS},
        warnings=["run 'bm25': few results meet a label"],
    )
    assert report.to_markdown().splitlines() == [
        "| run | slice | k | recall macro [95 %] | recall micro [95 %] | capped | precision | F1 | hit rate | MRR | MAP"
        " | nDCG | judged |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
        "| bm25 | all | 1 | 0.2500 [0.123, 0.377] | 0.5000 | - | - | - | - | - | 0.0000 | - | - |",
        "| bm25 | country = de | 1 | 1.0000 | 0.0000 | - | - | - | - | - | - | 0.3333 | - |",
        "",
        "- bm25: 43,000 queries counted, 1,200 missing, 3 with no relevant item, 0 unjudged, "
        "1,201 shorter than the largest k",
        "- protocol: grade>=1 depth=1 tie_break=item_desc",
        "- warning: run 'bm25': few results meet a label",
    ]


def test_of_several_min_grades_every_row_names_its_own_and_counts_the_lowest() -> None:
    rows = [row(name, k=1, min_grade=grade, map=grade / 10) for grade in (2.0, 1.0, 1.5) for name in ("b", "a")]
    protocol = Protocol(cutoffs=(1,), min_grade=(1, 1.5, 2))
    report = Report.of(rows, protocol=protocol, counts={"a": COUNTS, "b": COUNTS})
    lines = report.to_markdown().splitlines()
    assert lines[0].startswith("| run | min_grade | slice | k | recall macro [95 %] |")
    assert [line.split(" | ")[:4] + line.split(" | ")[11:12] for line in lines[2:8]] == [
        ["| a", "1", "all", "1", "0.1000"],
        ["| a", "1.5", "all", "1", "0.1500"],
        ["| a", "2", "all", "1", "0.2000"],
        ["| b", "1", "all", "1", "0.1000"],
        ["| b", "1.5", "all", "1", "0.1500"],
        ["| b", "2", "all", "1", "0.2000"],
    ]
    assert lines[9].startswith("- a, min_grade 1: 43,000 queries counted, 1,200 missing")
    assert lines[11].startswith("- protocol: grade>=1,1.5,2 depth=1")
    page = report._repr_html_()
    assert "<th>min_grade</th><th>slice</th>" in page
    assert "<td>b</td><td>1.5</td><td>all</td>" in page
    assert page.count("<td>") == page.count("<tr>") * page.count("<th>") - page.count("<th>")
    assert report.to_pandas()["min_grade"].tolist() == [1.0, 1.5, 2.0] * 2


def test_a_terminal_shows_min_grade_where_there_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*grades: float) -> list[str]:
        rows = [
            row("bm25", part, value, k=k, min_grade=grade, recall_macro=k / 10)
            for grade in grades
            for part, value in [("", ""), ("country", "de")]
            for k in (1, 5)
        ]
        protocol = Protocol(cutoffs=(1, 5), min_grade=grades)
        print_report(Report.of(rows, protocol=protocol, counts={"bm25": COUNTS}))
        return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    lines = printed(1, 2.5)
    assert lines[0].startswith("run min_grade k recall macro [95 %]")
    assert [line.split()[:4] for line in lines[1:5]] == [
        ["bm25", "1", "1", "0.1000"],
        ["1", "5", "0.5000", "-"],
        ["2.5", "1", "0.1000", "-"],
        ["2.5", "5", "0.5000", "-"],
    ]
    assert lines[6].startswith("run min_grade slice value queries")
    assert [line.split()[:4] for line in lines[7:9]] == [
        ["bm25", "1", "country", "de"],
        ["bm25", "2.5", "country", "de"],
    ]
    assert lines[9].startswith("bm25, min_grade 1: 43,000 queries counted")
    one = printed(2.5)
    assert one[0].startswith("run k recall macro")
    assert not any("min_grade" in line for line in one)
    assert any(line.startswith("bm25: 43,000 queries counted") for line in one)


def test_a_sign_of_markdown_in_a_name_breaks_no_table() -> None:
    report = Report.of([row("a|b", k=1)], protocol=Protocol(cutoffs=(1,)), counts={})
    head, _, line = report.to_markdown().splitlines()[:3]
    assert line.replace(r"\|", "").count("|") == head.count("|")


def test_a_null_measure_is_a_dash_and_a_zero_is_a_zero() -> None:
    assert measure_text(row(k=1), "recall_macro") == "-"
    assert measure_text(row(k=1, recall_macro=0.0), "recall_macro") == "0.0000"
    assert measure_text(row(k=1, ndcg=0.12345), "ndcg") == "0.1235"


def test_an_interval_that_starts_at_zero_is_shown() -> None:
    cells = row(k=1, recall_micro=0.1, recall_micro_low=0.0, recall_micro_high=0.25)
    assert measure_text(cells, "recall_micro") == "0.1000 [0.000, 0.250]"


def test_html_escapes_what_came_from_the_input() -> None:
    name, part = "<script>alert(1)</script>", "a&b"
    report = Report.of(
        [row(name, "country", part, k=1)],
        protocol=Protocol(cutoffs=(1,), candidates="<b>all</b>"),
        counts={name: COUNTS},
        warnings=["<i>odd</i>"],
    )
    page = report._repr_html_()
    assert "<script" not in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "country = a&amp;b" in page


def test_html_has_a_header_and_a_cell_for_every_measure_of_every_cutoff() -> None:
    report = Report.of([row(k=k) for k in (1, 2, 3)], protocol=Protocol(cutoffs=(1, 3)), counts={})
    page = report._repr_html_()
    assert page.count("<th>") == 3 + len(MEASURES)
    assert page.count("<tr>") == 1 + 2
    assert page.count("<td>") == 2 * (3 + len(MEASURES))


def test_the_written_page_stands_alone_and_keeps_its_letters(tmp_path: Path) -> None:
    report = Report.of([row("prüfung", k=1)], protocol=Protocol(cutoffs=(1,)), counts={})
    report.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "charset='utf-8'" in page
    assert "<td>prüfung</td>" in page
    assert "http" not in page
    assert "src=" not in page


def test_pandas_gets_every_depth_with_columns_of_the_profile() -> None:
    rows = [row(k=k, recall_macro=k / 10, ndcg=None if k == 2 else 0.5) for k in (3, 1, 2)]
    frame = Report.of(rows, protocol=Protocol(cutoffs=(1, 3)), counts={}).to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == PROFILE.names
    assert frame["k"].tolist() == [1, 2, 3]
    assert frame["recall_macro"].tolist() == [0.1, 0.2, 0.3]
    assert frame["ndcg"].isna().tolist() == [False, True, False]
    assert frame["ndcg"].dtype == float


def test_a_measure_that_is_null_everywhere_is_still_a_column_of_numbers_in_pandas() -> None:
    frame = Report.of([row(k=1)], protocol=Protocol(cutoffs=(1,)), counts={}).to_pandas()
    assert frame["recall_macro_low"].dtype == float


def test_a_report_without_rows_still_prints_its_protocol() -> None:
    report = Report.of([], protocol=Protocol(), counts={"run": NO_COUNTS})
    assert report.to_markdown().splitlines()[3:] == [
        "- run: 0 queries counted, 0 missing, 0 with no relevant item, 0 unjudged, 0 shorter than the largest k",
        "- protocol: grade>=1 depth=100 (other settings: default)",
    ]
    assert "<tbody></tbody>" in report._repr_html_()


def test_other_counts_are_said_when_they_are_not_zero() -> None:
    line = counts_line({**COUNTS, "duplicate_results": 1_000, "invalid_scores": 2, "conflicting_labels": 0})
    assert line.endswith("1,201 shorter than the largest k, 1,000 duplicate results, 2 invalid scores")
