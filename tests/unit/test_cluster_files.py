"""What the cluster's files promise, read off their text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ["docker-compose.yml", "conf/Dockerfile"]
SETTINGS = ["conf/spark-defaults.conf", "conf/log4j2.properties", "conf/metrics.properties"]


def lines(file: str) -> list[str]:
    return (ROOT / file).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("file", FILES)
def test_no_image_is_whatever_is_latest(file: str) -> None:
    images = [line.split()[-1] for line in lines(file) if re.match(r"\s*(image:|FROM) ", line)]
    assert images
    assert [image for image in images if not re.fullmatch(r"[^:]+:(?!latest)[\w.-]+", image)] == []


def test_the_version_of_spark_stands_in_the_constraints_alone() -> None:
    [pin] = [line for line in lines("conf/constraints.txt") if line.startswith("pyspark==")]
    version = pin.partition("==")[2]
    assert [file for file in (*FILES, *SETTINGS) if any(version in line for line in lines(file))] == []


@pytest.mark.parametrize("word", ["version:", "container_name:", "privileged: true", "0.0.0.0"])
def test_compose_has_nothing_that_ties_it_to_one_compose_or_opens_it(word: str) -> None:
    assert [line for line in lines("docker-compose.yml") if line.strip().startswith(word)] == []


def test_every_port_is_of_this_machine_only() -> None:
    ports = re.findall(r'ports: \["(.*?)"\]', (ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    assert len(ports) == 4
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("file", SETTINGS)
def test_every_setting_stands_below_its_reason(file: str) -> None:
    bare = []
    reason = False
    for line in lines(file):
        reason = line.startswith("#") or (reason and bool(line))
        if line and not reason:
            bare.append(line)
    assert bare == []
