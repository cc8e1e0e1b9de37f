"""Reads the golden folder: TREC runs and judgments, hit counts, and what trec_eval printed."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path


def _lines(path: Path) -> Iterator[list[str]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("# "):
            yield line.split()


def run_rows(path: Path) -> list[tuple[str, str, str, float]]:
    """(run tag, query, item, score) of a TREC run; what follows the tag is no part of it."""
    return [(tag, query, item, float(score)) for query, _, item, _, score, tag, *_ in _lines(path)]


def qrels_rows(path: Path) -> list[tuple[str, str, float]]:
    """(query, item, grade) of TREC judgments."""
    return [(query, item, float(grade)) for query, _, item, grade in _lines(path)]


def hit_counts(path: Path) -> dict[str, dict[str, int]]:
    """The integers of a golden_hits file, by query and column (judged, num_rel, num_ret, hits@1 ...)."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {row["query"]: {name: int(value) for name, value in row.items() if name != "query"} for row in rows}


def printed(path: Path) -> dict[tuple[str, str], str]:
    """What trec_eval printed, by measure and query ('all' for the mean)."""
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    return {(measure, query): value for measure, query, value in lines}


def column_of(measure: str, *, depth: int) -> tuple[str, int] | None:
    """Where the profile holds a measure that trec_eval prints: (column, k); None where it does not.

    Measures without a cutoff are over the whole list, which is depth.
    """
    whole = {
        "map": "map",
        "recip_rank": "mrr",
        "ndcg": "ndcg",
        "set_recall": "recall_macro",
        "num_q": "queries",
        "num_ret": "retrieved",
        "num_rel": "relevant",
        "num_rel_ret": "hits",
    }
    if measure == "ndcg" and depth < 1000:  # its ideal is never cut; no query here has a thousand relevant items
        return None
    if measure in whole:
        return whole[measure], depth
    cut = {
        "recall": "recall_macro",
        "P": "precision_macro",
        "success": "hit_rate",
        "map_cut": "map",
        "ndcg_cut": "ndcg",
    }
    name, _, k = measure.rpartition("_")
    return (cut[name], int(k)) if name in cut and int(k) <= depth else None
