"""The benchmark: floors, our plans and the tools people use today, on made-up tables, as a Markdown table and JSON.

    uv run --group bench python -m tests.benchmarks.run --sizes 2,20 --output benchmark

makes the tables (about 8 bytes a score row, under --data), runs everything and writes benchmark.md and benchmark.json.
What shares Spark runs interleaved in one session: one cold round, then the warm ones, each in the same order. The
others run after it, each in a process of its own. Times are medians of the warm rounds; read ratios, not seconds.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

from recallk_spark import session
from tests.benchmarks import on_spark
from tests.benchmarks.generate import Size, generate
from tests.benchmarks.meter import measured
from tests.benchmarks.peers import PEERS

ROOT = Path(__file__).resolve().parents[2]
MILLION = 1_000_000
SMALL = 2  # millions of rows that tools in one process's memory are given
REFERENCE = "pruned plan"
WHY = {  # why values of a peer are not ours
    "MLlib RankingMetrics, 2 values": "counts every copy of a relevant result",
    "MLlib RankingMetrics, 10 values": "counts every copy of a relevant result",
    "pytrec_eval": "single-precision scores, ties by descending id, copies merged",
    "ranx": "ties in the order of its own sort, copies merged",
}

Work = Callable[[], dict[str, float]]
Measured = dict[str, Any]


def works(spark: Any, data: Path, millions: int, which: set[str]) -> Iterator[tuple[str, Work]]:
    """What is run on one size, by name, in order."""
    folder = generate(data / f"{millions}m", Size(millions * MILLION))
    main, ours = "main" in which, on_spark.ours
    if main:
        yield from on_spark.floors(spark, folder).items()
    if main or "pruned" in which:
        yield REFERENCE, ours(spark, folder, "pruned")
    if main:
        yield "window plan", ours(spark, folder, "window")
        yield "MLlib RankingMetrics, 2 values", on_spark.mllib(spark, folder, (10, 100))
    if "mllib10" in which:
        yield (
            "MLlib RankingMetrics, 10 values",
            on_spark.mllib(spark, folder, (*on_spark.CUTOFFS, 2)),
        )
    if "job" in which:
        yield "whole job, published", on_spark.published(spark, folder, per_query=True)
        yield "whole job, no per-query table", on_spark.published(spark, folder, per_query=False)
        yield "audit", on_spark.audited(spark, folder)
    if "shape" in which:
        yield "pruned plan, K = 10", ours(spark, folder, "pruned", depth=10)
        yield "pruned plan, nDCG at one cutoff instead of nine", ours(spark, folder, "pruned", cutoffs=(10,))
        yield "pruned plan, three min_grades", ours(spark, folder, "pruned", min_grade=(1, 2, 3))
        yield "pruned plan, 100 slices", ours(spark, folder, "pruned", slices=("segment",))
        strings = generate(data / f"{millions}m-strings", Size(millions * MILLION, ids="string"))
        yield "pruned plan, string ids", ours(spark, strings, "pruned")
    if "shape" in which and millions >= 10:
        hot = generate(data / f"{millions}m-hot", Size((millions - 2) * MILLION, hot=2 * MILLION))
        yield "pruned plan, one query with 2 million rows", ours(spark, hot, "pruned")
    if "shape" in which and millions == SMALL:
        runs = generate(data / f"{millions}m-8-runs", Size(millions * MILLION, runs=8))
        yield "pruned plan, 8 runs", ours(spark, runs, "pruned")
        yield (
            "pruned plan, 8 runs, 100 slices, 3 min_grades",
            ours(spark, runs, "pruned", slices=("segment",), min_grade=(1, 2, 3)),
        )


def dense(data: Path, millions: int, rounds: int) -> dict[str, list[Measured]]:
    """As many labels as scores, which no executor of one gigabyte can hold: the plan that is chosen for them."""
    folder = generate(data / f"{millions}m-dense", Size(millions * MILLION, dense=True))
    spark = session.start(
        master="local-cluster[2,1,1024]", remote=None, conf={"spark.executor.memory": "1g"}, depth=on_spark.DEPTH
    )
    name = "whole job, as many labels as scores, executors of 1 GB"
    found = interleaved(spark, {name: on_spark.published(spark, folder, per_query=True)}, rounds)
    spark.stop()
    return found


def interleaved(spark: Any, named: dict[str, Work], rounds: int) -> dict[str, list[Measured]]:
    """Every work once cold, then `rounds` times, turn by turn."""
    found: dict[str, list[Measured]] = {name: [] for name in named}
    for number in range(rounds + 1):
        for name, work in named.items():
            cost = measured(work, spark)
            found[name].append(cost)
            print(f"  round {number}: {name}: {cost['wall']:.2f} s", file=sys.stderr, flush=True)
    return found


def peer(name: str, folder: Path, rounds: int) -> list[Measured]:
    """The rounds of a tool in a process of its own; none where it is not installed or fails, which is said."""
    command = [sys.executable, "-m", "tests.benchmarks.peers", name, str(folder), "--rounds", str(rounds + 1)]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=3600, check=False)
    if answer.returncode:
        print(f"  {name}: {answer.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return []
    print(f"  {name}: done", file=sys.stderr, flush=True)
    return [json.loads(line) for line in answer.stdout.splitlines()]


def summary(costs: list[Measured]) -> Measured:
    """One row of the table: cold and median warm seconds, and what the round nearest to the median cost."""
    warm = costs[1:] or costs
    median = statistics.median(cost["wall"] for cost in warm)
    near = min(warm, key=lambda cost: abs(cost["wall"] - median))
    return {**near, "cold": costs[0]["wall"], "wall": median, "warm": [cost["wall"] for cost in warm]}


def table(results: dict[str, Measured]) -> list[str]:
    """Markdown: one row per work, its ratio to the pruned plan, and how its values differ from ours."""
    ours = results.get(REFERENCE)
    lines = [
        "| | cold s | warm s | of the pruned plan | CPU s | shuffle MB | spill MB | peak MB | recall@10, @100 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, cost in results.items():
        ratio = f"{cost['wall'] / ours['wall']:.2f}" if ours else ""
        shuffle, spill = (f"{cost[kind] / 1e6:,.0f}" if cost["stages"] else "" for kind in ("shuffle", "spill"))
        values = ", ".join(f"{cost['value'][k]:.6f}" for k in ("recall@10", "recall@100") if k in cost["value"])
        differs = ours and any(
            abs(cost["value"][k] - ours["value"][k]) > 1e-9 for k in cost["value"] if k in ours["value"]
        )
        note = f" ({WHY[name]})" if differs and name in WHY else ""
        lines.append(
            f"| {name} | {cost['cold']:.1f} | {cost['wall']:.1f} | {ratio} | {cost['cpu']:.1f} | {shuffle} | {spill} "
            f"| {cost['peak'] / 1e6:,.0f} | {values}{note} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="2,20", help="millions of score rows, such as 2,20,100")
    parser.add_argument(
        "--only",
        default="main,mllib10,job,peers",
        help="parts to run, by comma; also shape (K, cutoffs, min_grades, slices, runs, ids, a hot query), dense (as "
        "many labels as scores), pruned (without the rest of main)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="warm rounds after the cold one")
    parser.add_argument("--data", type=Path, default=Path("benchmark-data"), help="where the tables are made and kept")
    parser.add_argument("--output", type=Path, default=Path("benchmark"), help="path of the results, without ending")
    options = parser.parse_args()
    which = set(options.only.split(","))
    results: dict[str, dict[str, Measured]] = {}
    lines = [
        f"{date.today().isoformat()}, {platform.machine()}, local[2]; a cold round, then {options.rounds} warm ones."
    ]
    for millions in map(int, options.sizes.split(",")):
        print(f"{millions} million rows", file=sys.stderr)
        found: dict[str, list[Measured]] = {}
        if which != {"dense"}:
            spark = session.start(master="local[2]", remote=None, conf={}, depth=on_spark.DEPTH)
            found = interleaved(spark, dict(works(spark, options.data, millions, which)), options.rounds)
            spark.stop()
        if "dense" in which:
            found |= dense(options.data, millions, options.rounds)
        if "peers" in which:
            for name in PEERS if millions <= SMALL else ("duckdb", "polars"):
                if costs := peer(name, options.data / f"{millions}m", options.rounds):
                    found[name] = costs
        results[f"{millions} million"] = {name: summary(costs) for name, costs in found.items()}
        lines += ["", f"**{millions} million score rows**", "", *table(results[f"{millions} million"])]
        options.output.with_suffix(".md").write_text("\n".join(lines) + "\n")
        options.output.with_suffix(".json").write_text(
            json.dumps({"about": lines[0], "results": results}, indent=1) + "\n"
        )
    print("\n".join(lines))


if __name__ == "__main__":
    main()
