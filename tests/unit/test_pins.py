"""Versions are pinned in one file; the copy that uv reads says the same."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_uv_and_pip_are_given_the_same_versions() -> None:
    lines = (ROOT / "conf" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert pins == project["tool"]["uv"]["constraint-dependencies"]
    assert any(pin.startswith("pyspark==4.3") for pin in pins)
