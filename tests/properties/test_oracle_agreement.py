"""The library against the oracle: over three hundred generated inputs, every policy in play, every column.

Inputs that share a protocol are packed into one job: each is a slice of its own, named by the slice column
`case`. Others are jobs of their own, without a queries table, and compare the rows over all queries.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recallk_spark import Protocol, evaluate
from recallk_spark.grid import BLOCK
from recallk_spark.schema import PROFILE
from tests import frames, oracle
from tests.properties.generated import CHOICES, ITEMS, SCORES, Input, joined, protocols, some_inputs
from tests.quick import COMPILED

PACKS, INPUTS_PER_PACK = 10, 31
WHOLES = 4
COMPILED_PACKS = (0, 1)
SLICES = ("case", "case*land")
COUNTS = {name for name in PROFILE.names if name.startswith(("queries", "hits", "relevant", "retrieved"))}


@pytest.mark.parametrize("seed", range(PACKS))
def test_every_slice_agrees_with_the_oracle(spark: SparkSession, seed: int) -> None:
    protocol, packed, kinds = pack(seed)
    together = joined(packed)
    expected = oracle.evaluate(together.scores, together.relevance, protocol, queries=together.queries, slices=SLICES)
    with frames.settings(spark, COMPILED if seed in COMPILED_PACKS else {}):
        found = differences(expected, evaluated(spark, protocol, together, **kinds), protocol)
    assert not found, explained(found, protocol, packed, kinds)


@pytest.mark.parametrize("seed", range(PACKS))
def test_the_lists_of_counting_agree_with_the_oracle(spark: SparkSession, seed: int) -> None:
    # the profile is made from the lists of either plan by the same frames; `a_whole_input` compares it too
    protocol, packed, kinds = pack(seed)
    protocol = dataclasses.replace(protocol, duplicates="occupy")
    together = joined(packed)
    expected = oracle.evaluate(together.scores, together.relevance, protocol, queries=together.queries, depths=(1,))
    with frames.settings(spark, COMPILED if seed in COMPILED_PACKS else {}):
        counted = evaluated(spark, protocol, together, plan="pruned", **kinds)
        found = per_query_differences(expected, counted, protocol)
    assert not found, explained(found, protocol, packed, kinds)


@pytest.mark.parametrize("seed", range(WHOLES))
def test_a_whole_input_agrees_with_the_oracle(spark: SparkSession, seed: int) -> None:
    protocol, whole, kinds = a_whole(seed)
    expected = oracle.evaluate(whole.scores, whole.relevance, protocol)
    for plan in ("window", "pruned") if protocol.duplicates == "occupy" else ("window",):
        found = differences(expected, evaluated(spark, protocol, whole, plan=plan, **kinds), protocol)
        assert not found, explained(found, protocol, [whole], kinds)


@pytest.mark.parametrize("missing", ["zero", "exclude"])
@pytest.mark.parametrize("depth", [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 44])
def test_depths_of_several_blocks_agree_with_the_oracle(spark: SparkSession, depth: int, missing: str) -> None:
    protocol = Protocol(cutoffs=(1, BLOCK - 1), depth=depth, missing_queries=missing)
    given, kinds = long_lists(), {"ids": "bigint", "score_type": "int"}
    expected = oracle.evaluate(given.scores, given.relevance, protocol)
    found = profile_differences(expected, evaluated(spark, protocol, given, **kinds), protocol)
    assert not found, explained(found, protocol, [given], kinds)


@pytest.mark.parametrize("policy", [name for name, values in CHOICES.items() if "error" in values])
def test_what_the_oracle_refuses_is_refused(spark: SparkSession, policy: str) -> None:
    protocol, refused, kinds = a_refused_input(policy)
    evaluation = evaluated(spark, protocol, refused, **kinds)
    with pytest.raises(frames.SPARK_ERRORS, match=policy):
        evaluation.profile().collect()


def test_a_slice_is_what_its_queries_are_alone() -> None:
    for seed in range(PACKS):
        protocol, packed, _ = pack(seed)
        together = joined(packed)
        answer = oracle.evaluate(
            together.scores, together.relevance, protocol, queries=together.queries, slices=("case",)
        )
        for number, one in enumerate(packed):
            alone = oracle.evaluate(one.scores, one.relevance, protocol, queries=one.queries)
            for grade, rows in alone.profiles.items() if one.queries else ():
                for (run, _, _, k), row in rows.items():
                    assert answer.profiles[grade][run, "case", str(number), k] == row


def test_every_policy_is_in_play() -> None:
    packed = [pack(seed)[0] for seed in range(PACKS)]
    assert INPUTS_PER_PACK * PACKS > 300
    for name, values in CHOICES.items():
        assert {getattr(protocol, name) for protocol in packed} == set(values), name


@cache
def pack(seed: int) -> tuple[Protocol, list[Input], dict[str, str]]:
    rng = Random(f"pack {seed}")
    protocol, kinds = protocols(Random("packs"), PACKS)[seed], kinds_of(seed)
    return protocol, some_inputs(rng, protocol, INPUTS_PER_PACK, **kinds, listed=True), kinds


def a_whole(seed: int) -> tuple[Protocol, Input, dict[str, str]]:
    rng = Random(f"whole {seed}")
    protocol, kinds = protocols(Random("wholes"), WHOLES)[seed], kinds_of(seed)
    return protocol, some_inputs(rng, protocol, 1, **kinds, listed=False)[0], kinds


@cache
def long_lists() -> Input:
    """A few lists that end before, at and after the borders of blocks, with few and many hits; one is missing."""
    rng = Random("long lists")
    given = Input()
    for query, length in enumerate((0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 90)):
        scores = [(run, query, item, rng.randrange(50), 0) for run in ("r1", "r2") for item in range(length)]
        given.scores += scores
        items = rng.sample(range(2 * BLOCK + 120), (1, 3, 3, 40)[query % 4])
        given.relevance += [(query, item, rng.choice((0, 1, 2))) for item in items] + [(query, 1, 1)]
    return given


def a_refused_input(policy: str) -> tuple[Protocol, Input, dict[str, str]]:
    """An input that one policy refuses, among many good rows."""
    rng = Random(f"refused by {policy}")
    lenient, kinds = Protocol(cutoffs=(1, 3), invalid_scores="last"), {"ids": "string", "score_type": "double"}
    strict = dataclasses.replace(lenient, **{policy: "error"})
    while True:
        drawn = joined(some_inputs(rng, lenient, 4, **kinds, listed=False))
        try:
            oracle.evaluate(drawn.scores, drawn.relevance, strict)
        except oracle.Refused:
            return strict, drawn, kinds


def kinds_of(seed: int) -> dict[str, str]:
    return {"ids": list(ITEMS)[seed % len(ITEMS)], "score_type": list(SCORES)[seed % len(SCORES)]}


def evaluated(
    spark: SparkSession, protocol: Protocol, given: Input, *, ids: str, score_type: str, plan: str = "window"
) -> Any:
    types = {"query_type": ids, "item_type": ids}
    queries = None
    if given.queries is not None:
        rows = [(row["query_id"], row["case"], row["land"]) for row in given.queries]
        queries = frames.queries(spark, rows, columns=("case", "land"), query_type=ids)
    return evaluate(
        frames.scores(spark, given.scores, score_type=score_type, **types),
        frames.relevance(spark, given.relevance, **types),
        protocol=protocol,
        queries=queries,
        slices=SLICES if queries is not None else (),
        plan=plan,
    )


def differences(expected: oracle.Result, evaluation: Any, protocol: Protocol) -> list[tuple]:
    """(table, key, column, oracle's value, Spark's value) wherever the two differ."""
    found = frames.side_by_side(
        lambda of_table: of_table(expected, evaluation, protocol), (profile_differences, per_query_differences)
    )
    return [one for of_table in found for one in of_table]


def profile_differences(expected: oracle.Result, evaluation: Any, protocol: Protocol) -> list[tuple]:
    got = frames.profiles(evaluation)
    assert list(expected.profiles) == sorted(got)
    found = []
    for grade, rows in expected.profiles.items():
        profile = {key: {**row, **named(PROFILE, key)} for key, row in rows.items()}
        found += compared("profile", profile, got[grade])
    return found


def per_query_differences(expected: oracle.Result, evaluation: Any, protocol: Protocol) -> list[tuple]:
    per_query = {
        (run, query): {
            "run_id": run,
            "query_id": query,
            "relevance_set": "all",
            "in_run": q.in_run,
            "counted": q.counted,
            "num_relevant": q.num_relevant,
            "num_judged": q.num_judged,
            "num_retrieved": q.num_retrieved,
            "ranks": q.ranks,
            "grades": q.grades,
            "ideal_grades": q.ideal[: protocol.depth],
            "fingerprint": protocol.fingerprint,
        }
        for (run, query), q in expected.per_query.items()
    }
    return list(compared("per_query", per_query, frames.per_query_rows(evaluation)))


def named(schema: Any, key: tuple) -> dict[str, Any]:
    return dict(zip(("run_id", "slice", "slice_value", "k"), key, strict=True))


def compared(table: str, expected: dict, got: dict):
    for key in expected.keys() ^ got.keys():
        yield table, key, "(row)", key in expected, key in got
    for key in expected.keys() & got.keys():
        for column, value in expected[key].items():
            ours = got[key][column]
            if column in COUNTS or not isinstance(value, float) or ours is None:
                same = ours == value and type(ours) is type(value)
            else:
                same = abs(ours - value) <= 1e-12
            if not same:
                yield table, key, column, value, ours


def explained(found: list[tuple], protocol: Protocol, packed: list[Input], kinds: dict[str, str]) -> str:
    lines = [f"{len(found)} differences under {protocol.settings()} with {kinds}"]
    lines += ["{}{}.{}: oracle {!r}, Spark {!r}".format(*one) for one in found[:8]]
    numbers = {key[2].split("*")[0] for table, key, *_ in found if table == "profile" and key[1]}
    lines += [f"input {n}: {packed[int(n)]}" for n in sorted(numbers)[:1]] or [str(packed[0])]
    return "\n".join(lines)
