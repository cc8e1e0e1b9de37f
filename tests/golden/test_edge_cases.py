"""trec_eval's behaviour on 38 tiny odd files, and ours: the same, or different on purpose, each row with its why.

What trec_eval did stands in EXPECTED.txt beside the files; a row that says "same" takes its numbers from there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recallk_spark.cli import main
from tests.golden.trec import column_of

V10, V9 = "trec_eval 10", "trec_eval 9.0.8"
CUTOFFS = "1,2,3,5"
DEPTH = 5


@dataclass(frozen=True)
class Row:
    """One block of EXPECTED.txt under our command.

    Attributes:
        block: the block's name.
        files: qrels and run.
        verdict: "same" (means equal to those printed by `versions`) or "different: why".
        settings: protocol settings beside the preset.
        values: where the verdict is "different", our values, by run, column and k.
        refused: where we refuse, our exit code and a word of the message.
    """

    block: str
    files: tuple[str, str]
    verdict: str
    versions: tuple[str, ...] = (V10, V9)
    preset: str = "trec_eval"
    cutoffs: str = CUTOFFS
    depth: int = DEPTH
    settings: tuple[str, ...] = ()
    values: dict[tuple[str, str, int], Any] = field(default_factory=dict)
    refused: tuple[int, str] | None = None


TABLE = [
    Row("ties", ("q_tie", "r_tie"), "same"),
    Row("f32_tie", ("q_fp", "r_fp"), "same", versions=(V10,)),
    Row("f32_tie", ("q_fp", "r_fp"), "same", versions=(V9,), preset="trec_eval9"),
    Row("bigint_f32", ("q_bi", "r_bi"), "same", versions=(V10,)),
    Row("bigint_f32", ("q_bi", "r_bi"), "same", versions=(V9,), preset="trec_eval9"),
    Row(
        "missing_q",
        ("q_miss", "r_miss"),
        "same: refused, with our code for a refused input",
        versions=(V10,),
        settings=("missing_queries=error",),
        refused=(3, "missing"),
    ),
    Row(
        "missing_q",
        ("q_miss", "r_miss"),
        "same",
        versions=(V9,),
        settings=("missing_queries=exclude",),
    ),
    Row("missing_q_c", ("q_miss", "r_miss"), "same"),
    Row("extra_q", ("q_ex", "r_ex"), "same"),
    Row("no_rel", ("q_nr", "r_nr"), "same"),
    Row("dup_run", ("q_d", "r_d"), "same: refused", refused=(3, "duplicate")),
    Row("dup_run_M1", ("q_d", "r_d"), "same", cutoffs="1", depth=1),
    Row("dup_qrels", ("q_dd", "r_tie"), "same: refused", refused=(3, "label")),
    Row(
        "nan_inf_text",
        ("q_n", "r_n"),
        "different: atof makes 'abc' 0 and compares with NaN as it falls; a score that is no number is refused",
        refused=(3, "abc"),
    ),
    Row("neg_grade", ("q_neg", "r_neg"), "same"),
    Row(
        "neg_grade_J",
        ("q_neg", "r_neg"),
        "different: condensed lists (-J) come with unjudged_items, which is not offered yet",
        settings=("unjudged_items=condensed",),
        refused=(2, "unjudged_items"),
    ),
    Row(
        "all_neg",
        ("q_neg2", "r_neg"),
        "different: trec_eval fails where the first query has only negative grades; it is judged, |R| = 0",
        values={
            ("r", "recall_macro", 1): 0.0,
            ("r", "recall_micro", 1): None,
            ("r", "relevant", 1): 0,
            ("r", "queries", 1): 1,
            ("r", "queries_no_relevant", 1): 1,
        },
    ),
    Row("all_neg_2nd", ("q_st", "r_st"), "same"),
    Row(
        "neg_l0",
        ("q_neg", "r_neg"),
        "different: level 0 would make every judged item relevant; min_grade is above 0",
        settings=("min_grade=0",),
        refused=(2, "min_grade"),
    ),
    Row(
        "float_grade",
        ("q_fl", "r_fl"),
        "different: atol makes 1.9 one and 'high' zero; a grade that is no number is refused",
        refused=(3, "high"),
    ),
    Row("crlf", ("q_cr", "r_cr"), "same"),
    Row("5_columns", ("q_bi", "r_5"), "same: refused", refused=(3, "line")),
    Row(
        "blank_qrels_line",
        ("q_bl", "r_bi"),
        "different: blank lines are skipped and counted; q2 stands in the judgments and is missing",
        values={
            ("r", "recall_macro", 1): 0.5,
            ("r", "queries", 1): 2,
            ("r", "queries_missing", 1): 1,
        },
    ),
    Row(
        "docid_with_space",
        ("q_bi", "r_sp"),
        "different: trec_eval reads item 'my' at score 1; the line's rank 'doc' shows that its fields moved",
        refused=(3, "line"),
    ),
    Row("qid_051_vs_51", ("q_z", "r_z"), "same: refused, no query in common", refused=(3, "no query")),
    Row(
        "two_runids",
        ("q_bi", "r_2"),
        "different: trec_eval ranks both tags as one list and names the last; two tags are two runs",
        values={
            ("r1", "recall_macro", 1): 1.0,
            ("r1", "retrieved", 5): 1,
            ("r2", "recall_macro", 1): 0.0,
            ("r2", "retrieved", 5): 1,
        },
    ),
    Row("unicode_tie", ("q_u", "r_u"), "same"),
    Row("numeric_string_tie", ("q_u9", "r_u"), "same"),
    Row("empty_run", ("q_bi", "r_e"), "same: refused", refused=(3, "no score rows")),
    Row("k0", ("q_bi", "r_bi"), "same: refused", cutoffs="0", refused=(2, "cutoffs")),
    Row(
        "dup_k",
        ("q_bi", "r_bi"),
        "different: repeated cutoffs merge",
        cutoffs="5,5",
        values={("r", "recall_macro", 5): 1.0},
    ),
]


@pytest.fixture(scope="module")
def printed_means(golden: Path) -> dict[tuple[str, str], dict[str, float]]:
    """The means ('all' lines) that trec_eval printed, by block and version."""
    blocks: dict[tuple[str, str], dict[str, float]] = {}
    text = (golden / "edge_cases" / "EXPECTED.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("## "):
            name, version, _ = line.removeprefix("## ").split(" | ")
            means = blocks[name, version] = {}
        elif " all " in line and not line.startswith("runid"):
            measure, _, value = line.split(" ")
            means[measure] = float(value)
    return blocks


def test_every_block_of_trec_eval_has_its_row(printed_means: dict) -> None:
    assert {(row.block, version) for row in TABLE for version in row.versions} == set(printed_means)


def test_every_row_says_what_it_expects() -> None:
    for row in TABLE:
        if row.verdict == "same":
            assert (row.values, row.refused) == ({}, None)
        else:
            assert row.verdict.startswith(("same: refused", "different: "))
            assert bool(row.values) != bool(row.refused)


@pytest.mark.parametrize("row", TABLE, ids=[f"{row.block}-{row.versions[0]}" for row in TABLE])
def test_the_command_does_what_the_table_says(
    spark: SparkSession, golden: Path, printed_means: dict, capsys: pytest.CaptureFixture[str], row: Row
) -> None:
    qrels, run = (golden / "edge_cases" / name for name in row.files)
    arguments = [
        "evaluate",
        f"--scores=trec:{run}",
        f"--relevance=trec:{qrels}",
        f"--preset={row.preset}",
        f"--cutoffs={row.cutoffs}",
        f"--depth={row.depth}",
        "--format=json",
        *(f"--set=protocol.{setting}" for setting in row.settings),
    ]
    code = main(arguments)
    out, err = capsys.readouterr()
    if row.refused:
        expected_code, word = row.refused
        assert code == expected_code
        assert word in err
        return
    assert code == 0, err
    profile = {(one["run_id"], one["k"]): one for one in json.loads(out)["profile"]}
    for (run_id, column, k), value in row.values.items():
        assert profile[run_id, k][column] == value, (column, k)
    for version in row.versions if row.verdict == "same" else ():
        means = printed_means[row.block, version]
        assert means
        places = {name: column_of(name, depth=row.depth) for name in means}
        assert None not in places.values()
        for name, (column, k) in places.items():
            assert profile["r", k][column] == pytest.approx(means[name], abs=0.000050001), (name, version)
