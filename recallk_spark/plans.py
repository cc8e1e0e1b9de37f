"""Which way the scores take to their lists: ranked by one window, or counted in two scans. Chosen ahead of both."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from recallk_spark.errors import UsageError, did_you_mean
from recallk_spark.policies import Duplicates
from recallk_spark.protocol import Protocol

AUTO = "auto"
# of relevance files whose items, and the results that meet them, an executor of 1 GB can hold: measured with 7 million
# bigint labels, which took 11.8 MiB
MAX_LABEL_BYTES = 12 * 2**20
HANDED_IN = "frames that were handed in may not read the same twice"


class Plan(StrEnum):
    """How ranks come about; the numbers are the same."""

    WINDOW = "window"
    PRUNED = "pruned"


PLANS = (AUTO, *Plan)
MEANING = {
    Plan.WINDOW: "every result is ranked by one window per query; the scores are read once and shuffled once, by query",
    Plan.PRUNED: "judged results are found, then ranked by counting; the scores are read twice and never shuffled",
}


@dataclass(frozen=True)
class Choice:
    """A plan, and in words why it is this one."""

    plan: Plan
    why: str


def choose(asked: str, protocol: Protocol, *, whole_lists: bool = False, obstacle: str = "") -> Choice:
    """The plan to run.

    Args:
        asked: one of PLANS.
        protocol: `duplicates` is read here.
        whole_lists: something needs every result of a list, as an audit does; such a job is never pruned.
        obstacle: why `auto` does not prune, '' where nothing stands against it.

    Raises:
        UsageError: an unknown plan; `pruned` with a policy that needs whole lists.
    """
    if asked not in PLANS:
        raise UsageError(f"plan: unknown value '{asked}'{did_you_mean(asked, PLANS)}")
    if asked == Plan.WINDOW:
        return Choice(Plan.WINDOW, "asked for")
    if whole_lists:
        return Choice(Plan.WINDOW, "repeats of every result are counted, which takes whole lists")
    if protocol.duplicates is not Duplicates.OCCUPY:
        need = f"duplicates = {protocol.duplicates} takes whole lists"
        if asked == Plan.PRUNED:
            raise UsageError(f"plan = pruned: {need}; use auto or window")
        return Choice(Plan.WINDOW, need)
    if asked == Plan.PRUNED:
        return Choice(Plan.PRUNED, "asked for")
    if obstacle:
        return Choice(Plan.WINDOW, obstacle)
    return Choice(Plan.PRUNED, "the scores are files, which read the same twice, and relevance is small")
