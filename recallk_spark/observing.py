"""What an observation saw, on every Spark: the one place where versions of Spark differ for this package."""

from __future__ import annotations

from contextlib import suppress
from threading import Event, Thread
from typing import Any

from pyspark.sql import Observation

WITHIN = 15.0  # seconds after the action that read a table


def observed(observation: Observation) -> dict[str, Any]:
    """The metrics of an observation whose action has ended; none where Spark left its table unread.

    Where another table is empty, Spark optimises an observed one away, and there is nothing to get. Each Spark says so
    differently, and 4.0 never: it would wait for ever for what otherwise is there a moment after the action.
    """
    found: dict[str, Any] = {}
    answered = Event()

    def ask() -> None:
        with suppress(Exception):
            found.update(observation.get)
        answered.set()

    Thread(target=ask, daemon=True).start()
    answered.wait(WITHIN)
    return dict(found)
