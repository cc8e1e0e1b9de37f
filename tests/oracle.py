"""The protocol once more, in plain Python: slow, exact, and written from the specification alone.

It shares only the validated `Protocol` with the library, so that the two can disagree. Sums are fractions;
only nDCG's logarithms and the square root of the intervals are floating point. The specification's steps
stand here under their numbers.
"""

from __future__ import annotations

import ctypes
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from recallk_spark.protocol import Protocol

Z = 1.959963984540054
NULL_SLICE = "(null)"
MEANS = (
    "recall_macro",
    "recall_capped_macro",
    "precision_macro",
    "f1_macro",
    "hit_rate",
    "mrr",
    "map",
    "judged_macro",
    "ndcg",
)


class Refused(Exception):
    """The input is refused; the message is a word of the policy that refuses it."""


@dataclass
class Judged:
    """One judged query of one run."""

    in_run: bool
    counted: bool
    num_relevant: int
    num_judged: int  # labels, negative ones too
    num_retrieved: int
    ranks: list[int]  # of the distinct judged items, each at its best position
    grades: list[float]
    ideal: list[float]  # all positive grades, descending
    hits: list[int]  # ranks of the hits


@dataclass
class Result:
    profiles: dict[float, dict[tuple[str, str, str, int], dict[str, Any]]]  # by min_grade; run, slice, slice value, k
    per_query: dict[tuple[str, Any], Judged]  # by run, query; at the lowest min_grade

    @property
    def profile(self) -> dict[tuple[str, str, str, int], dict[str, Any]]:
        """The profile of the only min_grade."""
        (only,) = self.profiles.values()
        return only


def evaluate(
    scores: Iterable[tuple],
    relevance: Iterable[tuple],
    protocol: Protocol,
    *,
    queries: Sequence[dict[str, Any]] | None = None,
    slices: Sequence[str] = (),
    depths: Iterable[int] | None = None,
) -> Result:
    """The profile and the per-query rows of (run, query, item, score[, rank]) against (query, item[, grade]).

    `queries` are rows with a query_id and slice columns; `depths` narrows the k of the profile.
    """
    p, scores, relevance = protocol, list(scores), list(relevance)
    if any(None in row[:3] for row in scores) or any(None in row[:2] for row in relevance):
        raise Refused("null")
    runs = sorted({row[0] for row in scores})
    listed = None  # 1. which queries exist
    if queries is not None:
        listed = {row["query_id"]: row for row in queries}
        if None in listed or len(listed) < len(queries):
            raise Refused("query_id")
        scores = [row for row in scores if row[1] in listed]
        relevance = [row for row in relevance if row[0] in listed]
    lists: dict[tuple, list[tuple]] = defaultdict(list)  # 3. standing: a key here is "in the run" for good
    for run, query, *result in scores:
        lists[run, query].append(tuple(result))
    labels = _labels(relevance, p)
    judged = list(labels if listed is None else listed)
    if p.unjudged_queries == "error" and any(query not in judged for _, query in lists):
        raise Refused("unjudged")

    ranked = {key: _ranked(rows, p) for key, rows in lists.items()}
    groups: dict[tuple[str, str], set] = defaultdict(set, {("", ""): set(judged)})
    for name in slices:
        for query, row in (listed or {}).items():
            values = [NULL_SLICE if row[column] is None else row[column] for column in name.split("*")]
            groups[name, "*".join(values)].add(query)
    profiles: dict[float, dict] = {}
    standings: dict[float, dict] = {}  # by min_grade; run, query
    for level in sorted(p.min_grades):
        standings[level] = {
            (run, q): _judged(labels.get(q, {}), ranked.get((run, q)), level, p) for run in runs for q in judged
        }
        profiles[level] = {}
        for run in runs:
            same = {"min_grade": level, "queries_unjudged": 0}
            if listed is None:
                same["queries_unjudged"] = sum(r == run and q not in labels for r, q in lists)
            for group, members in groups.items():
                standing = [standings[level][run, query] for query in members]
                for k in depths or range(1, p.depth + 1):
                    profiles[level][(run, *group, k)] = _row(standing, k, p) | same
    return Result(profiles, standings[min(standings)])


def _labels(relevance: list[tuple], p: Protocol) -> dict[Any, dict[Any, float]]:
    """The grade of every labelled pair, by query and item."""
    labels: dict[Any, dict[Any, float]] = defaultdict(dict)
    for query, item, *grades in relevance:
        grade = grades[0] if grades else 1
        if grade is None or not math.isfinite(grade) or (p.gain == "exponential" and grade > 60):
            raise Refused("grade")
        if item in labels[query] and p.duplicate_relevance == "error":  # 5. repeated labels
            raise Refused("label")
        labels[query][item] = max(float(grade), labels[query].get(item, -math.inf))
    return labels


def _ranked(rows: list[tuple], p: Protocol) -> list[Any]:
    """The items of one list, best first, cut at depth, from its (item, score[, rank])."""
    rows = sorted(rows, key=lambda row: _id_order(row[0]), reverse=p.tie_break == "item_desc")
    if p.tie_break == "rank":  # the score is ignored, valid or not
        if any(row[2] is None for row in rows):
            raise Refused("rank")
        rows.sort(key=lambda row: row[2])
    else:
        invalid = [row for row in rows if row[1] is None or row[1] != row[1]]  # 4. invalid scores
        if invalid and p.invalid_scores == "error":
            raise Refused("score")
        rows = [row for row in rows if row not in invalid]
        rows.sort(key=lambda row: _score(row[1], p), reverse=p.score_order == "desc")  # stable: ties stay by id
        rows += invalid if p.invalid_scores == "last" else []
    items = [row[0] for row in rows]
    if p.duplicates == "collapse":  # 11. duplicates, 12. rank, 13. cut at depth
        items = list(dict.fromkeys(items))
    items = items[: p.depth]
    if p.duplicates == "error" and len(set(items)) < len(items):
        raise Refused("duplicate")
    return items


def _id_order(item: str | int) -> bytes | int:
    return item.encode() if isinstance(item, str) else item


def _is_invalid(score: Any) -> bool:
    return score is None or math.isnan(score)


def _score(score: Any, p: Protocol) -> Any:
    return ctypes.c_float(float(score)).value if p.score_precision == "float32" else score


def _judged(grades: dict[Any, float], ranked: list[Any] | None, level: float, p: Protocol) -> Judged:
    """What is known of one judged query at one min_grade; `ranked` is None where the query is absent from the run."""
    first = {}  # an item counts once, at its best position
    for rank, item in enumerate(ranked or [], start=1):
        if grades.get(item, -1) >= 0:  # a negative grade is not a judgment
            first.setdefault(item, rank)
    num_relevant = sum(grade >= level for grade in grades.values())  # 9. min_grade
    left_out = num_relevant == 0 and p.no_relevant == "exclude"
    if num_relevant == 0 and p.no_relevant == "error":
        raise Refused("no relevant")
    if ranked is None and not left_out and p.missing_queries == "error":
        raise Refused("missing")
    counted = not left_out and not (ranked is None and p.missing_queries == "exclude")
    if counted and p.short_lists == "error" and len(ranked or []) < max(p.cutoffs):
        raise Refused("short")
    return Judged(
        in_run=ranked is not None,
        counted=counted,
        num_relevant=num_relevant,
        num_judged=len(grades),
        num_retrieved=len(ranked or []),
        ranks=list(first.values()),
        grades=[grades[item] for item in first],
        ideal=sorted((grade for grade in grades.values() if grade > 0), reverse=True),
        hits=[rank for item, rank in first.items() if grades[item] >= level],
    )


def measures(q: Judged, k: int, p: Protocol) -> dict[str, Any]:
    """Every measure of one counted query at depth k."""
    hits = [rank for rank in q.hits if rank <= k]
    h, none = len(hits), Fraction(p.no_relevant == "one")  # `none`: the value where nothing is relevant
    sum_of_precisions = sum(Fraction(i, rank) for i, rank in enumerate(hits, start=1))
    return {
        "recall_macro": Fraction(h, q.num_relevant) if q.num_relevant else none,
        "recall_capped_macro": Fraction(h, min(q.num_relevant, k)) if q.num_relevant else none,
        "precision_macro": Fraction(h, k),
        "f1_macro": Fraction(2 * h, k + q.num_relevant),
        "hit_rate": Fraction(h > 0),
        "mrr": Fraction(1, hits[0]) if hits else Fraction(0),
        "map": Fraction(sum_of_precisions, q.num_relevant) if q.num_relevant else Fraction(0),
        "judged_macro": Fraction(sum(rank <= k for rank in q.ranks), k),
        **({"ndcg": Fraction(_ndcg(q, k, p))} if k in p.cutoffs else {}),
    }


def _ndcg(q: Judged, k: int, p: Protocol) -> float:
    def dcg(graded: Iterable[tuple[int, float]]) -> float:
        gain = (lambda g: 2.0**g - 1) if p.gain == "exponential" else (lambda g: g)
        return math.fsum(gain(g) / math.log2(rank + 1) for rank, g in graded if g > 0 and rank <= k)

    ideal = dcg(enumerate(q.ideal, start=1))
    return dcg(zip(q.ranks, q.grades, strict=True)) / ideal if ideal else 0.0


def _row(standing: list[Judged], k: int, p: Protocol) -> dict[str, Any]:
    """The profile row of some judged queries of one run at depth k."""
    counted = [q for q in standing if q.counted]
    each, n = [measures(q, k, p) for q in counted], len(counted)
    row: dict[str, Any] = dict.fromkeys((*MEANS, "recall_micro"))
    row |= {name: sum(m[name] for m in each) / n for name in (each[0] if n else ())}
    hits = [sum(rank <= k for rank in q.hits) for q in counted]
    relevant = sum(q.num_relevant for q in counted)
    deviations: dict[str, list[Fraction] | None] = {"recall_macro": None, "recall_micro": None}
    if n:
        deviations["recall_macro"] = [(m["recall_macro"] - row["recall_macro"]) / n for m in each]
    if relevant:
        row["recall_micro"] = rho = Fraction(sum(hits), relevant)
        pairs = zip(counted, hits, strict=True)
        deviations["recall_micro"] = [(h - rho * q.num_relevant) / relevant for q, h in pairs]
    for name, parts in deviations.items():
        row[f"{name}_low"], row[f"{name}_high"] = _interval(row[name], parts)
    missing = [q for q in standing if not q.in_run and (q.num_relevant or p.no_relevant != "exclude")]
    return {name: None if value is None else float(value) for name, value in row.items()} | {
        "relevance_set": "all",
        "hits": sum(hits),
        "relevant": relevant,
        "retrieved": sum(min(q.num_retrieved, k) for q in counted),
        "queries": n,
        "queries_missing": len(missing),
        "queries_no_relevant": sum(q.num_relevant == 0 for q in standing),
        "queries_short": sum(q.num_retrieved < k for q in counted),
    }


def _interval(mean: Fraction | None, deviations: list[Fraction] | None) -> tuple[Any, Any]:
    """The 95 % interval around `mean`; the deviations are already divided by the sum of weights."""
    if mean is None or deviations is None or (n := len(deviations)) < 2:
        return None, None
    half = Z * math.sqrt(Fraction(n, n - 1) * sum(d * d for d in deviations))
    return max(0.0, float(mean) - half), min(1.0, float(mean) + half)
