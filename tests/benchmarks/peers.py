"""One-machine tools on the same tables, each in a process of its own: a JSON line per round.

    python -m tests.benchmarks.peers duckdb FOLDER --rounds 4

Each computes what its users compute: macro recall at the cutoffs. Relevant are grades from 1 on; the mean is over the
queries with relevant items, missing ones counting 0.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("POLARS_MAX_THREADS", "2")  # read when polars is loaded

from tests.benchmarks.meter import measured

Values = dict[str, float]
DEPTH = 1000


def duckdb(folder: Path) -> Values:
    """The default protocol in plain SQL: a histogram over (|R|, rank) to depth 1,000, then the means. No nDCG."""
    import duckdb as db

    connection = db.connect()
    connection.execute("set threads = 2; set memory_limit = '14GB'; set preserve_insertion_order = false")
    rows = connection.execute(
        f"""
        with labels as materialized (
            select query_id, item_id, count(*) over (partition by query_id) as relevant
            from read_parquet('{folder}/relevance/*.parquet') where grade >= 1
        ),
        ranked as (
            select query_id, item_id,
                row_number() over (partition by query_id order by score desc, item_id) as rank
            from read_parquet('{folder}/scores/*.parquet') qualify rank <= {DEPTH}
        ),
        hits as (
            select query_id, item_id, relevant, min(rank) as rank
            from ranked join labels using (query_id, item_id) group by all
        ),
        numbered as (
            select relevant, rank, row_number() over (partition by query_id order by rank) as number from hits
        )
        select relevant, rank, count(*), count(*) filter (number = 1), sum(number) from numbered group by all
        """
    ).fetchall()
    (queries,) = connection.execute(
        f"select count(distinct query_id) from read_parquet('{folder}/relevance/*.parquet') where grade >= 1"
    ).fetchone()
    return {f"recall@{k}": sum(n / r for r, rank, n, *_ in rows if rank <= k) / queries for k in (10, 100)}


def polars(folder: Path) -> Values:
    """Rank, join, mean, by the streaming engine. The same item twice in a list would count twice: the best stays."""
    import polars as pl

    labels = pl.scan_parquet(f"{folder}/relevance/*.parquet").filter(pl.col("grade") >= 1)
    labels = labels.with_columns(relevant=pl.len().over("query_id"))
    scores = pl.scan_parquet(f"{folder}/scores/*.parquet")
    ordered = scores.sort(["query_id", "score", "item_id"], descending=[False, True, False])
    ranked = ordered.with_columns(rank=pl.int_range(pl.len()).over("query_id") + 1).filter(pl.col("rank") <= DEPTH)
    hits = ranked.join(labels, on=["query_id", "item_id"]).group_by("query_id", "item_id", "relevant")
    found = hits.agg(pl.col("rank").min()).collect(engine="streaming")
    queries = labels.select(pl.col("query_id").n_unique()).collect().item()
    return {
        f"recall@{k}": found.filter(pl.col("rank") <= k).select((1 / pl.col("relevant")).sum()).item() / queries
        for k in (10, 100)
    }


def pytrec_eval(folder: Path) -> Values:
    """Dictionaries, then trec_eval's C code: single-precision scores, ties by descending id, copies merged."""
    import pandas as pd
    import pytrec_eval as tool

    scores, labels = (pd.read_parquet(folder / name) for name in ("scores", "relevance"))
    run = {
        query: dict(zip(part.item_id.astype(str), part.score, strict=True))
        for query, part in scores.groupby(scores.query_id.astype(str))
    }
    right = {
        query: {str(item): int(grade) for item, grade in zip(part.item_id, part.grade, strict=True)}
        for query, part in labels.groupby(labels.query_id.astype(str))
    }
    measures = {"recall.10,100", "ndcg_cut.10,100", "map", "recip_rank"}
    found = tool.RelevanceEvaluator(right, measures).evaluate(run)
    counted = sum(any(grade > 0 for grade in items.values()) for items in right.values())
    return {f"recall@{k}": sum(row[f"recall_{k}"] for row in found.values()) / counted for k in (10, 100)}


def ranx(folder: Path) -> Values:
    """Frames to numba dictionaries; ties in the order of its sort."""
    import pandas as pd
    from ranx import Qrels, Run, evaluate

    scores, labels = (pd.read_parquet(folder / name) for name in ("scores", "relevance"))
    labels = labels[labels.grade >= 1]
    for table in (scores, labels):
        for name in ("query_id", "item_id"):
            table[name] = table[name].astype(str).astype(object)
    qrels = Qrels.from_df(labels, q_id_col="query_id", doc_id_col="item_id", score_col="grade")
    run = Run.from_df(scores, q_id_col="query_id", doc_id_col="item_id", score_col="score")
    measures = ["recall@10", "recall@100", "ndcg@100", "map@100", "mrr@100"]
    found = evaluate(qrels, run, measures, make_comparable=True)
    return {name: float(found[name]) for name in measures[:2]}


PEERS: dict[str, Callable[[Path], Values]] = {
    "duckdb": duckdb,
    "polars": polars,
    "pytrec_eval": pytrec_eval,
    "ranx": ranx,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    for _ in range(options.rounds):
        print(json.dumps(measured(lambda: PEERS[options.peer](options.folder))), flush=True)


if __name__ == "__main__":
    main()
