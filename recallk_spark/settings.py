"""The keys a configuration knows: their full names, and how a value of each is read and checked.

A key is SECTION.KEY (`job.output`, `protocol.tie_break`, `spark.master`); its environment variable is
RECALLK_SECTION_KEY with `job` left out. Only the kind of a value is judged here; what it says is judged by
Protocol and by the room that uses it.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from recallk_spark.plans import PLANS
from recallk_spark.protocol import Protocol

SECTIONS = ("job", "protocol", "spark")
PREFIX = "RECALLK_"


@dataclass(frozen=True)
class Kind:
    """One kind of value.

    Attributes:
        expected: what an error says was expected.
        check: takes a value as TOML types it, returns it in final form; raises TypeError or ValueError.
        parse: the same from a text, as the environment and the command line give it.
        words: the values there are, where they are few; an error names the nearest.
    """

    expected: str
    check: Callable[[Any], Any]
    parse: Callable[[str], Any]
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Key:
    """One key of the configuration: its section, its name within it, and the kind of its values."""

    section: str
    field: str
    kind: Kind

    @property
    def name(self) -> str:
        """The full name, as `--set` and messages spell it."""
        return f"{self.section}.{self.field}"

    @property
    def variable(self) -> str:
        """The environment variable of this key."""
        return PREFIX + (self.field if self.section == "job" else f"{self.section}_{self.field}").upper()


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError


def _text(value: Any) -> str:
    _require(isinstance(value, str))
    return str(value)


def _name(value: Any) -> str:
    _require(_text(value).strip() != "")
    return str(value)


def _optional(value: Any) -> str | None:
    return _text(value) or None


def _flag(value: Any) -> bool:
    _require(isinstance(value, bool))
    return bool(value)


def _flag_from(text: str) -> bool:
    return bool(("false", "true").index(text.strip().lower()))


def _integer(value: Any) -> int:
    _require(isinstance(value, int) and not isinstance(value, bool))
    return int(value)


def _number(value: Any) -> float:
    _require(isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300)
    return float(value)


def _seconds(value: Any) -> float:
    _require(_number(value) >= 0)
    return float(value)


def _integers(values: Any) -> tuple[int, ...]:
    _require(isinstance(values, list | tuple))
    return tuple(_integer(value) for value in values)


def _numbers(value: Any) -> float | tuple[float, ...]:
    return tuple(_number(each) for each in value) if isinstance(value, list | tuple) else _number(value)


def _names(values: Any) -> tuple[str, ...]:
    _require(isinstance(values, list | tuple))
    return tuple(_name(value) for value in values)


def _names_from(text: str) -> tuple[str, ...]:
    return _names([name.strip() for name in text.split(",")] if text.strip() else [])


def _words(text: str) -> list[str]:
    """A text split at blanks, with quotes as in a shell; a backslash is ordinary (some paths have them)."""
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", ""
    return list(lexer)


def _conf(value: Any) -> dict[str, str]:
    """Spark settings from a table (dots in an unquoted TOML key nest tables) or from texts KEY=VALUE."""
    if isinstance(value, Mapping):
        pairs = list(_flat(value, ""))
    else:
        split = [_text(pair).partition("=") for pair in value]
        _require(all(name.strip() and equals for name, equals, _ in split))
        pairs = [(name.strip(), text) for name, _, text in split]
    return dict(pairs)


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            _require(isinstance(value, str | int | float))
            yield prefix + name, str(value).lower() if isinstance(value, bool) else str(value)


TEXT = Kind("text in quotes", _text, _text)
OPTIONAL = Kind("text in quotes", _optional, _optional)
NAME = Kind("a name in quotes, not empty", _name, _name)
FLAG = Kind("true or false", _flag, _flag_from)
INTEGER = Kind("an integer", _integer, int)
NUMBER = Kind("a number", _number, lambda text: _number(float(text)))
SECONDS = Kind("a number of seconds, 0 or more", _seconds, lambda text: _seconds(float(text)))
NUMBERS = Kind(
    "a number or several, such as [1, 2] in a file and 1,2 elsewhere",
    _numbers,
    lambda text: _numbers([float(piece) for piece in text.split(",")]),
)
INTEGERS = Kind(
    "integers, such as [1, 5, 10] in a file and 1,5,10 elsewhere",
    _integers,
    lambda text: _integers([int(piece) for piece in text.split(",")]),
)
NAMES = Kind('names, such as ["country", "device"] in a file and country,device elsewhere', _names, _names_from)
SPECS = Kind(
    'specs, such as ["a=x.parquet", "b=y.csv"] in a file and a=x.parquet b=y.csv (blanks between) elsewhere',
    _names,
    lambda text: _names(_words(text)),
)
CONF = Kind(
    "a table of texts, numbers or true and false in a file, KEY=VALUE (blanks between) elsewhere",
    _conf,
    lambda text: _conf(_words(text)),
)


def _choice(*words: str) -> Kind:
    def check(value: Any) -> str:
        _require(value in words)
        return str(value)

    return Kind(f"one of {', '.join(words)}", check, lambda text: check(text.strip()), words)


def _kind_of(default: object) -> Kind:
    """The kind of a protocol setting, from its default: a new setting is a key here without being listed."""
    if isinstance(default, StrEnum):
        return Kind(f"one of {', '.join(type(default))}", _text, str.strip)  # Protocol judges the word
    kinds = {bool: FLAG, int: INTEGER, float: NUMBER, str: TEXT, tuple: INTEGERS}
    return kinds[type(default)]


_JOB: Mapping[str, Kind] = {
    "scores": SPECS,
    "relevance": OPTIONAL,
    "queries": OPTIONAL,
    "output": OPTIONAL,
    "slices": NAMES,
    "ds": OPTIONAL,
    "ds_column": NAME,
    "run_id": OPTIONAL,
    "plan": _choice(*PLANS),
    "per_query": FLAG,
    "allow_empty": FLAG,
    "replace_day": FLAG,
    "format": _choice("table", "json"),
    "job_timeout": SECONDS,
}
_PROTOCOL: Mapping[str, Kind] = {
    "preset": OPTIONAL,
    **{field.name: _kind_of(field.default) for field in dataclasses.fields(Protocol)},
    "min_grade": NUMBERS,
}
_SPARK: Mapping[str, Kind] = {"master": OPTIONAL, "remote": OPTIONAL, "conf": CONF}

KEYS: Mapping[str, Key] = {
    key.name: key
    for section, kinds in zip(SECTIONS, (_JOB, _PROTOCOL, _SPARK), strict=True)
    for key in (Key(section, field, kind) for field, kind in kinds.items())
}
