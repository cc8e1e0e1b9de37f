"""Where the time of an evaluation goes: the stages that Spark ran, and what the sampled code was doing.

    uv run --group bench python -m tests.benchmarks.profile FOLDER [--plan window] [--depth 10] [--rounds 3]

FOLDER holds tables that generate.py or run.py has made. The code is sampled by Java's own flight recorder, every 10 ms,
after three evaluations that warm it up; each sample counts for the first kind of work that its stack names.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from recallk_spark import session
from tests.benchmarks import on_spark
from tests.benchmarks.meter import measured

WARM = 3
KINDS = {  # what a frame of a stack says of the work that is done
    "reading Parquet": r"apache\.parquet|datasources\.parquet|luben\.zstd|execution\.vectorized|columnartorow",
    "sorting": r"unsafe\.sort|UnsafeExternal(Row)?Sorter|Ordering\.compare|UnsafeKVExternalSorter",
    "windows": r"execution\.window",
    "looking up queries": r"execution\.joins\.|LongToUnsafeRowMap",
    "grouping": r"BytesToBytesMap|AggregationMap|AggregateHashMap|FastHashMap",
    "collecting lists": r"ObjectAggregation|SortBasedAggreg|Collect|TypedImperative",
    "arrays, expression by expression": r"expressions\.(Array|Higher|Named|Sort|Get|Create|If|Slice|Add|Divide|Binary)",
    "shuffle": r"spark\.shuffle|jpountz|serializer|UnsafeRowSerializer|spark\.storage|network",
    "generated code (checks, joins by query, searches)": r"GeneratedClass",
    "planning and compiling": r"catalyst\.(analysis|optimizer|rules|trees|plans)|codehaus\.janino|adaptive",
}


def sampled(spark: Any, work: Any, rounds: int) -> list[str]:
    """The stacks of all that Java's threads did while `work` ran `rounds` times, one text each."""
    jvm = spark.sparkContext._jvm
    recording = jvm.jdk.jfr.Recording()
    recording.enable("jdk.ExecutionSample").withPeriod(jvm.java.time.Duration.ofMillis(10))
    recording.start()
    for _ in range(rounds):
        work()
    recording.stop()
    with tempfile.TemporaryDirectory() as folder:
        path = jvm.java.nio.file.Path.of(f"{folder}/samples.jfr", spark.sparkContext._gateway.new_array(jvm.String, 0))
        recording.dump(path)
        return [event.toString() for event in jvm.jdk.jfr.consumer.RecordingFile.readAllEvents(path)]


def kind(stack: str) -> str:
    """The first kind of work that a frame names, from the innermost on."""
    for line in stack.splitlines():
        for name, pattern in KINDS.items():
            if re.search(pattern, line):
                return name
    return "other"


def innermost(stack: str) -> str:
    """The method that a sample was taken in."""
    found = re.search(r"stackTrace = \[\s*([\w.$]+)", stack)
    return found[1].removeprefix("org.apache.spark.") if found else "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--plan", choices=("pruned", "window"), default="pruned")
    parser.add_argument("--depth", type=int, default=on_spark.DEPTH)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    spark = session.start(master="local[2]", remote=None, conf={}, depth=options.depth)
    work = on_spark.ours(spark, options.folder, options.plan, depth=options.depth)
    for _ in range(WARM):
        work()
    cost = measured(work, spark)
    print(f"{cost['wall']:.1f} s, {cost['cpu']:.1f} CPU-seconds, of which its tasks took:\n")
    print("| tasks | seconds | CPU s | shuffle read MB | written MB |\n|---|---|---|---|---|")
    for stage in cost["stages"]:
        print(
            f"| {stage['tasks']} | {stage['seconds']:.2f} | {stage['cpu']:.2f} | {stage['read'] / 1e6:.1f} "
            f"| {stage['written'] / 1e6:.1f} |"
        )
    stacks = sampled(spark, work, options.rounds)
    print(f"\n{len(stacks)} samples\n\n| of all | what |\n|---|---|")
    for name, count in Counter(map(kind, stacks)).most_common():
        print(f"| {count / len(stacks):.0%} | {name} |")
    print("\n| of all | innermost method |\n|---|---|")
    for name, count in Counter(map(innermost, stacks)).most_common(15):
        print(f"| {count / len(stacks):.0%} | {name} |")


if __name__ == "__main__":
    main()
