"""What the README shows first is run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from recallk_spark.cli import build_parser
from recallk_spark.protocol import Protocol

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_first_example_prints_what_the_readme_shows(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(blocks("python")[0], "README.md", "exec"), {})
    assert capsys.readouterr().out.strip() == blocks("text")[0].strip()


def test_every_protocol_setting_stands_in_the_table() -> None:
    documented = set(re.findall(r"`([a-z_]+)`", README))
    assert set(Protocol().settings()) <= documented


def test_every_option_in_the_readme_exists() -> None:
    parser = build_parser()
    commands = next(action for action in parser._actions if action.dest == "command").choices
    known = {option for command in commands.values() for option in command._option_string_actions}
    ours = re.sub(r"(spark-submit --master|aws emr|docker compose up) .*", "", README)  # those have options of others
    shown = set(
        re.findall(
            r"(?<![\w-])(--[a-z][a-z-]+)", "\n".join(re.findall(r"recallk .*?```|`--.*?`", ours, flags=re.DOTALL))
        )
    )
    assert shown
    assert shown <= known | {"--master"}
