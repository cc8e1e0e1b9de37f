"""The oracle against values from outside: worked cases, golden hit counts, trec_eval's own output."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from recallk_spark.protocol import Protocol
from tests import oracle
from tests.golden.trec import column_of, hit_counts, printed, qrels_rows, run_rows

CASES = json.loads((Path(__file__).parents[1] / "golden" / "cases.json").read_text(encoding="utf-8"))
CUTOFFS = (1, 3, 5, 10, 20, 50, 100, 200, 500, 1000)


def evaluate(scores: list, relevance: list, queries: list | None = None, slices: tuple = (), **settings: Any):
    """The oracle's answer for (query, item, score[, rank]) rows of one run 'r'."""
    protocol = Protocol(**{"cutoffs": (1, 2, 3), **settings})
    rows = [("r", *row) for row in scores]
    return oracle.evaluate(rows, relevance, protocol, queries=queries, slices=slices)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_oracle_agrees_with_the_worked_case(case: dict[str, Any]) -> None:
    def answer():
        return evaluate(case["scores"], case["relevance"], cutoffs=case["cutoffs"], **case["protocol"])

    if "error" in case["expect"]:
        with pytest.raises(oracle.Refused, match=case["expect"]["error"]):
            answer()
        return
    profile = answer().profile
    for k, metrics in case["expect"]["metrics"].items():
        row = profile["r", "", "", int(k)]
        for name, value in metrics.items():
            assert row[name] == (value if value is None else pytest.approx(value, abs=1e-9)), (k, name)
        for name, count in case["expect"]["counts"].items():
            assert row[name if name == "queries" else f"queries_{name}"] == count, (k, name)


@pytest.fixture(scope="session")
def golden_pairs(golden: Path) -> list[dict[str, Any]]:
    return json.loads((golden / "golden_summary.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(7))
def test_the_oracle_agrees_with_the_golden_hit_counts_and_means(
    golden: Path, golden_pairs: list[dict[str, Any]], number: int
) -> None:
    pair = golden_pairs[number]
    folder, level = golden / pair["ds"], pair["level"]
    protocol = Protocol.from_settings({"cutoffs": CUTOFFS, "min_grade": level}, preset="trec_eval")
    scores, relevance = run_rows(folder / pair["run"]), qrels_rows(folder / pair["qrels"])
    result = oracle.evaluate(scores, relevance, protocol, depths=CUTOFFS)
    run = scores[0][0]

    expected = hit_counts(folder / f"golden_hits.{pair['run']}__{pair['qrels']}.l{level}.tsv")
    assert {query for _, query in result.per_query} == set(expected)
    for query, counts in expected.items():
        got = result.per_query[run, query]
        facts = {"judged": got.num_judged, "num_rel": got.num_relevant, "num_ret": got.num_retrieved}
        facts |= {f"hits@{k}": sum(rank <= k for rank in got.hits) for k in CUTOFFS}
        facts |= {f"judged@{k}": sum(rank <= k for rank in got.ranks) for k in CUTOFFS}
        assert facts == counts, query

    means = {
        "macro_c": "recall_macro",
        "micro_all_qrels": "recall_micro",
        "r_cap_c": "recall_capped_macro",
        "success_c": "hit_rate",
        "hits": "hits",
    }
    for k in CUTOFFS:
        row = result.profile[run, "", "", k]
        for theirs, ours in means.items():
            assert row[ours] == pytest.approx(pair[theirs][str(k)], rel=0, abs=1e-12), (k, theirs)
        assert row["queries"] == pair["qrels_queries"]
        assert row["queries_missing"] == pair["qrels_queries"] - pair["in_run"]
        assert row["queries_unjudged"] == pair["run_only_queries"]
        assert row["queries_no_relevant"] == pair["no_rel"]
        assert row["relevant"] == pair["total_rel"]


def test_the_oracle_agrees_with_what_trec_eval_printed(golden: Path) -> None:
    folder = golden / "trec_eval_test"
    cutoffs = (*CUTOFFS, 15, 30)
    protocol = Protocol.from_settings({"cutoffs": cutoffs, "min_grade": 2}, preset="trec_eval")
    scores, relevance = run_rows(folder / "results.test"), qrels_rows(folder / "qrels.rel_level")
    result = oracle.evaluate(scores, relevance, protocol, depths=cutoffs)
    means = {name: value for (name, query), value in printed(folder / "out.test.aql").items() if query == "all"}
    places = {name: column_of(name, depth=1000) for name in means}
    compared = {name: place for name, place in places.items() if place}
    assert len(compared) == 47
    for name, (column, k) in compared.items():
        row = result.profile["STANDARD", "", "", k]
        assert row[column] == pytest.approx(float(means[name]), rel=0, abs=0.000050001), name


# q1: one of two relevant items at rank 1; q2: nothing relevant; q3: absent; q4: absent and nothing relevant
STANDINGS = {
    "scores": [("q1", "a", 3.0), ("q2", "a", 3.0), ("q9", "a", 1.0)],
    "relevance": [("q1", "a", 1), ("q1", "b", 1), ("q2", "a", 0), ("q3", "a", 1), ("q4", "a", 0)],
}


@pytest.mark.parametrize(
    ("no_relevant", "missing_queries", "expected"),
    [  # (queries, queries_missing, recall_macro, recall_micro)
        ("exclude", "zero", (2, 1, 1 / 4, 1 / 3)),
        ("exclude", "exclude", (1, 1, 1 / 2, 1 / 2)),
        ("zero", "zero", (4, 2, 1 / 8, 1 / 3)),
        ("zero", "exclude", (2, 2, 1 / 4, 1 / 2)),
        ("one", "zero", (4, 2, 5 / 8, 1 / 3)),
        ("one", "exclude", (2, 2, 3 / 4, 1 / 2)),
    ],
)
def test_missing_and_label_less_queries_follow_their_policies(
    no_relevant: str, missing_queries: str, expected: tuple[int, int, float, float]
) -> None:
    result = evaluate(**STANDINGS, no_relevant=no_relevant, missing_queries=missing_queries)
    row = result.profile["r", "", "", 1]
    names = ("queries", "queries_missing", "recall_macro", "recall_micro")
    assert tuple(row[name] for name in names) == expected
    assert (row["queries_no_relevant"], row["queries_unjudged"]) == (2, 1)


@pytest.mark.parametrize("no_relevant", ["zero", "one", "exclude"])
def test_an_absent_query_with_nothing_relevant_is_refused_as_missing_only_where_it_is_not_left_out(
    no_relevant: str,
) -> None:
    table = {"scores": [("q1", "a", 1.0)], "relevance": [("q1", "a", 1), ("q2", "a", 0)]}
    if no_relevant == "exclude":
        assert evaluate(**table, no_relevant=no_relevant, missing_queries="error")
    else:
        with pytest.raises(oracle.Refused, match="missing"):
            evaluate(**table, no_relevant=no_relevant, missing_queries="error")


def test_a_query_that_lost_all_its_results_is_an_empty_list_and_not_missing() -> None:
    scores = [("q1", "a", math.nan), ("q2", "a", None)]
    relevance = [("q1", "a", 1), ("q2", "a", 1)]
    result = evaluate(scores, relevance, invalid_scores="drop", missing_queries="error")
    row = result.profile["r", "", "", 1]
    assert (row["queries"], row["queries_missing"], row["queries_short"], row["retrieved"]) == (2, 0, 2, 0)
    assert evaluate(scores, relevance, invalid_scores="last").profile["r", "", "", 1]["hits"] == 2


def test_listed_queries_without_labels_are_judged_and_unlisted_ones_leave_every_count() -> None:
    queries = [{"query_id": "q1", "land": "de"}, {"query_id": "q5", "land": None}]
    result = evaluate(**STANDINGS, queries=queries, slices=("land", "land*query_id"), no_relevant="zero")
    row = result.profile["r", "", "", 1]
    assert (row["queries"], row["queries_missing"], row["queries_no_relevant"]) == (2, 1, 1)
    assert row["queries_unjudged"] == 0
    assert {key[1:3] for key in result.profile} == {
        ("", ""),
        ("land", "de"),
        ("land", "(null)"),
        ("land*query_id", "de*q1"),
        ("land*query_id", "(null)*q5"),
    }


def test_intervals_follow_the_formula_and_are_null_below_two_queries() -> None:
    relevance = [("q1", "a", 1), ("q2", "a", 1), ("q2", "b", 1), ("q2", "c", 1)]
    row = evaluate([("q1", "a", 1.0), ("q2", "a", 1.0)], relevance).profile["r", "", "", 1]
    # recall 1 and 1/3: mean 2/3, se^2 = 2/1 * (1/9 + 1/9) / 4 = 1/9, so 2/3 +- z/3, clipped above
    assert row["recall_macro_low"] == pytest.approx(2 / 3 - 1.959963984540054 / 3, abs=1e-15)
    assert row["recall_macro_high"] == 1.0
    # rho = 2/4: se^2 = 2/1 * ((1 - 1/2)^2 + (1 - 3/2)^2) / 16 = 1/16
    assert row["recall_micro_low"] == pytest.approx(1 / 2 - 1.959963984540054 / 4, abs=1e-15)
    assert row["recall_micro_high"] == pytest.approx(1 / 2 + 1.959963984540054 / 4, abs=1e-15)
    alone = evaluate([("q1", "a", 1.0)], relevance[:1]).profile["r", "", "", 1]
    assert (alone["recall_macro_low"], alone["recall_micro_high"]) == (None, None)


def test_float32_makes_ties_of_what_double_tells_apart() -> None:
    table = {"scores": [("q", "a", 16777216.0), ("q", "b", 16777217.0)], "relevance": [("q", "a", 1)]}
    assert evaluate(**table).profile["r", "", "", 1]["hits"] == 0
    assert evaluate(**table, score_precision="float32").profile["r", "", "", 1]["hits"] == 1


@pytest.mark.parametrize(
    ("settings", "scores", "relevance", "word"),
    [
        ({"invalid_scores": "error"}, [("q", "a", math.nan)], [("q", "a", 1)], "score"),
        ({"tie_break": "rank"}, [("q", "a", 1.0, None)], [("q", "a", 1)], "rank"),
        ({"short_lists": "error"}, [("q", "a", 1.0)], [("q", "a", 1)], "short"),
        ({"unjudged_queries": "error"}, [("p", "a", 1.0)], [("q", "a", 1)], "unjudged"),
        ({"duplicate_relevance": "error"}, [("q", "a", 1.0)], [("q", "a", 1), ("q", "a", 1)], "label"),
        ({"gain": "exponential"}, [("q", "a", 1.0)], [("q", "a", 61)], "grade"),
        ({}, [("q", "a", 1.0)], [("q", "a", math.inf)], "grade"),
        ({}, [("q", None, 1.0)], [("q", "a", 1)], "null"),
    ],
)
def test_what_a_policy_forbids_is_refused(settings: dict, scores: list, relevance: list, word: str) -> None:
    with pytest.raises(oracle.Refused, match=word):
        evaluate(scores, relevance, **settings)


def test_a_repeat_below_depth_is_not_refused() -> None:
    scores = [("q", "a", 3.0), ("q", "b", 2.0), ("q", "a", 1.0)]
    assert evaluate(scores, [("q", "a", 1)], cutoffs=(2,), duplicates="error")
    with pytest.raises(oracle.Refused, match="duplicate"):
        evaluate(scores, [("q", "a", 1)], cutoffs=(3,), duplicates="error")
