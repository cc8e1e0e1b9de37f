"""What a piece of work costs: time and memory of this process and those below it, and what Spark shuffles."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def measured(work: Callable[[], Any], spark: Any = None) -> dict[str, Any]:
    """Runs `work` once: its result and what it cost.

    wall, cpu: seconds; peak: greatest resident memory of the processes, bytes; shuffle, spill: bytes that Spark wrote.
    """
    before = set(_stages(spark))
    stop, peak = threading.Event(), [0]

    first = {process: cpu for process, (cpu, _) in _processes().items()}
    spent: dict[int, float] = {}  # of processes that have ended too

    def look() -> None:
        found = _processes()
        peak[0] = max(peak[0], sum(memory for _, memory in found.values()))
        spent.update((process, cpu - first.get(process, 0.0)) for process, (cpu, _) in found.items())

    def watch() -> None:
        while not stop.wait(0.1):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    wall = time.perf_counter()
    try:
        value = work()
    finally:
        stop.set()
    wall = time.perf_counter() - wall
    watcher.join()
    look()
    stages = [stage for number, stage in sorted(_stages(spark).items()) if number not in before]
    return {
        "value": value,
        "wall": round(wall, 3),
        "cpu": round(sum(spent.values()), 2),
        "peak": peak[0],
        "shuffle": sum(stage.shuffleWriteBytes() for stage in stages),
        "spill": sum(stage.diskBytesSpilled() for stage in stages),
        "stages": [
            {
                "tasks": stage.numTasks(),
                "seconds": stage.executorRunTime() / 1e3,
                "cpu": stage.executorCpuTime() / 1e9,
                "read": stage.shuffleReadBytes(),
                "written": stage.shuffleWriteBytes(),
            }
            for stage in stages
            if stage.numCompleteTasks()
        ],
    }


def _stages(spark: Any) -> dict[int, Any]:
    if spark is None:
        return {}
    context = spark.sparkContext
    quantiles = context._gateway.new_array(context._jvm.double, 0)
    found = context._jsc.sc().statusStore().stageList(None, False, False, quantiles, None)
    return {found.apply(place).stageId(): found.apply(place) for place in range(found.size())}


def _processes() -> dict[int, tuple[float, int]]:
    """CPU seconds and resident bytes of this process and everything below it, by process id."""
    children: dict[int, list[int]] = {}
    seen: dict[int, tuple[float, int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    text = file.read()
            except OSError:  # it has ended
                continue
            fields = text[text.rindex(")") + 2 :].split()
            children.setdefault(int(fields[1]), []).append(int(name))
            seen[int(name)] = (sum(map(int, fields[11:15])) / _TICKS, int(fields[21]) * _PAGE)
    below, found = [os.getpid()], {}
    while below:
        process = below.pop()
        if process in seen:
            found[process] = seen[process]
        below += children.get(process, [])
    return found
