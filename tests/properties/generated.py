"""Seeded inputs full of what goes wrong: ties, repeats, gaps, empties, odd ids, odd scores, odd grades.

A Spark job costs a second, so inputs are packed by the dozen into one job, and what such a pack needs is a plain
generator with a seed (`test_drawn_inputs` lets hypothesis draw). A failing test names the one input that differs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

from recallk_spark.protocol import Protocol
from tests import oracle

ITEMS: dict[str, list[Any]] = {
    # the last two change places when UTF-16 units are compared instead of UTF-8 bytes
    "string": ["a", "B", "b", "10", "9", "007", "7", " a", "", "é", "z", "msmarco#1", "\uff5a", "\U0001f600"],
    "bigint": [0, -1, 7, 9, 10, 51, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)],
}
SCORES: dict[str, list[Any]] = {
    "double": [0.0, -0.0, 1.0, 2.5, -1.0, math.inf, -math.inf, 16777216.0, 16777217.0, 0.1, 1e308, 5e-324],
    "float": [0.0, -0.0, 1.0, 2.5, -1.0, math.inf, -math.inf, 16777216.0, 0.5, 2.0**-149],
    "decimal(20,6)": [Decimal(text) for text in ("0", "1", "1.000001", "-1", "16777216", "16777217", "0.1")],
    "bigint": [0, 1, -1, 2**53, 2**53 + 1, 16777216, 16777217, 2**63 - 1, -(2**63)],
    "int": [0, 1, 2, -1, 16777216, 16777217, 2**31 - 1],
}
GRADES = [0, 0, 1, 1, 1, 2, 3, 0.5, 0.7, 1.5, -1, -2, 0.001]
RUNS = ("r1", "r2", "ü")
LANDS = ("de", "fr", "", None)
# every value as often as it is to be drawn: what refuses leaves less to compare
CHOICES: dict[str, tuple[Any, ...]] = {
    "score_order": ("desc", "desc", "asc"),
    "score_precision": ("native", "native", "float32"),
    "tie_break": ("item_asc", "item_desc", "rank"),
    "duplicates": ("occupy", "collapse", "occupy", "collapse", "error"),
    "duplicate_relevance": ("max", "max", "max", "error"),
    "invalid_scores": ("error", "drop", "last"),
    "short_lists": ("allow", "allow", "allow", "allow", "allow", "error"),
    "no_relevant": ("exclude", "zero", "one", "exclude", "zero", "one", "error"),
    "missing_queries": ("zero", "exclude", "zero", "exclude", "error"),
    "unjudged_queries": ("ignore", "ignore", "error"),
    "gain": ("linear", "exponential"),
    "min_grade": (1, (0.5, 1, 2), 0.7, (0.7, 1.5), (1, 2)),
}


@dataclass
class Input:
    """Scores (run, query, item, score, rank), relevance (query, item, grade), and the listed queries."""

    scores: list[tuple] = field(default_factory=list)
    relevance: list[tuple] = field(default_factory=list)
    queries: list[dict[str, Any]] | None = None


def protocols(rng: Random, count: int) -> list[Protocol]:
    """Protocols in which every value of every setting takes its turn, in combinations drawn at random."""
    drawn: dict[str, list[Any]] = {}
    for name, values in CHOICES.items():
        drawn[name] = [values[number % len(values)] for number in range(count)]
        rng.shuffle(drawn[name])
    made = []
    for number in range(count):
        cutoffs = rng.sample((1, 2, 3, 4, 5, 7, 9, 11), rng.randint(1, 3))
        depth = max(cutoffs) + rng.choice((0, 0, 1, 3))
        settings = {name: values[number] for name, values in drawn.items()}
        made.append(Protocol(cutoffs=cutoffs, depth=depth, **settings))
    return made


def some_inputs(rng: Random, protocol: Protocol, count: int, *, ids: str, score_type: str, listed: bool) -> list[Input]:
    """Inputs with queries of their own, which the protocol accepts each alone and all together."""
    inputs: list[Input] = []
    for number in range(count):
        for attempt in range(100):
            drawn = _draw(rng, protocol, number=number, ids=ids, score_type=score_type, listed=listed)
            if attempt > 20:
                _soften(drawn, protocol)
            if protocol.missing_queries == "error" or protocol.short_lists == "error":
                _complete(rng, drawn, protocol, ids=ids, score_type=score_type)
            if _accepted(joined([*inputs, drawn]), protocol):
                inputs.append(drawn)
                break
        else:
            raise AssertionError(f"no input that {protocol} accepts in 100 tries")
    return inputs


def joined(inputs: list[Input]) -> Input:
    """All the inputs as one."""
    listed = [one.queries for one in inputs if one.queries is not None]
    return Input(
        [row for one in inputs for row in one.scores],
        [row for one in inputs for row in one.relevance],
        [row for rows in listed for row in rows] if listed else None,
    )


def _accepted(given: Input, protocol: Protocol) -> bool:
    try:
        oracle.evaluate(given.scores, given.relevance, protocol, queries=given.queries, depths=(1,))
    except oracle.Refused:
        return False
    return bool(given.scores)  # a run is known by its rows


def _draw(rng: Random, p: Protocol, *, number: int, ids: str, score_type: str, listed: bool) -> Input:
    pool = rng.sample(ITEMS[ids], rng.randint(1, 8))
    values: list[Any] = rng.sample(SCORES[score_type], rng.randint(1, 6))
    if p.tie_break == "rank" or p.invalid_scores != "error":
        values.append(None)
        values += [math.nan] if score_type in ("double", "float") else []
    drawn = Input(queries=[] if listed else None)
    for query in range(rng.randint(1, 5) if listed else rng.randint(2, 9)):
        key = f"{number}:{query}é" if ids == "string" else 2**53 + 100 * number + query
        scored = values
        if drawn.queries is not None and rng.random() < 0.85:
            drawn.queries.append({"query_id": key, "case": str(number), "land": rng.choice(LANDS)})
        elif drawn.queries is not None:
            scored = [*values, None]  # a query that is not listed does not exist: nothing in it is refused
        if rng.random() < 0.85:
            for _ in range(rng.randint(1, 8)):
                drawn.relevance.append((key, rng.choice(pool), rng.choice(GRADES)))
        for run in RUNS[: rng.randint(1, 3)]:
            for _ in range(rng.choice((0, 1, 3, 6, 12))):
                rank = rng.choice((1, 2, 2, 3, 5, 100, 0, -3))
                drawn.scores.append((run, key, rng.choice(pool), rng.choice(scored), rank))
    rng.shuffle(drawn.scores)
    rng.shuffle(drawn.relevance)
    return drawn


def _soften(drawn: Input, p: Protocol) -> None:
    """Takes from an input what a strict protocol refuses most often."""
    if p.duplicates == "error":
        drawn.scores = list({row[:3]: row for row in drawn.scores}.values())
    if p.duplicate_relevance == "error":
        drawn.relevance = list({row[:2]: row for row in drawn.relevance}.values())
    if p.no_relevant == "error":
        labelled = {query for query, _, grade in drawn.relevance if grade >= max(p.min_grades)}
        drawn.relevance = [row for row in drawn.relevance if row[0] in labelled]
        drawn.queries = drawn.queries and [row for row in drawn.queries if row["query_id"] in labelled]
    if p.unjudged_queries == "error" and drawn.queries is None:
        drawn.scores = [row for row in drawn.scores if row[1] in {label[0] for label in drawn.relevance}]


def _complete(rng: Random, drawn: Input, p: Protocol, *, ids: str, score_type: str) -> None:
    """Gives two runs a list for every judged query, long enough where short lists are refused."""
    drawn.scores = [row for row in drawn.scores if row[0] in RUNS[:2]]
    listed = [row["query_id"] for row in drawn.queries or ()]
    for query in dict.fromkeys([*listed, *(row[0] for row in drawn.relevance)]):
        for run in RUNS[:2]:
            results = [row for row in drawn.scores if row[:2] == (run, query)]
            valid = {row[2] for row in results if row[3] is not None and not math.isnan(row[3])}
            needed = (max(p.cutoffs) if p.short_lists == "error" else 1) - len(valid)
            others = [item for item in ITEMS[ids] if item not in {row[2] for row in results}]
            for item in rng.sample(others, min(max(0, needed), len(others))):
                drawn.scores.append((run, query, item, rng.choice(SCORES[score_type]), 2))
