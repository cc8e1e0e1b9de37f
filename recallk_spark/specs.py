"""A SPEC of the command line as a value: `[NAME=][format:]location[@ds|@latest][@id=bigint]`. Spark is not needed."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Literal

from recallk_spark import locations
from recallk_spark.errors import UsageError, did_you_mean
from recallk_spark.schema import ITEM, QUERY


class Kind(StrEnum):
    """What an input is."""

    SCORES = "scores"
    RELEVANCE = "relevance"
    QUERIES = "queries"  # or any other table of ids: universe, aliases, exclusions


class Format(StrEnum):
    """How an input is stored."""

    PARQUET = "parquet"
    TABLE = "table"
    CSV = "csv"
    JSONL = "jsonl"
    TREC = "trec"  # a run or judgments, by the place it is given in
    ARRAYS = "arrays"  # Parquet or JSON lines: one row per query, with an array of (item, score)


ID_COLUMNS = (QUERY, ITEM, "canonical_id")
_TEXT_FORMATS = (Format.CSV, Format.JSONL, Format.TREC)
_COMPRESSED = re.compile(r"\.(gz|bz2|zst)$", re.IGNORECASE)
_ENDINGS: Mapping[str, Format] = {
    ".parquet": Format.PARQUET,
    ".csv": Format.CSV,
    ".json": Format.JSONL,
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".trec": Format.TREC,
    ".run": Format.TREC,
    ".qrel": Format.TREC,
    ".qrels": Format.TREC,
    ".txt": Format.TREC,  # as TREC's own qrels are handed out; no other format here ends so
}
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_LABELLED = re.compile(r"([^=/:@]*)=(.*)", re.DOTALL)  # a path that holds '=' has a '/' before it, or exists
_FORMATTED = re.compile(r"([A-Za-z0-9_+-]+):(.*)", re.DOTALL)
_SUFFIXED = re.compile(r"(.*?)((?:@ds|@latest|@id=\w*)*)", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """Where an input stands and how to read it; `str()` gives a SPEC that parses back to the same value.

    Attributes:
        format: how it is stored.
        location: path or table name, without suffixes.
        label: NAME of `NAME=SPEC` (run_id of scores, source of relevance), '' where none was given.
        day: '' reads the whole, 'ds' the day that is evaluated, 'latest' the greatest day up to it.
        id_types: (column, 'bigint') for each id column that `@id=bigint` makes an integer; else ids are text.
    """

    format: Format
    location: str
    label: str = ""
    day: Literal["", "ds", "latest"] = ""
    id_types: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        label = f"{self.label}=" if self.label else ""
        day = f"@{self.day}" if self.day else ""
        return f"{label}{self.format}:{self.location}{day}{'@id=bigint' if self.id_types else ''}"

    @property
    def json_lines(self) -> bool:
        """Whether the file holds JSON lines: always under `jsonl:`, by the file's ending under `arrays:`."""
        by_ending = self.format is Format.ARRAYS and _format_of(self.location) is Format.JSONL
        return self.format is Format.JSONL or by_ending

    @property
    def is_text(self) -> bool:
        """Whether the file is read line by line."""
        return self.format in _TEXT_FORMATS or self.json_lines

    @property
    def stem(self) -> str:
        """The name a path gives its run: its last part that is neither a partition nor a pattern, without endings.

        '' for tables, and for paths without such a part.
        """
        if self.format is Format.TABLE:
            return ""
        for part in reversed(self.location.split("/")):
            is_name = part not in ("", ".", "..") and not part.endswith(":")
            if is_name and "=" not in part and not locations.is_glob(part):
                return _without_ending(part)
        return ""


def parse_source(text: str, *, kind: Kind) -> Source:
    """The source that a SPEC names.

    Raises:
        UsageError: an unknown format, NAME or suffix, no location, or a combination that the kind has no use for.
    """
    label, spec = _label(text, kind)
    form, rest = _format(spec)
    match = _SUFFIXED.fullmatch(rest)
    assert match  # both groups may be empty
    location, suffixes = match[1], match[2].split("@")[1:]
    if not location:
        raise UsageError(f"{kind} '{text}': no location after the {'format' if form else 'name'}")
    form = form or _format_of(location) or Format.PARQUET
    source = Source(form, location, label, _day(text, suffixes, kind), _id_types(text, suffixes, form))
    _check_kind(text, source, kind)
    return source


def parse_day(text: str) -> str:
    """The day itself, if it is written YYYY-MM-DD and exists.

    Raises:
        UsageError: anything else; the day becomes part of paths, so nothing is guessed.
    """
    try:
        # fromisoformat alone also takes 20261129 and 2026-W48-7
        if isinstance(text, str) and str(datetime.date.fromisoformat(text)) == text:
            return text
    except ValueError:
        pass
    raise UsageError(f"bad day {text!r}: write an existing day as YYYY-MM-DD, for example 2026-11-29")


def check_name(name: str, what: str) -> str:
    """The name itself, if it can be a NAME; else a UsageError that says `what` it was meant for."""
    if _NAME.fullmatch(name):
        return name
    raise UsageError(f"bad {what} '{name}': use letters, digits, '_', '.' and '-' (a path with '=' starts with './')")


def _label(text: str, kind: Kind) -> tuple[str, str]:
    match = _LABELLED.fullmatch(text)
    if match is None or locations.exists(text):
        return "", text
    if kind is Kind.QUERIES:
        raise UsageError(f"'{text}': this input takes no NAME= (write a path with '=' as './{text}')")
    return check_name(match[1], f"name in {kind} '{text}'"), match[2]


def _format(spec: str) -> tuple[Format | None, str]:
    match = _FORMATTED.fullmatch(spec)
    if match is None:
        return None, spec
    word, rest = match.groups()
    if word in list(Format):
        return Format(word), rest
    # file:/x, s3://x and dbfs:/x are addresses, but cvs:/x is a slip
    if rest.startswith("//") or (rest.startswith("/") and not get_close_matches(word, list(Format), n=1)):
        return None, spec
    raise UsageError(f"unknown format '{word}' in '{spec}'{did_you_mean(word, [form.value for form in Format])}")


def _format_of(location: str) -> Format | None:
    name = _COMPRESSED.sub("", location.rstrip("/").lower())
    return next((form for ending, form in _ENDINGS.items() if name.endswith(ending)), None)


def _without_ending(name: str) -> str:
    bare = _COMPRESSED.sub("", name)
    ending = next((ending for ending in _ENDINGS if bare.lower().endswith(ending) and bare.lower() != ending), "")
    return bare[: len(bare) - len(ending)]


def _day(text: str, suffixes: list[str], kind: Kind) -> Literal["", "ds", "latest"]:
    days = [suffix for suffix in suffixes if not suffix.startswith("id=")]
    if len(days) > 1:
        raise UsageError(f"{kind} '{text}': give one of @ds and @latest, once")
    if days == ["latest"] and kind is Kind.SCORES:
        raise UsageError(f"scores '{text}': scores are read for exactly the day of --ds; leave @latest out")
    return "" if not days else "ds" if days == ["ds"] else "latest"


def _id_types(text: str, suffixes: list[str], form: Format) -> tuple[tuple[str, str], ...]:
    types = [suffix.removeprefix("id=") for suffix in suffixes if suffix.startswith("id=")]
    if not types:
        return ()
    if types != ["bigint"]:
        raise UsageError(f"'{text}': the one id type to ask for is @id=bigint; without it ids are text")
    if form not in (Format.CSV, Format.TREC):
        raise UsageError(f"'{text}': @id=bigint is for csv and trec; ids of {form} have a type of their own")
    return tuple((column, "bigint") for column in ID_COLUMNS)


def _check_kind(text: str, source: Source, kind: Kind) -> None:
    if source.format is Format.ARRAYS and kind is not Kind.SCORES:
        raise UsageError(f"{kind} '{text}': arrays hold scores; use parquet, table, csv or jsonl")
    if source.format is Format.TREC and kind is Kind.QUERIES:
        raise UsageError(f"'{text}': trec holds runs and judgments; use parquet, table, csv or jsonl")
