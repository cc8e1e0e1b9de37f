"""The chain of an evaluation: every lazy frame from the input tables to the profile, each a stage of the one before.

    scores ──conform──> ranked ──judge──> judged ──gather──> lists ──┬──> per_query
                                  ▲                                  └──> histogram ──> profile
    relevance ──conform──> labels ┴──> topics (the queries that are evaluated) ──────────┘

Every arrow is one function of one room. The scores are read once and shuffled once, by query; from `lists` on
everything has the size of the queries, and from `histogram` on that of the profile.

Under the pruned plan `counting` goes from scores and labels to the same lists by another way: the scores are read
twice and never shuffled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from recallk_spark.contract import conform_queries, conform_relevance, conform_scores
from recallk_spark.counting import count_lists
from recallk_spark.histogram import histogram, population
from recallk_spark.judging import judge, label_queries, topics
from recallk_spark.lists import gather_lists, per_query
from recallk_spark.plans import Plan
from recallk_spark.profile import profile
from recallk_spark.protocol import Protocol
from recallk_spark.ranking import top_k
from recallk_spark.schema import DEFAULT_RUN, RUN
from recallk_spark.watch import Watch


@dataclass(frozen=True)
class Inputs:
    """The tables of one evaluation as they were handed in. Nothing is read from them here.

    `given_run` is the run_id that every score was given, where its table named none.
    """

    scores: DataFrame
    relevance: DataFrame
    queries: DataFrame | None
    slices: tuple[str, ...]
    given_run: str | None = None

    @property
    def one_run(self) -> str | None:
        """The run_id of every score where it is known to be a single one."""
        return self.given_run or (None if RUN in self.scores.columns else DEFAULT_RUN)


@dataclass(frozen=True)
class Chain:
    """The lazy frames of one evaluation, each a stage of the one before.

    Attributes:
        inputs: the tables.
        protocol: every setting.
        watch: where given, faults are counted in passing instead of stopping the job.
        every_repeat: count repeated results of every item, as an audit does.
        plan: how the lists come about; `ranked` and `judged` are those of the window plan always.
        gathered: lists that were computed before and stored, to go on from; else they are computed.
    """

    inputs: Inputs
    protocol: Protocol
    watch: Watch | None = None
    every_repeat: bool = False
    plan: Plan = Plan.WINDOW
    gathered: DataFrame | None = None

    @property
    def _refuse(self) -> bool:
        return self.watch is None

    @property
    def _queries_given(self) -> bool:
        return self.inputs.queries is not None

    @cached_property
    def scores(self) -> DataFrame:
        """Conformed scores."""
        return self._conformed_scores()

    def _conformed_scores(self, *, ahead: bool = False) -> DataFrame:
        return conform_scores(
            self.inputs.scores,
            protocol=self.protocol,
            watch=self.watch,
            queries=self.queries,
            shuffle=self.plan is Plan.WINDOW,
            ahead=ahead,
        )

    @cached_property
    def relevance(self) -> DataFrame:
        """Conformed relevance."""
        return conform_relevance(self.inputs.relevance, protocol=self.protocol, watch=self.watch, queries=self.queries)

    @cached_property
    def queries(self) -> DataFrame | None:
        """The conformed list of queries, or None."""
        if self.inputs.queries is None:
            return None
        return conform_queries(self.inputs.queries, slices=self.inputs.slices, watch=self.watch)

    @cached_property
    def labels(self) -> DataFrame:
        """The labels of each query: LABELS columns."""
        return label_queries(self.relevance, protocol=self.protocol, refuse=self._refuse)

    @cached_property
    def topics(self) -> DataFrame:
        """The queries that are evaluated: TOPICS columns."""
        return topics(self.labels, self.queries, slices=self.inputs.slices, protocol=self.protocol, refuse=self._refuse)

    @cached_property
    def ranked(self) -> DataFrame:
        """RANKED columns and `repeats`."""
        return top_k(
            self.scores,
            protocol=self.protocol,
            partitioned=self._queries_given and self.plan is Plan.WINDOW,
            every_repeat=self.every_repeat,
            refuse=self._refuse,
        )

    @cached_property
    def judged(self) -> DataFrame:
        """JUDGED columns and `repeats`."""
        return judge(
            self.ranked,
            self.labels,
            protocol=self.protocol,
            every_query_judged=self._queries_given,
            refuse=self._refuse,
        )

    @cached_property
    def lists(self) -> DataFrame:
        """LISTS columns; from here on frames have the size of the queries."""
        if self.gathered is not None:
            return self.gathered
        if self.plan is Plan.WINDOW:
            return gather_lists(self.judged)
        return count_lists(
            self._conformed_scores(ahead=True),
            self.scores,
            self.labels,
            protocol=self.protocol,
            every_query_judged=self._queries_given,
            one_run=self.inputs.one_run,
            refuse=self._refuse,
        )

    @cached_property
    def runs(self) -> DataFrame:
        """One column, run_id, one row per run. Where a column tells the runs it is read for them."""
        if self.gathered is None and self.inputs.one_run:
            return self.inputs.scores.sparkSession.range(1).select(F.lit(self.inputs.one_run).alias(RUN))
        source = self.inputs.scores if self.gathered is None else self.gathered
        return source.select(RUN).distinct()

    @cached_property
    def per_query(self) -> DataFrame:
        """PER_QUERY columns."""
        return per_query(self.lists, self.topics, self.runs, protocol=self.protocol, refuse=self._refuse)

    @cached_property
    def profile(self) -> DataFrame:
        """PROFILE columns, then RUN_COUNTS."""
        counts = histogram(self.lists, self.topics, protocol=self.protocol, queries_given=self._queries_given)
        everyone = population(self.topics, protocol=self.protocol)
        return profile(counts, everyone, protocol=self.protocol, refuse=self._refuse)
