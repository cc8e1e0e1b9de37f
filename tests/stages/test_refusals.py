"""What is refused: inside the plan of every frame that reads the fault, and all at once by audit and report."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from recallk_spark import ContractError, Evaluation, Protocol, audit, evaluate
from tests import frames

NAN, INF = float("nan"), float("inf")

SCORES = [("r", "q", "a", 2.0), ("r", "q", "b", 1.0), ("r", "p", "a", 1.0)]
RELEVANCE = [("q", "a", 1), ("p", "a", 1)]

EVERY = ("ranked", "judged", "per_query", "profile")
FROM_JUDGED = EVERY[1:]
FROM_QUERIES = EVERY[2:]
VARIANT = ("profile",)  # another value that is refused by the check of the case before it


@dataclass(frozen=True)
class Case:
    """An input with one fault, the frames that read what is at fault, and how their message starts and ends."""

    fault: str
    frames: tuple[str, ...]
    message: str
    example: str = ""
    scores: list[tuple] = field(default_factory=list)
    relevance: list[tuple] = field(default_factory=list)
    queries: list[tuple] | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def pattern(self) -> str:
        example = f"(for example {self.example})" if self.example else ""
        return f"{re.escape(self.message)}.*{re.escape(example)}"

    def evaluation(self, spark: SparkSession, plan: str = "window") -> Evaluation:
        rows = [*SCORES, *self.scores]
        if self.settings.get("tie_break") == "rank":
            rows = [row if len(row) == 5 else (*row, 1) for row in rows]
        return evaluate(
            frames.scores(spark, rows),
            frames.relevance(spark, [*RELEVANCE, *self.relevance]),
            queries=None if self.queries is None else frames.queries(spark, self.queries),
            protocol=Protocol(**{"cutoffs": (1,), **self.settings}),
            plan=plan,
        )


# Faulty rows stand where they could be lost: below depth, in a query that is not judged, in a query that is in no run
CASES = [
    Case(
        "null run",
        EVERY,
        "scores.run_id: null or empty run_id",
        "run null, query u, item a",
        scores=[(None, "u", "a", 0.5)],
    ),
    Case(
        "empty run",
        VARIANT,
        "scores.run_id: null or empty run_id",
        "run , query u, item a",
        scores=[("", "u", "a", 0.5)],
    ),
    Case(
        "Spark's word for a null run",
        VARIANT,
        "scores.run_id: null or empty run_id",
        "run __HIVE_DEFAULT_PARTITION__, query u, item a",
        scores=[("__HIVE_DEFAULT_PARTITION__", "u", "a", 0.5)],
    ),
    Case(
        "null query in scores",
        EVERY,
        "scores.query_id: null query_id",
        "run r, query null, item a",
        scores=[("r", None, "a", 0.5)],
    ),
    Case(
        "null item in scores",
        EVERY,
        "scores.item_id: null item_id",
        "run r, query u, item null",
        scores=[("r", "u", "a", 2.0), ("r", "u", None, 0.5)],
    ),
    Case(
        "null score",
        EVERY,
        "scores.score: null or NaN score",
        "run r, query u, item b",
        scores=[("r", "u", "a", 2.0), ("r", "u", "b", None)],
    ),
    Case(
        "NaN score",
        VARIANT,
        "scores.score: null or NaN score",
        "run r, query u, item b",
        scores=[("r", "u", "a", 2.0), ("r", "u", "b", NAN)],
        settings={"score_order": "asc"},
    ),
    Case(
        "null rank",
        EVERY,
        "scores.rank: null rank",
        "run r, query u, item b",
        scores=[("r", "u", "a", 2.0), ("r", "u", "b", 1.0, None)],
        settings={"tie_break": "rank"},
    ),
    Case(
        "duplicate result",
        EVERY,
        "scores.item_id: duplicate result within depth, and duplicates = error",
        "run r, query u, item b",
        scores=[("r", "u", "b", 2.0), ("r", "u", "b", 1.0)],
        settings={"duplicates": "error", "depth": 2},
    ),
    Case(
        "null query in relevance",
        FROM_JUDGED,
        "relevance.query_id: null query_id",
        "query null, item z",
        relevance=[(None, "z", 1)],
    ),
    Case(
        "null item in relevance",
        FROM_JUDGED,
        "relevance.item_id: null item_id",
        "query n, item null",
        relevance=[("n", None, 1)],
    ),
    *(
        Case(
            f"grade {grade}",
            FROM_JUDGED if grade is None else VARIANT,
            "relevance.grade: null, NaN or infinite grade",
            "query n, item z",
            relevance=[("n", "a", 1), ("n", "z", grade)],
        )
        for grade in (None, NAN, INF, -INF)
    ),
    Case(
        "grade beyond exponential gain",
        FROM_JUDGED,
        "relevance.grade: grade above 60 under gain = exponential",
        "query n, item z",
        relevance=[("n", "a", 60), ("n", "z", 60.5)],
        settings={"gain": "exponential"},
    ),
    Case(
        "duplicate label",
        FROM_JUDGED,
        "relevance.item_id: duplicate label, and duplicate_relevance = error",
        "query n, item z",
        relevance=[("n", "z", 1), ("n", "z", 1)],
        settings={"duplicate_relevance": "error"},
    ),
    Case(
        "unjudged query",
        FROM_JUDGED,
        "scores.query_id: unjudged query in the run, and unjudged_queries = error",
        "query u",
        scores=[("r", "u", "a", 1.0)],
        settings={"unjudged_queries": "error"},
    ),
    Case(
        "query with no relevant item",
        FROM_QUERIES,
        "relevance: query with no relevant item, and no_relevant = error",
        "query n",
        relevance=[("n", "z", 0)],
        settings={"no_relevant": "error"},
    ),
    Case(
        "query with no relevant item at the highest min_grade",
        FROM_QUERIES,
        "relevance: query with no relevant item at min_grade 1, and no_relevant = error",
        "query n",
        scores=[("r", "n", "z", 1.0)],
        relevance=[("n", "z", 0.7)],
        settings={"no_relevant": "error", "min_grade": (0.5, 1)},
    ),
    Case(
        "missing query that counts at the lowest min_grade",
        FROM_QUERIES,
        "missing_queries = error",
        relevance=[("n", "z", 0.7)],
        settings={"missing_queries": "error", "min_grade": (0.5, 1)},
    ),
    Case(
        "missing query",
        FROM_QUERIES,
        "missing_queries = error",
        relevance=[("n", "z", 1)],
        settings={"missing_queries": "error"},
    ),
    Case(
        "short list",
        FROM_QUERIES,
        "short_lists = error",
        settings={"short_lists": "error", "cutoffs": (1, 2), "depth": 5},
    ),
    Case(
        "null query on the list of queries",
        FROM_QUERIES,
        "queries.query_id: null query_id",
        "null",
        queries=[("q",), ("p",), (None,)],
    ),
    Case(
        "query listed twice",
        FROM_QUERIES,
        "queries.query_id: duplicate query, a query is listed once",
        "n",
        queries=[("q",), ("p",), ("n",), ("n",)],
    ),
]


LARGE = [case for case in CASES if case.frames != VARIANT]


@pytest.fixture(scope="module")
def sort_merge(spark: SparkSession) -> SparkSession:
    """A session in which no table is small enough to be broadcast."""
    session = spark.newSession()
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", -1)
    session.conf.set("spark.sql.adaptive.autoBroadcastJoinThreshold", -1)
    return session


def frame_of(evaluation: Evaluation, name: str) -> DataFrame:
    frame = getattr(evaluation, name)
    return frame if isinstance(frame, DataFrame) else frame()


@pytest.mark.parametrize("case", CASES, ids=[case.fault for case in CASES])
def test_every_frame_that_reads_a_fault_stops_with_its_message(spark: SparkSession, case: Case) -> None:
    evaluation = case.evaluation(spark)
    for name in case.frames:
        with pytest.raises(frames.SPARK_ERRORS, match=case.pattern):
            frame_of(evaluation, name).collect()


COUNTED = [case for case in CASES if "duplicates" not in case.settings]


@pytest.mark.parametrize("case", COUNTED, ids=[case.fault for case in COUNTED])
def test_counting_loses_no_fault(spark: SparkSession, case: Case) -> None:
    evaluation = case.evaluation(spark, plan="pruned")
    for name in set(case.frames) & set(FROM_QUERIES):
        with pytest.raises(frames.SPARK_ERRORS, match=case.pattern):
            frame_of(evaluation, name).collect()


@pytest.mark.parametrize("case", LARGE, ids=[case.fault for case in LARGE])
def test_no_fault_is_lost_where_tables_are_too_large_to_broadcast(sort_merge: SparkSession, case: Case) -> None:
    with pytest.raises(frames.SPARK_ERRORS, match=case.pattern):
        case.evaluation(sort_merge).profile().collect()


@pytest.mark.parametrize("name", EVERY)
def test_the_same_input_without_a_fault_goes_through(spark: SparkSession, sort_merge: SparkSession, name: str) -> None:
    strict = {
        "duplicates": "error",
        "duplicate_relevance": "error",
        "no_relevant": "error",
        "missing_queries": "error",
        "unjudged_queries": "error",
        "short_lists": "error",
        "gain": "exponential",
    }
    sound = Case("none", EVERY, "", relevance=[("q", "z", 60)], settings=strict)
    assert frame_of(sound.evaluation(spark), name).count() == frame_of(sound.evaluation(sort_merge), name).count() > 0


# all at once


def faults_of(error: pytest.ExceptionInfo[ContractError]) -> list[tuple]:
    """Table, column, message up to its advice, count and example of each fault."""
    return [
        (fault.table, fault.column, re.split("; |, or ", fault.message)[0], fault.count, fault.example)
        for fault in error.value.faults
    ]


def assert_both_refuse(
    scores: DataFrame,
    relevance: DataFrame,
    expected: list[tuple],
    *,
    queries: DataFrame | None = None,
    **settings: Any,
) -> None:
    protocol = Protocol(**{"cutoffs": (1,), **settings})
    with pytest.raises(ContractError) as by_audit:
        audit(scores, relevance, protocol=protocol, queries=queries)
    with pytest.raises(ContractError) as by_report:
        evaluate(scores, relevance, protocol=protocol, queries=queries).report()
    assert faults_of(by_audit) == expected
    assert faults_of(by_report) == expected


def test_audit_and_report_name_every_faulty_column_with_its_count_and_an_example(spark: SparkSession) -> None:
    scores = [
        (None, "q", "c", 1.0),
        ("", "q", "d", 1.0),
        ("r", None, "b", 1.0),
        ("r", None, "a", 1.0),
        ("r", "q", None, 1.0),
        ("r", "q", "y", NAN),
        ("r", "q", "x", None),
        ("r", "q", "z", NAN),
    ]
    relevance = [(None, "a", 1), ("q", None, 1), ("q", "n", None), ("q", "m", NAN), ("q", "o", INF), ("q", "k", 61)]
    assert_both_refuse(
        frames.scores(spark, [*SCORES, *scores]),
        frames.relevance(spark, [*RELEVANCE, *relevance]),
        [
            ("relevance", "grade", "grade above 60 under gain = exponential", 1, "query q, item k"),
            ("relevance", "grade", "null, NaN or infinite grade", 3, "query q, item m"),
            ("relevance", "item_id", "null item_id", 1, "query q, item null"),
            ("relevance", "query_id", "null query_id", 1, "query null, item a"),
            ("scores", "item_id", "null item_id", 1, "run r, query q, item null"),
            ("scores", "query_id", "null query_id", 2, "run r, query null, item a"),
            ("scores", "run_id", "null or empty run_id", 2, "run , query q, item d"),
            ("scores", "score", "null or NaN score", 3, "run r, query q, item x"),
        ],
        gain="exponential",
    )


def test_audit_and_report_name_every_policy_that_is_broken_and_by_which_run(spark: SparkSession) -> None:
    # r repeats a twice in q, does not know p, knows u; s answers everything, but p with one result
    scores = [
        ("r", "q", "a", 3.0),
        ("r", "q", "a", 2.0),
        ("r", "q", "a", 1.0),
        ("r", "u", "a", 2.0),
        ("r", "u", "b", 1.0),
        ("s", "q", "a", 2.0),
        ("s", "q", "b", 1.0),
        ("s", "p", "a", 1.0),
    ]
    relevance = [*RELEVANCE, ("q", "b", 0), ("q", "b", 1), ("q", "a", 1), ("bare", "a", 0)]
    assert_both_refuse(
        frames.scores(spark, scores),
        frames.relevance(spark, relevance),
        [
            (
                "relevance",
                "item_id",
                "duplicate labels of a (query, item), and duplicate_relevance = error",
                2,
                "query q, item a",
            ),
            (
                "relevance",
                "query_id",
                "judged queries with no relevant item, and no_relevant = error",
                1,
                "query bare",
            ),
            (
                "scores",
                "item_id",
                "run 'r': duplicate results within depth, and duplicates = error",
                2,
                "query q, item a",
            ),
            ("scores", "query_id", "run 'r': lists shorter than 2, and short_lists = error", 1, "query p"),
            ("scores", "query_id", "run 'r': missing queries, and missing_queries = error", 1, "query p"),
            ("scores", "query_id", "run 'r': unjudged queries, and unjudged_queries = error", 1, "query u"),
            ("scores", "query_id", "run 's': lists shorter than 2, and short_lists = error", 1, "query p"),
        ],
        cutoffs=(1, 2),
        depth=3,
        duplicates="error",
        duplicate_relevance="error",
        no_relevant="error",
        missing_queries="error",
        unjudged_queries="error",
        short_lists="error",
    )


def test_a_policy_that_any_min_grade_breaks_is_named_with_the_count_of_the_one_that_breaks_it_most(
    spark: SparkSession,
) -> None:
    # at 1 every query has a relevant item, at 2 only q; n is missing, and counts at 1 alone where bare ones do not
    scores = frames.scores(spark, SCORES)
    relevance = frames.relevance(spark, [("q", "a", 2), ("p", "a", 1), ("n", "a", 1.5), ("o", "a", 1)])
    bare = "judged queries with no relevant item at min_grade 2, and no_relevant = error"
    missing = "run 'r': missing queries, and missing_queries = error"
    assert_both_refuse(
        scores, relevance, [("relevance", "query_id", bare, 3, "query n")], min_grade=(1, 2), no_relevant="error"
    )
    assert_both_refuse(
        scores, relevance, [("scores", "query_id", missing, 2, "query n")], min_grade=(1, 2), missing_queries="error"
    )


def test_the_counts_of_a_run_are_those_of_the_lowest_min_grade(spark: SparkSession) -> None:
    scores, protocol = frames.scores(spark, SCORES), Protocol(cutoffs=(1, 2), min_grade=(0.5, 1, 2))
    relevance = frames.relevance(spark, [("q", "a", 1), ("p", "a", 0.5), ("n", "a", 0.5), ("o", "a", 0)])
    expected = {"queries": 3, "queries_missing": 1, "queries_no_relevant": 1, "queries_short": 2, "judged_results": 2}
    report = evaluate(scores, relevance, protocol=protocol).report()
    for counts in (audit(scores, relevance, protocol=protocol), report.counts):
        assert {name: counts["r"][name] for name in expected} == expected
    at_two = {row["min_grade"]: row for row in report.rows if row["k"] == 2}
    assert {grade: (row["queries"], row["queries_no_relevant"]) for grade, row in at_two.items()} == {
        0.5: (3, 1),
        1.0: (1, 3),
        2.0: (0, 4),
    }


def test_audit_and_report_name_faults_of_the_list_of_queries(spark: SparkSession) -> None:
    assert_both_refuse(
        frames.scores(spark, SCORES),
        frames.relevance(spark, RELEVANCE),
        [
            ("queries", "query_id", "duplicate query_id", 3, "query n"),
            ("queries", "query_id", "null query_id", 1, "null"),
        ],
        queries=frames.queries(spark, [("q",), ("p",), ("q",), ("n",), ("n",), ("n",), (None,)]),
    )


def test_audit_and_report_name_null_ranks(spark: SparkSession) -> None:
    scores = [(*row, 1) for row in SCORES]
    assert_both_refuse(
        frames.scores(spark, [*scores, ("r", "q", "c", 1.0, None), ("r", "p", "b", 1.0, None)]),
        frames.relevance(spark, RELEVANCE),
        [("scores", "rank", "null rank", 2, "run r, query p, item b")],
        tie_break="rank",
    )


def test_audit_of_a_sound_input_gives_the_counts_of_each_run(spark: SparkSession) -> None:
    # in r the judged a and the unjudged c stand twice; report counts the repeats of judged items only
    scores = [("r", "q", item, 9.0 - place) for place, item in enumerate("aaccb")]
    scores += [("s", "q", "a", 1.0), ("s", "q", "b", NAN), ("s", "u", "a", 1.0)]
    relevance = [*RELEVANCE, ("q", "a", 0), ("p", "a", 1), ("bare", "a", 0)]
    inputs = (frames.scores(spark, scores), frames.relevance(spark, relevance))
    protocol = Protocol(cutoffs=(2,), depth=5, invalid_scores="drop")
    expected = {
        "r": {
            "queries": 2,
            "queries_missing": 1,
            "queries_no_relevant": 1,
            "queries_unjudged": 0,
            "queries_short": 1,
            "duplicate_results": 2,
            "duplicate_labels": 2,
            "conflicting_labels": 1,
            "invalid_scores": 1,
        },
        "s": {
            "queries": 2,
            "queries_missing": 1,
            "queries_no_relevant": 1,
            "queries_unjudged": 1,
            "queries_short": 2,
            "duplicate_results": 0,
            "duplicate_labels": 2,
            "conflicting_labels": 1,
            "invalid_scores": 1,
        },
    }
    counts = audit(*inputs, protocol=protocol)
    assert {run: {name: counted[name] for name in expected[run]} for run, counted in counts.items()} == expected
    reported = evaluate(*inputs, protocol=protocol).report().counts
    assert {run: counted["duplicate_results"] for run, counted in reported.items()} == {"r": 1, "s": 0}


# the whole input


@pytest.mark.parametrize("stored", [False, True], ids=["frames", "files"])
def test_tables_without_a_row_are_refused(spark: SparkSession, tmp_path: Any, stored: bool) -> None:
    def table(frame: DataFrame, name: str) -> DataFrame:
        if not stored:
            return frame
        frame.write.parquet(str(tmp_path / name))
        return spark.read.parquet(str(tmp_path / name))

    scores, relevance = frames.scores(spark, SCORES), frames.relevance(spark, RELEVANCE)
    no_scores = table(frames.scores(spark, []), "no_scores")
    no_relevance = table(frames.relevance(spark, [], grade_type="double"), "no_relevance")
    with pytest.raises(ContractError) as error:
        evaluate(no_scores, relevance).report()
    assert faults_of(error) == [("scores", "", "no score rows at all", None, "")]
    with pytest.raises(ContractError, match="relevance: no labels at all"):
        audit(scores, no_relevance)
    with pytest.raises(ContractError, match="scores: no score rows at all"):
        audit(no_scores, no_relevance)


def test_a_list_of_queries_without_a_row_leaves_every_run_without_a_query(spark: SparkSession) -> None:
    queries = frames.queries(spark, [])
    with pytest.raises(ContractError, match="run 'r' has no query in common with the judged ones"):
        audit(frames.scores(spark, SCORES), frames.relevance(spark, RELEVANCE), queries=queries)


def test_a_fault_of_relevance_is_named_where_no_label_is_left_to_judge_by(spark: SparkSession) -> None:
    with pytest.raises(ContractError, match=re.escape("relevance.query_id: null query_id [2 at fault]")):
        audit(
            frames.scores(spark, SCORES), frames.relevance(spark, [(None, "a", 1), (None, "b", 1)], query_type="string")
        )


def test_a_run_without_a_judged_query_is_named_and_how_ids_look_on_both_sides(spark: SparkSession) -> None:
    scores = [("good", "7", "a", 1.0), ("odd", "007", "a", 1.0), ("odd", "08 ", "a", 1.0), ("loud", "X", "a", 1.0)]
    relevance = frames.relevance(spark, [("7", "a", 1), ("8", "a", 1), ("x", "a", 1)])
    common = "has no query in common with the judged ones"
    with pytest.raises(ContractError) as error:
        audit(frames.scores(spark, scores), relevance)
    loud, odd = error.value.faults
    assert loud.message.startswith(f"run 'loud' {common}; query ids look like string ")
    assert odd.message.startswith(f"run 'odd' {common}; query ids look like string ")
    in_scores, in_relevance = odd.message.split(" in scores, ")
    assert all(trait in in_scores for trait in ("'007' to 'X'", "leading zeros", "blanks around", "upper case"))
    assert in_relevance == "string '7' to 'x' in relevance"


def test_the_lazy_profile_of_runs_without_a_judged_query_is_zeros_with_counts(spark: SparkSession) -> None:
    evaluation = evaluate(
        frames.scores(spark, [("r", "007", "a", 1.0)]),
        frames.relevance(spark, RELEVANCE),
        protocol=Protocol(cutoffs=(1,)),
    )
    row = frames.profile_rows(evaluation)["r", "", "", 1]
    names = ("recall_macro", "recall_micro", "hits", "relevant", "queries", "queries_missing", "queries_unjudged")
    assert [row[name] for name in names] == [0.0, 0.0, 0, 2, 2, 2, 1]


def test_the_lazy_profile_without_a_label_is_nulls_with_counts(spark: SparkSession) -> None:
    evaluation = evaluate(
        frames.scores(spark, SCORES), frames.relevance(spark, RELEVANCE).where("false"), protocol=Protocol(cutoffs=(1,))
    )
    row = frames.profile_rows(evaluation)["r", "", "", 1]
    names = ("recall_macro", "recall_micro", "hits", "relevant", "queries", "queries_missing", "queries_unjudged")
    assert [row[name] for name in names] == [None, None, 0, 0, 0, 0, 2]


# warnings


def test_a_run_whose_items_meet_hardly_a_label_is_warned_of_with_how_items_look(spark: SparkSession) -> None:
    scores = [("r", "q", "A1", 1.0), ("r", "q", "007", 0.5), ("s", "q", "a1", 1.0)]
    report = evaluate(frames.scores(spark, scores), frames.relevance(spark, [("q", "a1", 1), ("q", "7", 1)])).report()
    assert list(report.warnings) == [
        "run 'r': 0 of 2 results meet a label, fewer than 1 in 1,000; items look like "
        "string '007' to 'a1' (leading zeros, upper case) in scores, string '7' to 'a1' in relevance"
    ]


def test_one_result_in_a_thousand_is_enough_not_to_be_warned(spark: SparkSession) -> None:
    # item 0 is judged: in 'enough' it is one of 1,000 results, in 'few' one of 1,001
    scores = spark.range(1000).selectExpr("'enough' as run_id", "1 as query_id", "id as item_id", "-id as score")
    more = spark.range(1001).selectExpr("'few' as run_id", "1 as query_id", "id as item_id", "-id as score")
    relevance = frames.relevance(spark, [(1, 0, 1)])
    report = evaluate(scores.union(more), relevance, protocol=Protocol(cutoffs=(1,), depth=1001)).report()
    assert [warning.split(";")[0] for warning in report.warnings] == [
        "run 'few': 1 of 1,001 results meet a label, fewer than 1 in 1,000"
    ]


@pytest.mark.parametrize(
    ("frame", "columns"), [("profile", ("k", "recall_macro")), ("per_query", ("query_id", "ranks"))]
)
@pytest.mark.parametrize("fault", ["missing query", "short list"])
def test_a_policy_refuses_a_reader_of_measures_alone(
    spark: SparkSession, fault: str, frame: str, columns: tuple[str, ...]
) -> None:
    (case,) = (case for case in CASES if case.fault == fault)
    with pytest.raises(frames.SPARK_ERRORS, match=case.pattern):
        frame_of(case.evaluation(spark), frame).select(*columns).collect()
