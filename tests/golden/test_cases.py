"""Worked cases from the articles and from other projects' issues, through the Python API.

Cases that share a protocol are computed in one job, each as the slice of its own queries; each is a test of its own.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recallk_spark import ContractError, Protocol, evaluate
from tests import frames

Case = dict[str, Any]

CASES: list[Case] = json.loads((Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))
VALUED = [case for case in CASES if "metrics" in case["expect"]]
REFUSED = [case for case in CASES if "error" in case["expect"]]


@pytest.fixture(scope="module")
def profiles(spark: SparkSession) -> dict[str, dict[int, dict[str, Any]]]:
    """The profile of every case by its name: the row at each k."""
    packs = defaultdict(list)
    for case in VALUED:
        packs[json.dumps(case["protocol"]), type(case["scores"][0][1]), alone(case)].append(case)
    profiles: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    answers = frames.side_by_side(lambda pack: frames.profile_rows(evaluated_together(spark, pack)), packs.values())
    for pack, answer in zip(packs.values(), answers, strict=True):
        for (_, name, value, k), row in answer.items():
            if name == "case":
                profiles[value][k] = row
            elif len(pack) == 1:
                profiles[pack[0]["name"]][k] = row
    return profiles


def alone(case: Case) -> str:
    """The case's name where it needs a job without a list of queries, because that list leaves no query unjudged."""
    return case["name"] if case["expect"]["counts"]["unjudged"] else ""


def evaluated_together(spark: SparkSession, pack: list[Case]):
    protocol = Protocol(cutoffs=[k for case in pack for k in case["cutoffs"]], **pack[0]["protocol"])
    scores, relevance, queries = [], [], {}
    for case in pack:
        scores += [("run", f"{case['name']}/{query}", *result) for query, *result in case["scores"]]
        relevance += [(f"{case['name']}/{query}", *label) for query, *label in case["relevance"]]
        queries |= {f"{case['name']}/{query}": case["name"] for query, *_ in case["relevance"]}
    listed = None if alone(pack[0]) else frames.queries(spark, queries.items(), columns=["case"])
    return evaluate(
        frames.scores(spark, scores),
        frames.relevance(spark, relevance),
        protocol=protocol,
        queries=listed,
        slices=() if listed is None else ("case",),
    )


def test_every_case_has_values_or_a_refusal() -> None:
    assert (len(CASES), len(VALUED) + len(REFUSED)) == (50, 50)


@pytest.mark.parametrize("case", VALUED, ids=[case["name"] for case in VALUED])
def test_the_profile_holds_the_values_of_the_case(profiles: dict, case: Case) -> None:
    for k in case["cutoffs"]:
        row = profiles[case["name"]][k]
        for name, value in case["expect"]["metrics"][str(k)].items():
            exact = value is None or isinstance(value, int)
            assert row[name] == (value if exact else pytest.approx(value, rel=0, abs=1e-9)), (k, name)
        for name, count in case["expect"]["counts"].items():
            assert row[name if name == "queries" else f"queries_{name}"] == count, (k, name)


@pytest.mark.parametrize("case", REFUSED, ids=[case["name"] for case in REFUSED])
def test_the_lazy_profile_and_the_report_carry_the_refusal(spark: SparkSession, case: Case) -> None:
    scores = frames.scores(spark, [("run", *row) for row in case["scores"]])
    relevance = frames.relevance(spark, map(tuple, case["relevance"]))
    evaluation = evaluate(scores, relevance, protocol=Protocol(cutoffs=case["cutoffs"], **case["protocol"]))
    profile = evaluation.profile()
    with pytest.raises(frames.SPARK_ERRORS, match=case["expect"]["error"]):
        profile.collect()
    with pytest.raises(ContractError, match=case["expect"]["error"]):
        evaluation.report()
