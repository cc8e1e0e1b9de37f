"""What the command line says before Spark starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from recallk_spark import session
from recallk_spark.cli import main
from recallk_spark.errors import SparkError


def java(folder: Path, says: str) -> None:
    folder.mkdir()
    program = folder / "java"
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n", encoding="utf-8")
    program.chmod(0o755)


def test_a_missing_pyspark_is_one_line_that_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [
        name for name in sys.modules if name.startswith("recallk_spark.") and "pyspark" in vars(sys.modules[name])
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "recallk_spark.job", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    assert main(["evaluate", "--scores", "a.parquet", "--relevance", "b.parquet"]) == 4
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "pip install 'recallk-spark[spark]'" in said


def test_a_missing_java_is_one_line_that_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkError, match=r"Java 17 or newer.*none on PATH; install Java 17"):
        session.require_java()


@pytest.mark.parametrize("says", ['openjdk version "11.0.2" 2019-01-15', 'java version "1.8.0_202"'])
def test_a_java_that_is_too_old_is_named(says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(tmp_path / "bin", says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkError, match=r"is (11|8); install Java 17"):
        session.require_java()


def test_java_17_and_later_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(tmp_path / "bin", 'openjdk version "21" 2023-09-19')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    session.require_java()


def test_an_output_that_is_a_table_is_refused_before_spark_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--scores", "a.parquet", "--relevance", "b.parquet", "--output", "table:x"]) == 2
    assert "not to a catalog table" in capsys.readouterr().err


def test_an_option_with_one_value_is_not_taken_from_the_last_of_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--scores", "a", "--relevance", "b", "--relevance", "c"]) == 2
    assert "--relevance is given twice" in capsys.readouterr().err
