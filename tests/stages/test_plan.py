"""The physical plan: scores are read once and shuffled once, by query, and no Python runs per row.

The plan is read as a tree from `explain(mode="formatted")`, so a rule speaks of the way of the score rows from
their scan upward, not of words that occur somewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from recallk_spark import Protocol
from recallk_spark.chain import Chain, Inputs
from recallk_spark.plans import Plan
from recallk_spark.watch import Watch
from tests import frames
from tests.quick import COMPILED

SCORES = "query_id bigint, item_id bigint, score double, rank int, comment string"
RELEVANCE = "query_id bigint, item_id bigint, grade double, comment string"
QUERIES = "query_id bigint, land string, device string"


# a plan as a tree


@dataclass
class Node:
    """One operator: its name, what `explain` says of it, and the operators it reads from."""

    name: str
    detail: str
    parent: Node | None
    children: list[Node] = field(default_factory=list)

    def __iter__(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child

    def above(self) -> Iterator[Node]:
        """The operators its rows go through, nearest first."""
        node = self.parent
        while node:
            yield node
            node = node.parent

    def keys(self) -> list[str]:
        """The columns an exchange distributes by."""
        arguments = re.search(r"hashpartitioning\((.*), \d+\)", self.detail)
        return re.findall(r"(\w+)#\d+", arguments[1]) if arguments else []


def parse(explained: str) -> Node:
    """The tree that `explain(mode="formatted")` prints: names by indentation, then a paragraph about each number."""
    tree, _, paragraphs = explained.partition("\n\n\n")
    details = dict(re.findall(r"^\((\d+)\) (.+?)(?=^\(\d+\) |\Z)", paragraphs, re.MULTILINE | re.DOTALL))
    path: list[Node] = []
    for line in tree.strip().splitlines()[1:]:
        found = re.fullmatch(r"([ :]*)(?:[:+]- )?(?:\* )?(\S.*?) +\((\d+)\)", line)
        assert found, f"not a line of a plan: {line!r}"
        indent, name, number = found.groups()
        depth = 0 if not path else len(indent) // 3 + 1
        parent = path[depth - 1] if depth else None
        node = Node(name, details[number], parent)
        if parent:
            parent.children.append(node)
        path[depth:] = [node]
    return path[0]


def plan_of(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> Node:
    capsys.readouterr()
    frame.explain(mode="formatted")
    return parse(capsys.readouterr().out)


# the rules


def scans(plan: Node, path: Path) -> list[Node]:
    return [node for node in plan if "Scan" in node.name and f"{path.as_posix()}]" in node.detail]


def exchanges(nodes: list[Node]) -> list[Node]:
    return [node for node in nodes if "Exchange" in node.name]


def up_to(nodes: list[Node], word: str) -> list[Node]:
    """The operators before the first whose name ends in a word, which must be there."""
    place = next((number for number, node in enumerate(nodes) if node.name.endswith(word)), None)
    assert place is not None, f"no {word} in {[node.name for node in nodes]}"
    return nodes[:place]


def assert_one_scan_and_one_shuffle(plan: Node, scores: Path) -> None:
    """Score rows are read by one scan and meet one exchange, by query, before they are ranked, and none after it
    before they have become one row a list."""
    found = scans(plan, scores)
    assert len(found) == 1, f"{len(found)} scans of the scores"
    way = list(found[0].above())
    before_ranking = exchanges(up_to(way, "Window"))
    assert [node.keys() for node in before_ranking] == [["query_id"]], [node.detail for node in before_ranking]
    before_lists = exchanges(up_to(way, "Aggregate"))
    assert before_lists == before_ranking, f"ranked rows are exchanged again: {[n.detail for n in before_lists[1:]]}"


def assert_no_python(plan: Node) -> None:
    found = [node.name for node in plan if re.search(r"Python|Pandas|InArrow|InPandas|CoGroup", node.name)]
    assert found == []


def joins_of_scores(plan: Node, scores: Path) -> list[str]:
    """The joins that score rows go through before they have become one row a list."""
    way = up_to(list(scans(plan, scores)[0].above()), "Aggregate")
    return [node.name.split(" ")[0] for node in way if "Join" in node.name]


def limits(plan: Node, scores: Path) -> int:
    """How many partial limits cut the lists of score rows before they have become one row a list."""
    way = up_to(list(scans(plan, scores)[0].above()), "Aggregate")
    return sum(node.name == "WindowGroupLimit" for node in way)


# the tables


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parquet files with one row each; what they hold is of no consequence to a plan."""
    folder = tmp_path_factory.mktemp("plan")
    ids = {"run_id": ["r"], "query_id": [1], "item_id": [1], "comment": ["-"]}
    tables: dict[str, dict[str, list[Any]]] = {
        "scores": {**ids, "score": [1.0], "rank": pa.array([1], pa.int32())},
        "relevance": {**ids, "grade": [1.0]},
        "queries": {"query_id": [1], "land": ["de"], "device": ["app"]},
    }
    for name, columns in tables.items():
        (folder / name).mkdir()
        pq.write_table(pa.table(columns), folder / name / "part.parquet")
    return folder


@pytest.fixture(scope="module", params=["broadcast", "sort-merge"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> SparkSession:
    """A session where relevance is small enough to be broadcast, and one where no table is."""
    if request.param == "broadcast":
        return spark
    session = spark.newSession()
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", -1)
    session.conf.set("spark.sql.adaptive.autoBroadcastJoinThreshold", -1)
    return session


def chain(
    spark: SparkSession,
    folder: Path,
    *,
    scores: str = f"run_id string, {SCORES}",
    relevance: str = RELEVANCE,
    slices: tuple[str, ...] = (),
    watched: bool = False,
    plan: Plan = Plan.WINDOW,
    **settings: Any,
) -> Chain:
    """The chain of a lazy frame or, watched, that of an audit."""

    def read(name: str, columns: str) -> DataFrame:
        return spark.read.schema(columns).parquet(str(folder / name))

    queries = read("queries", QUERIES) if slices else None
    inputs = Inputs(read("scores", scores), read("relevance", relevance), queries, slices)
    protocol = Protocol(**{"cutoffs": (10,), **settings})
    watch = Watch() if watched else None
    return Chain(inputs, protocol, watch=watch, every_repeat=watched and plan is Plan.WINDOW, plan=plan)


# scores are read once and shuffled once


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"scores": SCORES},
        {"slices": ("land", "land*device")},
        {"slices": ("land",), "scores": SCORES.replace("bigint", "int")},
        {"duplicates": "collapse"},
        {"duplicates": "error", "missing_queries": "error", "unjudged_queries": "error", "short_lists": "error"},
        {"min_grade": (0.5, 1, 3)},
        {"min_grade": (1, 2), "slices": ("land",), "no_relevant": "error"},
        {"watched": True},
        {"watched": True, "min_grade": (1, 2)},
        {"watched": True, "slices": ("land",), "scores": SCORES.replace("bigint", "int")},
    ],
    ids=[
        "with runs",
        "without runs",
        "with queries and slices",
        "with queries and narrow ids",
        "collapse",
        "every error policy",
        "several min_grades",
        "several min_grades with queries",
        "audit",
        "audit of several min_grades",
        "audit with queries and narrow ids",
    ],
)
def test_scores_are_read_once_and_shuffled_once_by_query(
    session: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str], given: dict[str, Any]
) -> None:
    plan = plan_of(chain(session, folder, **given).profile, capsys)
    assert_one_scan_and_one_shuffle(plan, folder / "scores")
    assert_no_python(plan)
    large = session.conf.get("spark.sql.autoBroadcastJoinThreshold") == "-1"
    joins = 2 if "slices" in given else 1  # with the list of queries, where there is one, and with the labels
    assert joins_of_scores(plan, folder / "scores") == ["SortMergeJoin" if large else "BroadcastHashJoin"] * joins
    assert limits(plan, folder / "scores") >= 1


@pytest.mark.parametrize(
    ("score_type", "settings"),
    [
        ("float", {}),
        ("decimal(20,6)", {"score_order": "asc"}),
        ("bigint", {"score_precision": "float32", "tie_break": "item_desc"}),
        ("double", {"tie_break": "rank"}),
        ("double", {"invalid_scores": "drop", "duplicate_relevance": "error", "no_relevant": "error"}),
        ("double", {"invalid_scores": "last", "gain": "exponential", "min_grade": 0.5}),
    ],
)
def test_the_plan_is_the_same_for_every_score_type_and_order(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str], score_type: str, settings: dict[str, Any]
) -> None:
    with_strings = {
        "scores": SCORES.replace("bigint", "string").replace("score double", f"score {score_type}"),
        "relevance": RELEVANCE.replace("bigint", "string"),
    }
    plan = plan_of(chain(spark, folder, **with_strings, **settings).profile, capsys)
    assert_one_scan_and_one_shuffle(plan, folder / "scores")
    assert_no_python(plan)
    assert limits(plan, folder / "scores") == 1


@pytest.mark.parametrize("slices", [(), ("land",)])
def test_several_min_grades_exchange_and_aggregate_as_often_as_one(
    session: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str], slices: tuple[str, ...]
) -> None:
    def heavy(**settings: Any) -> list[str]:
        plan = plan_of(chain(session, folder, slices=slices, **settings).profile, capsys)
        kinds = ("Exchange", "Aggregate", "Window", "Join")
        return [node.name for node in plan if any(kind in node.name for kind in kinds)]

    assert heavy(min_grade=(1, 2, 3)) == heavy(min_grade=1)


@pytest.mark.parametrize(("depth", "cut_on_the_way"), [(1, True), (1000, True), (1001, False)])
def test_lists_are_cut_on_the_way_up_to_a_depth_of_a_thousand(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str], depth: int, cut_on_the_way: bool
) -> None:
    plan = plan_of(chain(spark, folder, cutoffs=(1,), depth=depth).profile, capsys)
    assert (limits(plan, folder / "scores") > 0) is cut_on_the_way
    assert_one_scan_and_one_shuffle(plan, folder / "scores")


# what is read


@pytest.mark.parametrize(("tie_break", "order"), [("item_asc", "score:double"), ("rank", "rank:int")])
def test_no_column_is_read_that_is_not_needed(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str], tie_break: str, order: str
) -> None:
    plan = plan_of(chain(spark, folder, tie_break=tie_break).profile, capsys)
    (scan,) = scans(plan, folder / "scores")
    assert f"ReadSchema: struct<run_id:string,query_id:bigint,item_id:bigint,{order}>" in scan.detail
    for scan in scans(plan, folder / "relevance"):
        assert "ReadSchema: struct<query_id:bigint,item_id:bigint,grade:double>" in scan.detail


@pytest.mark.parametrize(("columns", "read"), [(SCORES, []), (f"run_id string, {SCORES}", ["struct<run_id:string>"])])
def test_the_per_query_table_reads_scores_once_and_the_names_of_runs_once_more(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str], columns: str, read: list[str]
) -> None:
    plan = plan_of(chain(spark, folder, scores=columns).per_query, capsys)
    schemas = [re.findall(r"ReadSchema: (\S+)", scan.detail)[0] for scan in scans(plan, folder / "scores")]
    assert sorted(schema for schema in schemas if "score" not in schema) == read
    assert len(schemas) == 1 + len(read)
    assert_no_python(plan)


# the rules can be broken


def test_the_rules_see_scores_that_are_shuffled_again(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # without a repartition by query the window shuffles by query and run, and the join by query once more
    large = spark.newSession()
    large.conf.set("spark.sql.autoBroadcastJoinThreshold", -1)
    monkeypatch.setattr(ClassicDataFrame, "repartition", lambda frame, *_: frame)
    plan = plan_of(chain(large, folder).profile, capsys)
    with pytest.raises(AssertionError, match="run_id"):
        assert_one_scan_and_one_shuffle(plan, folder / "scores")


def test_the_rules_see_a_second_scan_and_a_second_shuffle_and_python(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = spark.read.schema(SCORES).parquet(str(folder / "scores"))
    twice = scores.join(scores.groupBy("query_id").count(), on="query_id", how="inner")
    with pytest.raises(AssertionError, match="2 scans of the scores"):
        assert_one_scan_and_one_shuffle(plan_of(twice, capsys), folder / "scores")

    place = "row_number() over (partition by query_id order by score) as place"
    ranked = scores.repartition("query_id").selectExpr("*", place).where("place <= 3")
    assert_one_scan_and_one_shuffle(plan_of(ranked.groupBy("query_id").count(), capsys), folder / "scores")
    again = ranked.repartition("item_id").groupBy("item_id").count()
    with pytest.raises(AssertionError, match="ranked rows are exchanged again"):
        assert_one_scan_and_one_shuffle(plan_of(again, capsys), folder / "scores")

    with_python = scores.select(F.udf(lambda score: score, "double")("score"))
    with pytest.raises(AssertionError, match="EvalPython"):
        assert_no_python(plan_of(with_python, capsys))


# the pruned plan reads the scores twice and shuffles none of them


@pytest.fixture(scope="module")
def planned_ahead(spark: SparkSession) -> SparkSession:
    """A session that says before it runs which exchanges it will find alike, and no table small enough by itself."""
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", -1)
    return session


@pytest.mark.parametrize("watched", [False, True], ids=["lazy", "watched"])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"scores": SCORES},
        {"slices": ("land",), "scores": SCORES.replace("bigint", "int")},
        {"scores": SCORES.replace("bigint", "string"), "relevance": RELEVANCE.replace("bigint", "string")},
        {"unjudged_queries": "error", "missing_queries": "error", "invalid_scores": "last", "min_grade": (1, 2)},
        {"tie_break": "rank", "cutoffs": (10_000,)},
    ],
    ids=[
        "with runs",
        "without runs",
        "queries and narrow ids",
        "strings",
        "other policies",
        "by rank, as deep as can be",
    ],
)
def test_counting_reads_the_scores_twice_and_shuffles_none_of_them(
    planned_ahead: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str], given: dict[str, Any], watched: bool
) -> None:
    plan = plan_of(chain(planned_ahead, folder, plan=Plan.PRUNED, watched=watched, **given).profile, capsys)
    found = scans(plan, folder / "scores")
    ways = [up_to(list(scan.above()), "Exchange") for scan in found]
    kinds = sorted("counted" if any("Aggregate" in node.name for node in way) else "judged" for way in ways)
    assert kinds == ["counted", "judged"], [[node.name for node in way] for way in ways]
    for way in ways:
        assert [node.name.split(" ")[0] for node in way if "Join" in node.name][-1] == "BroadcastHashJoin"
        assert not any("Sort" in node.name or "Window" in node.name for node in way)
    assert len(scans(plan, folder / "relevance")) == 1  # all that needs the labels reads one exchange
    assert_no_python(plan)


# Java compiles no method of more than 8,000 bytes: it interprets it, many times slower; each Spark generates its own
HUGE_METHOD = 8000


@pytest.mark.parametrize("plan", list(Plan))
@pytest.mark.parametrize(
    "given",
    [
        {"scores": SCORES},
        {"slices": ("land", "land*device"), "min_grade": (1, 2, 3), "watched": True, "missing_queries": "exclude"},
        {"invalid_scores": "last", "no_relevant": "one", "gain": "exponential", "watched": True},
    ],
    ids=["one run, lazy", "slices and min_grades, watched", "other policies, watched"],
)
def test_no_generated_method_is_too_long_for_java_to_compile(
    planned_ahead: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str], plan: Plan, given: dict[str, Any]
) -> None:
    cutoffs = (1, 5, 10, 20, 50, 100, 200, 500, 1000)
    with frames.settings(planned_ahead, COMPILED):
        profile = chain(planned_ahead, folder, plan=plan, cutoffs=cutoffs, **given).profile
        capsys.readouterr()
        profile.explain(mode="codegen")
    sizes = [int(size) for size in re.findall(r"maxMethodCodeSize:(-?\d+)", capsys.readouterr().out)]
    assert len(sizes) > 5
    assert max(sizes) < HUGE_METHOD
