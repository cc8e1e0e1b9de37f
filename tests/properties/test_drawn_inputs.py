"""The library against the oracle on inputs that hypothesis draws, and makes small when they disagree.

One input is one job here, so there are few; `test_oracle_agreement` packs the hundreds.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from recallk_spark import Protocol
from tests import frames, oracle
from tests.properties.generated import CHOICES, GRADES, ITEMS, RUNS, SCORES, Input
from tests.properties.test_oracle_agreement import differences, evaluated

QUERIES = st.sampled_from(["q1", "q2", "q3"])
DRAWN_ITEMS = st.sampled_from(ITEMS["string"])
RESULTS = st.tuples(
    st.sampled_from(RUNS), QUERIES, DRAWN_ITEMS, st.sampled_from([*SCORES["double"], None]), st.integers(-3, 5)
)
LABELS = st.tuples(QUERIES, DRAWN_ITEMS, st.sampled_from(GRADES))
PROTOCOLS = st.builds(
    Protocol,
    cutoffs=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    **{name: st.sampled_from(values) for name, values in CHOICES.items()},
)


@settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    protocol=PROTOCOLS,
    scores=st.lists(RESULTS, min_size=1, max_size=20),
    relevance=st.lists(LABELS, min_size=1, max_size=10),
)
def test_what_hypothesis_draws_is_measured_or_refused_as_the_oracle_does(
    spark: SparkSession, protocol: Protocol, scores: list[tuple], relevance: list[tuple]
) -> None:
    drawn = Input(scores, relevance)
    for plan in ("window", "pruned") if protocol.duplicates == "occupy" else ("window",):
        evaluation = evaluated(spark, protocol, drawn, ids="string", score_type="double", plan=plan)
        try:
            expected = oracle.evaluate(scores, relevance, protocol)
        except oracle.Refused:
            with pytest.raises(frames.SPARK_ERRORS, match=r"= error|null or NaN"):
                evaluation.profile().collect()
        else:
            assert not differences(expected, evaluation, protocol)
