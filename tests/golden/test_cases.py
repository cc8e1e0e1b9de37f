"""Worked cases from the articles and from other projects' issues, through the Python API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from recallk_spark import ContractError, Protocol, evaluate
from tests import frames

CASES = json.loads((Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))
VALUED = [case for case in CASES if "metrics" in case["expect"]]
REFUSED = [case for case in CASES if "error" in case["expect"]]


def evaluation_of(spark: SparkSession, case: dict[str, Any]):
    """The case's evaluation: one job of two partitions when it is collected."""
    scores = frames.scores(spark, [("run", *row) for row in case["scores"]])
    relevance = frames.relevance(spark, map(tuple, case["relevance"]))
    return evaluate(scores, relevance, protocol=Protocol(cutoffs=case["cutoffs"], **case["protocol"]))


def test_every_case_has_values_or_a_refusal() -> None:
    assert (len(CASES), len(VALUED) + len(REFUSED)) == (50, 50)


@pytest.mark.parametrize("case", VALUED, ids=[case["name"] for case in VALUED])
def test_the_profile_holds_the_values_of_the_case(spark: SparkSession, case: dict[str, Any]) -> None:
    profile = frames.profile_rows(evaluation_of(spark, case))
    assert set(profile) == {("run", "", "", k) for k in range(1, max(case["cutoffs"]) + 1)}
    for k in case["cutoffs"]:
        row = profile["run", "", "", k]
        for name, value in case["expect"]["metrics"][str(k)].items():
            exact = value is None or isinstance(value, int)
            assert row[name] == (value if exact else pytest.approx(value, rel=0, abs=1e-9)), (k, name)
        for name, count in case["expect"]["counts"].items():
            assert row[name if name == "queries" else f"queries_{name}"] == count, (k, name)


@pytest.mark.parametrize("case", REFUSED, ids=[case["name"] for case in REFUSED])
def test_the_lazy_profile_carries_the_refusal(spark: SparkSession, case: dict[str, Any]) -> None:
    profile = evaluation_of(spark, case).profile()
    with pytest.raises(PySparkException, match=case["expect"]["error"]):
        profile.collect()


@pytest.mark.parametrize("case", REFUSED, ids=[case["name"] for case in REFUSED])
def test_the_report_raises_the_refusal(spark: SparkSession, case: dict[str, Any]) -> None:
    evaluation = evaluation_of(spark, case)
    with pytest.raises(ContractError, match=case["expect"]["error"]):
        evaluation.report()
