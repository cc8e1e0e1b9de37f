"""evaluate(): recall at every depth from a score table and a relevance table. The file to read first.

What happens to a row stands in `chain.py`, one stage a line; what a number means stands in `protocol.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import DataFrame

from recallk_spark.chain import Chain, Inputs
from recallk_spark.columns import require_same_id_types
from recallk_spark.errors import ContractError, Fault, UsageError
from recallk_spark.plans import AUTO, HANDED_IN, Plan, choose
from recallk_spark.profile import RUN_COUNTS
from recallk_spark.protocol import Protocol
from recallk_spark.refusals import Row, require_sound, total_rows, warnings
from recallk_spark.report import Report
from recallk_spark.schema import JUDGED, PER_QUERY, PROFILE, RANKED, RUN
from recallk_spark.watch import Watch


@dataclass(frozen=True)
class Evaluation:
    """The lazy result of `evaluate`: frames that Spark computes when they are read, each from the scores anew.

    A frame meets bad rows where it reads them and stops with the refusal's message; `report()` reads everything
    once and names every fault.
    """

    inputs: Inputs
    protocol: Protocol
    plan: Plan = Plan.WINDOW

    def profile(self) -> DataFrame:
        """The recall-vs-depth profile: one row per run, relevance set, min_grade, slice and k = 1..depth.

        Columns and types of schema.PROFILE: measures in [0, 1] or null where undefined, then counts. The total has
        slice '' and slice_value ''. `ndcg` is null off the cutoffs.
        """
        return self._chain.profile.select(*PROFILE.names)

    def per_query(self) -> DataFrame:
        """One row per run and evaluated query, missing ones included: columns of schema.PER_QUERY.

        `num_relevant` and `counted` are those of the lowest min_grade.
        Where a column of the scores tells the runs, that column alone is read once more for their names.
        """
        return self._chain.per_query.select(*PER_QUERY.names)

    @property
    def ranked(self) -> DataFrame:
        """One row per result within depth: columns of schema.RANKED. Every result is ranked, whatever the plan."""
        return self._chain.ranked.select(*RANKED.names)

    @property
    def judged(self) -> DataFrame:
        """One row per result within depth, with its grade, hit number and |R|: columns of schema.JUDGED.

        Hit number and |R| are those of the lowest min_grade.
        """
        return self._chain.judged.select(*JUDGED.names)

    def report(self) -> Report:
        """Reads the input once and collects what a person wants to see: the profile, the counts, the protocol.

        The counts of a run are those of the lowest min_grade.

        Raises:
            ContractError: naming every fault of the input.
        """
        chain = replace(self._chain, watch=Watch())
        rows = chain.profile.toArrow().to_pylist()
        require_sound(chain, rows)
        return Report.of(rows, protocol=self.protocol, counts=run_counts(chain, rows), warnings=warnings(chain, rows))

    @cached_property
    def _chain(self) -> Chain:
        """Built once for all frames: Spark analyses every step of it, about as long as a small table takes to run."""
        return Chain(self.inputs, self.protocol, plan=self.plan)


def evaluate(
    scores: DataFrame,
    relevance: DataFrame,
    *,
    protocol: Protocol | None = None,
    queries: DataFrame | None = None,
    slices: Sequence[str] = (),
    plan: str = AUTO,
) -> Evaluation:
    """Measures how much of what is relevant each run returned, at every depth. Runs no job.

    Args:
        scores: one row is one result: query_id, item_id, score (any number), optionally run_id (else one run named
            'run'); with `tie_break = rank` an integer rank instead of the score. Other columns are ignored.
        relevance: one row is one label: query_id, item_id, optionally grade (else 1).
        protocol: every setting that decides what a number means; the specification's defaults when left out.
        queries: the list of queries to evaluate, one row each: query_id and slice columns.
        slices: columns of `queries` to report apart, such as 'country'; 'country*device' is their cross.
        plan: how ranks come about, the numbers are the same. 'window' reads the scores once and shuffles them once;
            'pruned' reads them twice, shuffles none of them, and suits scores that read the same twice (files,
            tables) and relevance that every executor can hold; 'auto' is 'window' for frames.

    Raises:
        ContractError: columns missing or of the wrong type; ids of different types on two sides.
        UsageError: an unknown plan, or one that does not go with the protocol; slices without queries.
    """
    protocol = protocol or Protocol()
    choice = choose(plan, protocol, obstacle=HANDED_IN)
    if slices and queries is None:
        raise UsageError("slices are columns of the list of queries; give queries=")
    if isinstance(slices, str):
        raise UsageError(f"slices: a sequence of names, not the text '{slices}'")
    inputs = Inputs(scores, relevance, queries, tuple(dict.fromkeys(slices)))
    evaluation = Evaluation(inputs, protocol, choice.plan)
    require_conforming(evaluation._chain)
    return evaluation


def audit(
    scores: DataFrame, relevance: DataFrame, *, protocol: Protocol | None = None, queries: DataFrame | None = None
) -> dict[str, dict[str, int]]:
    """Reads the input once and reports everything that is wrong with it, or how much of what was counted.

    Returns:
        The counts of each run by name, at the lowest min_grade: queries, missing, unjudged, no relevant, short lists,
        repeats within depth (of every item, judged or not), repeated and conflicting labels, invalid scores, ...

    Raises:
        ContractError: naming every fault.
    """
    chain = Chain(Inputs(scores, relevance, queries, ()), protocol or Protocol(), watch=Watch(), every_repeat=True)
    require_conforming(chain)
    rows = chain.profile.where(f"slice = '' and k = {chain.protocol.max_cutoff}").toArrow().to_pylist()
    require_sound(chain, rows)
    return run_counts(chain, rows)


def require_conforming(chain: Chain) -> None:
    """Checks names and types of every table, without a job.

    Raises:
        ContractError: naming every fault of every table.
    """
    frames: dict[str, DataFrame] = {}
    faults: list[Fault] = []
    for name in ("queries", "scores", "relevance"):
        try:
            frame = getattr(chain, name)
        except ContractError as error:
            faults += error.faults
            if name == "queries":  # the others are checked all the same
                chain = replace(chain, inputs=replace(chain.inputs, queries=None, slices=()))
        else:
            if frame is not None:
                frames[name] = frame
    if faults:
        raise ContractError(faults)
    require_same_id_types(**frames)


def run_counts(chain: Chain, profile: Sequence[Row]) -> dict[str, dict[str, int]]:
    """The counts of each run: those of the profile, of the contract, and of what was repaired.

    They are read at the largest cutoff and the lowest min_grade.
    """
    names = ("queries", "queries_missing", "queries_no_relevant", "queries_unjudged", "queries_short", *RUN_COUNTS)
    shared = {} if chain.watch is None else chain.watch.repairs()
    totals = total_rows(profile, chain.protocol)
    return {str(row[RUN]): {**{name: int(row[name]) for name in names}, **shared} for row in totals}
