"""The rules of the house, read off the source text of the package: who may import whom, and what nobody does.

Nothing is imported from the package but its schemas; a rule that is broken names file and line.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql.types import StringType, StructType

from recallk_spark import schema

PACKAGE = Path(__file__).parents[1] / "recallk_spark"

# A room imports only rooms that stand before it. A new room gets its place here.
ROOMS = [
    # words and values
    *("errors", "policies", "protocol", "plans", "schema", "settings", "config"),
    # demo data
    *("shop", "demo"),
    # publishing
    *("keys", "owners", "storage", "versions", "parts", "recovery", "manifest", "attempt", "sinks"),
    # inputs
    *("locations", "specs", "snapshot", "text_sources", "arrays", "json_lines", "opening", "union", "sources"),
    # the way of a row
    *("columns", "checks", "watch", "contract", "ranking", "judging", "lists", "counting", "ndcg", "histogram"),
    *("grid", "uncertainty", "profile", "chain", "refusals", "report", "evaluation"),
    # the command line
    *("session", "running", "inputs", "job", "terminal", "cli"),
    # the door: what `import recallk_spark` gives
    "__init__",
]

# rooms that never name pyspark, neither on top nor inside a function nor for a type checker
WITHOUT_SPARK = {
    *("errors", "policies", "protocol", "plans", "settings", "config", "shop", "demo"),
    *("keys", "owners", "storage", "versions", "parts", "recovery", "manifest", "attempt", "sinks"),
    *("locations", "specs", "snapshot"),
    *("report", "terminal"),
}

# of these the ones that take the names of columns from schema, whose types are Spark's
NAME_COLUMNS = {"specs", "snapshot"}

TREES = {
    path.relative_to(PACKAGE).with_suffix("").as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}
MAX_LINES = 300
NAMES_OF_NOTHING = {"utils", "util", "common", "helpers", "helper", "misc", "tools"}


# the order of the rooms


def test_every_room_has_its_place_in_the_order() -> None:
    assert len(set(ROOMS)) == len(ROOMS)
    assert {"without a place in ROOMS": sorted(set(TREES) - set(ROOMS)), "gone": sorted(set(ROOMS) - set(TREES))} == {
        "without a place in ROOMS": [],
        "gone": [],
    }


def test_a_room_imports_only_rooms_that_stand_before_it() -> None:
    place = {room: number for number, room in enumerate(ROOMS)}
    upward = [
        f"{room}.py:{line} imports {other}, which does not stand before {room} in ROOMS"
        for room in TREES
        for line, other in rooms_imported(TREES[room])
        if place.get(other, -1) >= place.get(room, len(ROOMS))
    ]
    assert upward == []


def test_rooms_import_each_other_in_no_circle() -> None:
    imports = {room: {other for _, other in rooms_imported(TREES[room])} for room in TREES}
    while free := {room for room, others in imports.items() if not others & set(imports)}:
        imports = {room: others for room, others in imports.items() if room not in free}
    assert imports == {}, "these rooms wait for one another"


def test_rooms_that_need_no_spark_never_name_it() -> None:
    assert set(ROOMS) >= WITHOUT_SPARK
    found = [
        f"{room}.py:{line} imports {module}"
        for room in sorted(WITHOUT_SPARK & set(TREES))
        for line, module, _ in imported(TREES[room])
        if module.split(".")[0] in ("pyspark", "py4j")
    ]
    assert found == []


def test_the_door_and_the_command_line_open_without_pyspark() -> None:
    # pyspark is an extra, and what reads published results must not wait for it to load
    for room in sorted(({"__init__", "cli"} | WITHOUT_SPARK - NAME_COLUMNS) & set(TREES)):
        assert [chain for chain in loading(room) if chain[-1].startswith("pyspark")] == []


def test_no_room_loads_what_an_evaluation_does_not_need() -> None:
    """Each costs a second of every start. pyspark itself loads pandas when it starts a session, where it finds it."""
    rooms = ", ".join(f"recallk_spark.{name}" for name in ROOMS)
    heavy = "{'pandas', 'matplotlib', 'scipy', 'IPython', 'pyspark.pandas'}"
    code = f"import sys, {rooms}; sys.exit(str({heavy} & set(sys.modules) or ''))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert loaded.stderr.strip() == ""


def test_only_the_door_loads_rooms_by_their_name() -> None:
    loaders = {"import_module", "__import__"}
    assert {room for room, tree in TREES.items() for _, name in names_used(tree) if name in loaders} <= {"__init__"}


def test_no_room_is_named_for_having_no_name() -> None:
    assert sorted(room for room in TREES if room.split("/")[-1].strip("_") in NAMES_OF_NOTHING) == []


# what nobody does


@pytest.mark.parametrize(
    ("why", "names"),
    [
        ("Spark Connect has none of it", ("sparkContext", "_sc", "_jvm", "_jdf", "_jsparkSession", "_jc", "rdd")),
        ("rows stay with Spark; toArrow gives small results", ("toPandas", "foreach", "foreachPartition")),
        (
            "no Python runs per row",
            (
                *("udf", "udtf", "pandas_udf", "arrow_udf", "mapInPandas", "mapInArrow", "applyInPandas"),
                *("applyInArrow", "cogroup", "transformWithState", "transformWithStateInPandas"),
            ),
        ),
        (
            "a view has a name that others may use",
            ("createTempView", "createGlobalTempView", "createOrReplaceTempView", "createOrReplaceGlobalTempView"),
        ),
        ("the caller's memory is the caller's", ("cache", "persist", "unpersist", "checkpoint", "localCheckpoint")),
        ("logging is the caller's", ("basicConfig",)),
    ],
)
def test_nobody_uses(why: str, names: tuple[str, ...]) -> None:
    banned = set(names)
    found = [
        f"{room}.py:{node.lineno} uses {name}"
        for room, tree in TREES.items()
        for node, name in names_used(tree)
        if name in banned and not (name == "cache" and is_functools_cache(node))
    ]
    assert found == [], why


def test_nobody_asks_whether_something_is_a_spark_session() -> None:
    found = [
        f"{room}.py:{call.lineno}"
        for room, call in calls()
        if called(call) == "isinstance" and "SparkSession" in {name for _, name in names_used(call)}
    ]
    assert found == [], "a Connect session is one too"


HIGHER_ORDER = ("filter", "transform", "aggregate", "reduce", "exists", "forall", "zip_with", "map_filter")


def test_nobody_hands_spark_a_python_function() -> None:
    found = [
        f"{room}.py:{call.lineno}"
        for room, call in calls()
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "F"
        and (call.func.attr in HIGHER_ORDER or any(isinstance(argument, ast.Lambda) for argument in call.args))
        and room != "json_lines"  # its expressions are made in Python, and a file of lines is read once a job
    ]
    assert found == [], "its variables are numbered anew each time, so that what was compiled serves once; write SQL"


def test_nobody_changes_a_setting_of_the_callers_session() -> None:
    found = [
        f"{room}.py:{call.lineno}"
        for room, call in calls()
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in ("set", "unset")
        and isinstance(call.func.value, ast.Attribute)
        and call.func.value.attr == "conf"
    ]
    assert found == []


def test_only_the_session_room_starts_spark() -> None:
    starting = {room for room, tree in TREES.items() for _, name in names_used(tree) if name == "getOrCreate"}
    assert starting == {"session"}


def test_only_the_command_line_prints() -> None:
    assert {room for room, call in calls() if isinstance(call.func, ast.Name) and call.func.id == "print"} == {"cli"}


def test_every_join_names_how_and_on() -> None:
    joins = [(room, call) for room, call in calls() if is_join_of_frames(room, call)]
    assert len(joins) >= 5, "the rule no longer sees the joins that there are"
    found = []
    for room, call in joins:
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        how = given.get("how")
        is_cross = isinstance(how, ast.Constant) and how.value == "cross"
        if how is None or (("on" in given) is is_cross):
            found.append(f"{room}.py:{call.lineno}: {ast.unparse(call)[-80:]}")
    assert found == [], "every join has how=, and on= unless it is a cross"


# size and words


def test_no_room_is_longer_than_it_may_be() -> None:
    lengths = {room: len((PACKAGE / f"{room}.py").read_text(encoding="utf-8").splitlines()) for room in TREES}
    assert {room: lines for room, lines in lengths.items() if lines > MAX_LINES} == {}, "a long file is two rooms"


def test_every_module_class_and_function_that_others_see_says_what_it_is() -> None:
    found = [
        f"{room}.py:{getattr(node, 'lineno', 1)} {getattr(node, 'name', 'module')}"
        for room, tree in TREES.items()
        for node in (tree, *public(tree))
        if not (ast.get_docstring(node) or "").strip()
    ]
    assert found == []


# schemas


SCHEMAS = {name: value for name, value in vars(schema).items() if isinstance(value, StructType)}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_names_each_column_once_in_lower_case_and_types_ids_alike(name: str) -> None:
    names = SCHEMAS[name].names
    assert len({column.lower() for column in names}) == len(names)
    assert [column for column in names if not re.fullmatch(r"[a-z][a-z0-9_]*", column)] == []
    ids = [field for field in SCHEMAS[name] if field.name.endswith("_id")]
    assert [field.name for field in ids if field.dataType != StringType()] == []
    assert ids, "a row without a key"


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_says_what_one_row_is(name: str) -> None:
    lines = (PACKAGE / "schema.py").read_text(encoding="utf-8").splitlines()
    start = lines.index(f"{name} = StructType(")
    above = next(number for number in range(start - 1, -1, -1) if not lines[number].startswith("#"))
    assert "one row is" in " ".join(lines[above + 1 : start])


def test_the_profile_has_its_published_columns_with_measures_as_double_and_counts_as_bigint() -> None:
    assert schema.PROFILE.simpleString() == (
        "struct<run_id:string,relevance_set:string,min_grade:double,slice:string,slice_value:string,k:int,"
        "recall_macro:double,recall_macro_low:double,recall_macro_high:double,"
        "recall_micro:double,recall_micro_low:double,recall_micro_high:double,"
        "recall_capped_macro:double,precision_macro:double,f1_macro:double,hit_rate:double,mrr:double,map:double,"
        "ndcg:double,judged_macro:double,hits:bigint,relevant:bigint,retrieved:bigint,queries:bigint,"
        "queries_missing:bigint,queries_no_relevant:bigint,queries_unjudged:bigint,queries_short:bigint>"
    )


def test_the_per_query_table_has_its_published_columns() -> None:
    assert schema.PER_QUERY.simpleString() == (
        "struct<run_id:string,relevance_set:string,query_id:string,in_run:boolean,counted:boolean,num_relevant:int,"
        "num_judged:int,num_retrieved:int,num_relevant_returned:int,ranks:array<int>,grades:array<double>,"
        "ideal_grades:array<double>,slices:map<string,string>,weight:decimal(18,6),fingerprint:string>"
    )


def test_a_later_stage_keeps_the_columns_of_the_one_before() -> None:
    scores, ranked, judged = (
        [column for column in table.names if column != "score"]
        for table in (schema.SCORES, schema.RANKED, schema.JUDGED)
    )
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise([scores, ranked, judged]))


# reading the source


def imported(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Line, module and imported name of every import, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = f"recallk_spark.{node.module or ''}".rstrip(".") if node.level else str(node.module)
            yield from ((node.lineno, module, alias.name) for alias in node.names)


def rooms_imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of every room that is imported; what the door hands out is an import of the door."""
    for line, module, name in imported(tree):
        package, _, below = module.partition(".")
        if package == "recallk_spark":
            yield line, below.replace(".", "/") or (name if name in {*ROOMS, *TREES} else "__init__")


def loading(room: str, chain: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every chain of imports that loading a room sets off: those on top of a module, not for type checkers only."""
    chain = (*chain, room)
    top = ast.Module([node for node in TREES[room].body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    yield from ((*chain, module) for _, module, _ in imported(top) if not module.startswith("recallk_spark"))
    for other in {other for _, other in rooms_imported(top)} - set(chain):
        yield from loading(other, chain)


def names_used(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Every name and attribute that is read, called or imported from elsewhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node, node.attr
        elif isinstance(node, ast.Name):
            yield node, node.id
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from ((node, alias.name) for alias in node.names)  # type: ignore[misc]


def is_functools_cache(node: ast.AST) -> bool:
    """Whether `cache` here is the one of functools: a bare name, or imported from it."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.ImportFrom) and node.module == "functools")


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call of the package, with its room."""
    for room, tree in TREES.items():
        yield from ((room, node) for node in ast.walk(tree) if isinstance(node, ast.Call))


def called(call: ast.Call) -> str:
    """The name that is called, '' where it is no plain name."""
    return call.func.id if isinstance(call.func, ast.Name) else ""


def is_join_of_frames(room: str, call: ast.Call) -> bool:
    """Whether a call of `join` joins frames: not the pieces of a text, nor of a path."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "join" or room in WITHOUT_SPARK:
        return False
    receiver = call.func.value
    return not isinstance(receiver, ast.Constant | ast.JoinedStr) and ast.unparse(receiver) not in ("os.path", "path")


def public(tree: ast.AST) -> Iterator[ast.ClassDef | ast.FunctionDef]:
    """The classes and functions on top of a module, and the methods of these classes, whose names hide nothing."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node)
