"""Names, versions and reading: what a root says is published, and the rows that come back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from recallk_spark import keys, schema, storage
from recallk_spark.errors import InputError
from recallk_spark.keys import Key, escape, unescape
from recallk_spark.manifest import published, read_table
from recallk_spark.storage import LocalStore, Store, open_store
from recallk_spark.versions import Manifest, create_version, latest, list_manifests, versions

# as Spark 4.3.0 wrote them under partitionBy("run_id")
SPARK_NAMES = {
    "A": "run_id=A",
    "a b": "run_id=a b",
    " ": "run_id= ",
    "trail. ": "run_id=trail. ",
    "x/y": "run_id=x%2Fy",
    "..": "run_id=..",
    ".y": "run_id=.y",
    "_x": "run_id=_x",
    "é": "run_id=é",
    "e\u0301": "run_id=e\u0301",
    "日本": "run_id=日本",
    "😀": "run_id=😀",
    "\x01\x1f\x7f": "run_id=%01%1F%7F",
    "a\tb\nc": "run_id=a%09b%0Ac",
    "%41": "run_id=%2541",
    "%zz": "run_id=%25zz",
    "<>|,;&+~!@$`()": "run_id=<>|,;&+~!@$`()",
    "a\"b#c%d'e*f/g:h=i?j\\k{l}m[n]o^p": "run_id=a%22b%23c%25d%27e%2Af%2Fg%3Ah%3Di%3Fj%5Ck%7Bl}m%5Bn%5Do%5Ep",
}


def put(root: Path, run_id: str, table: pa.Table | None, *, ds: str | None = None, version: int = 1) -> None:
    """Publishes a profile by hand: its manifest and, in place, its only file."""
    key = Key(ds, run_id)
    name = f"part-0-v{version}.parquet"
    if table is not None:
        (root / "profile" / key.directory).mkdir(parents=True, exist_ok=True)
        pq.write_table(table, root / "profile" / key.directory / name)
    files = [] if table is None else [{"name": name, "size": 1}]
    manifest = Manifest.of(key, version, "attempt", previous=None, tables={"profile": files}, extras={})
    assert create_version(open_store(str(root)), manifest)


def test_runs_are_named_in_directories_as_spark_names_them() -> None:
    assert {value: f"run_id={escape(value)}" for value in SPARK_NAMES} == SPARK_NAMES
    assert {unescape(name.removeprefix("run_id=")): name for name in SPARK_NAMES.values()} == SPARK_NAMES
    assert unescape("%4") == "%4"
    assert unescape("100%") == "100%"


@pytest.mark.parametrize("run_id", SPARK_NAMES)
def test_every_name_of_a_run_comes_back(tmp_path: Path, run_id: str) -> None:
    put(tmp_path, run_id, pa.table({"k": [1]}), ds="2026-11-29")
    assert read_table(str(tmp_path), "profile").to_pylist() == [{"ds": "2026-11-29", "run_id": run_id, "k": 1}]
    assert [one.run_id for one in published(str(tmp_path))] == [run_id]


def test_a_directory_names_a_key_or_none() -> None:
    assert Key.parse(["run_id=A"]) == Key(None, "A")
    assert Key.parse(["ds=2026-11-29", "run_id=x%2Fy"]) == Key("2026-11-29", "x/y")
    others = [[], ["A"], ["run_id="], ["run_id=__HIVE_DEFAULT_PARTITION__"], ["ds=2026-11-29"], ["run_id=A", "ds=x"]]
    assert [Key.parse(parts) for parts in others] == [None] * len(others)


def test_column_names_are_those_of_the_schemas() -> None:
    assert (keys.DS, keys.RUN) == (schema.DS, schema.RUN)


def test_the_highest_version_holds_and_only_its_successor_can_be_created(tmp_path: Path) -> None:
    store, key = open_store(str(tmp_path)), Key(None, "A")

    def create(version: int, attempt: str) -> bool:
        return create_version(store, Manifest.of(key, version, attempt, previous=None, tables={}, extras={}))

    assert latest(store, key) is None
    assert [create(1, "a"), create(1, "b"), create(3, "c"), create(2, "d"), create(2, "e")] == [
        True,
        False,
        False,
        True,
        False,
    ]
    holding = latest(store, key)
    assert holding
    assert (holding.version, holding.attempt) == (2, "d")
    assert versions(store, key) == [1, 2]
    assert list_manifests(store).versions == {key: [1, 2]}
    assert sorted(os.listdir(tmp_path / "_manifest" / "run_id=A")) == ["v000001.json", "v000002.json"]


def test_versions_go_on_past_six_digits(tmp_path: Path) -> None:
    put(tmp_path, "A", pa.table({"k": [1]}))
    directory = tmp_path / "_manifest" / "run_id=A"
    content = json.loads((directory / "v000001.json").read_text())
    (directory / "v999999.json").write_text(json.dumps({**content, "version": 999_999}))
    put(tmp_path, "A", pa.table({"k": [2]}), version=1_000_000)
    assert [one.version for one in published(str(tmp_path))] == [1_000_000]


def test_what_is_published_is_listed_by_day_then_run(tmp_path: Path) -> None:
    for ds, run_id in (("2026-11-29", "A"), ("2026-11-28", "B"), ("2026-11-28", "A")):
        put(tmp_path, run_id, pa.table({"k": [1]}), ds=ds)
    assert [(one.ds, one.run_id) for one in published(str(tmp_path))] == [
        ("2026-11-28", "A"),
        ("2026-11-28", "B"),
        ("2026-11-29", "A"),
    ]


def test_a_manifest_says_what_the_writer_told(tmp_path: Path) -> None:
    told: dict[str, Any] = {
        "fingerprint": "f",
        "schema_version": 1,
        "row_counts": {"profile": 5},
        "started": "2026-11-30T00:00:00+00:00",
        "finished": "2026-11-30T00:01:00+00:00",
        "inputs": [{"path": "scores", "size": 7, "mtime": "unknown"}],
    }
    manifest = Manifest.of(Key(None, "A"), 1, "a2", previous="a1", tables={"profile": []}, extras=told)
    assert create_version(open_store(str(tmp_path)), manifest)
    (one,) = published(str(tmp_path))
    assert (one.fingerprint, one.schema_version, one.row_counts, one.tables) == ("f", 1, {"profile": 5}, ("profile",))
    assert (one.started, one.finished) == ("2026-11-30T00:00:00+00:00", "2026-11-30T00:01:00+00:00")
    assert one.details["inputs"] == told["inputs"]
    assert (one.attempt, one.details["previous_attempt"]) == ("a2", "a1")


def test_rows_are_selected_by_day_run_columns_and_filters(tmp_path: Path) -> None:
    for number, (ds, run_id) in enumerate([("2026-11-28", "A"), ("2026-11-29", "A"), ("2026-11-29", "B")]):
        put(tmp_path, run_id, pa.table({"slice": ["", "x"], "k": [number, 10 + number]}), ds=ds)
    root = str(tmp_path)
    assert read_table(root, "profile", ds="2026-11-29", run_id="B").to_pylist() == [
        {"ds": "2026-11-29", "run_id": "B", "slice": "", "k": 2},
        {"ds": "2026-11-29", "run_id": "B", "slice": "x", "k": 12},
    ]
    assert read_table(root, "profile", run_id="A", columns=["k", "ds"], filters=[("slice", "=", "")]).to_pylist() == [
        {"k": 0, "ds": "2026-11-28"},
        {"k": 1, "ds": "2026-11-29"},
    ]
    assert read_table(root, "profile", columns=["k"], filters=pc.field("run_id") == "B")["k"].to_pylist() == [2, 12]


def test_a_column_that_older_files_lack_is_null(tmp_path: Path) -> None:
    put(tmp_path, "A", pa.table({"k": [1]}))
    put(tmp_path, "B", pa.table({"k": [2], "coverage": [0.5]}))
    assert read_table(str(tmp_path), "profile", columns=["run_id", "coverage"]).to_pylist() == [
        {"run_id": "A", "coverage": None},
        {"run_id": "B", "coverage": 0.5},
    ]


def test_a_run_without_rows_has_the_columns_of_the_others(tmp_path: Path) -> None:
    put(tmp_path, "A", None)
    assert read_table(str(tmp_path), "profile", columns=["run_id", "k"]).schema == pa.schema(
        [("run_id", pa.string()), ("k", pa.null())]
    )
    put(tmp_path, "B", pa.table({"k": [2]}))
    found = read_table(str(tmp_path), "profile", run_id="A")
    assert (found.num_rows, found.schema) == (0, pa.schema([("run_id", pa.string()), ("k", pa.int64())]))


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"ds": "2026-11-27"}, r"no published result of 2026-11-27 in .*; did you mean '2026-11-2[89]'\?"),
        ({"run_id": "base"}, r"no published result of run 'base' in .*; did you mean 'baseline'\?"),
        ({"ds": "2026-11-28", "run_id": "X"}, r"no published result of run 'X' of 2026-11-28 in .*; known: baseline"),
        ({"table": "per_query"}, r"'per_query' is not published in .* for run 'baseline' of 2026-11-28 \(2 such\)"),
        ({"columns": ["recal"]}, r"cannot read 'profile' in .*recal"),
    ],
)
def test_what_is_not_there_is_said(tmp_path: Path, selection: dict[str, Any], message: str) -> None:
    for ds in ("2026-11-28", "2026-11-29"):
        put(tmp_path, "baseline", pa.table({"k": [1]}), ds=ds)
    with pytest.raises(InputError, match=message):
        read_table(str(tmp_path), **{"table": "profile", **selection})


def test_an_empty_or_missing_root_is_said(tmp_path: Path) -> None:
    assert published(str(tmp_path)) == []
    with pytest.raises(InputError, match="no published result in"):
        read_table(str(tmp_path), "profile")
    for reader in (published, lambda root: read_table(root, "profile")):
        with pytest.raises(InputError, match="does not exist"):
            reader(str(tmp_path / "typo"))


def test_a_root_that_is_not_by_day_has_no_day(tmp_path: Path) -> None:
    put(tmp_path, "A", pa.table({"k": [1]}))
    with pytest.raises(InputError, match="it is not by day, leave 'ds' out"):
        read_table(str(tmp_path), "profile", ds="2026-11-29")


def test_ids_of_two_types_are_refused_together(tmp_path: Path) -> None:
    put(tmp_path, "A", pa.table({"query_id": ["1"]}))
    put(tmp_path, "B", pa.table({"query_id": [1]}))
    with pytest.raises(InputError, match=r"cannot read 'profile' in .*query_id"):
        read_table(str(tmp_path), "profile")


def test_files_deleted_by_hand_are_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recallk_spark.manifest._PAUSE", 0)
    put(tmp_path, "A", pa.table({"k": [1]}))
    (tmp_path / "profile" / "run_id=A" / "part-0-v1.parquet").unlink()
    with pytest.raises(InputError, match=r"cannot read 'profile' in .*; if files are gone, evaluate again"):
        read_table(str(tmp_path), "profile")


def test_a_move_between_looking_and_reading_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "A", pa.table({"k": [1]}))
    place = tmp_path / "profile" / "run_id=A"
    hidden = tmp_path / "_attempts" / "attempt" / "profile"
    hidden.mkdir(parents=True)
    place.rename(hidden / "run_id=A")
    assert read_table(str(tmp_path), "profile")["k"].to_pylist() == [1]

    names = LocalStore.names

    def moved_right_after(store: LocalStore, directory: str) -> list[str]:
        found = names(store, directory)
        if directory == "profile/run_id=A" and not found:
            (hidden / "run_id=A").rename(place)
        return found

    monkeypatch.setattr(LocalStore, "names", moved_right_after)
    assert read_table(str(tmp_path), "profile")["k"].to_pylist() == [1]
    assert place.exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": "x"}'])
def test_a_damaged_manifest_is_named(tmp_path: Path, text: str) -> None:
    put(tmp_path, "A", pa.table({"k": [1]}))
    (tmp_path / "_manifest" / "run_id=A" / "v000001.json").write_text(text)
    with pytest.raises(InputError, match=r"v000001.json is not a manifest of recallk"):
        published(str(tmp_path))


def test_a_manifest_of_a_later_release_is_not_guessed_at(tmp_path: Path) -> None:
    put(tmp_path, "A", pa.table({"k": [1]}))
    (tmp_path / "_manifest" / "run_id=A" / "v000001.json").write_text('{"format": 2}')
    with pytest.raises(InputError, match="was written by a later release of recallk; upgrade"):
        published(str(tmp_path))


@pytest.fixture(params=["local", "any"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Store:
    if request.param == "local":
        return LocalStore(str(tmp_path))
    return Store(str(tmp_path), LocalFileSystem(), str(tmp_path))


def test_a_store_keeps_files(store: Store) -> None:
    assert (store.names("a"), store.files("a"), store.exists("a")) == ([], [], False)
    store.write("a/b/c", b"1")
    store.write("a/.d", b"23")
    assert (store.names("a"), store.files("a"), store.files("")) == ([".d", "b"], [".d", "b/c"], ["a/.d", "a/b/c"])
    assert (store.read("a/b/c"), store.size("a/.d"), store.is_file("a/b"), store.is_file("a/b/c")) == (
        b"1",
        2,
        False,
        True,
    )
    store.move("a/b/c", "a/e")
    store.delete("a/.d")
    store.delete("a/.d")
    assert store.files("") == ["a/e"]
    store.delete_tree("a")
    store.delete_tree("a")
    assert store.names("") == []


def test_a_store_gives_a_name_once(store: Store) -> None:
    store.write("one", b"1")
    store.write("two", b"2")
    assert [store.create("one", "name"), store.create("two", "name")] == [True, False]
    assert store.read("name") == b"1"


def test_a_name_got_by_a_request_whose_answer_was_lost_is_got(tmp_path: Path) -> None:
    """As over NFS: the link is made, and the repeated request finds it made."""
    store = LocalStore(str(tmp_path))
    store.write("one", b"1")
    os.link(tmp_path / "one", tmp_path / "name")
    assert store.create("one", "name")


def test_locations_are_local_paths_or_uris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_store(f"file://{tmp_path}/a%20b").root == f"{tmp_path}/a%20b"
    assert open_store(f"file:{tmp_path}").root == str(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert open_store("out/").spark_location("x") == f"file://{tmp_path}/out/x"
    with pytest.raises(InputError, match="cannot open dbfs:/out: "):
        open_store("dbfs:/out")

    class Opened:
        @staticmethod
        def from_uri(uri: str) -> tuple[Any, str]:
            assert uri == "s3://bucket/out/"
            return LocalFileSystem(), "bucket/out/"

    monkeypatch.setattr(storage, "FileSystem", Opened)
    store = open_store("s3a://bucket/out/")
    assert (store.spark_location("x"), store.location("x")) == ("s3a://bucket/out/x", "bucket/out/x")
