"""The evaluation protocol: every setting that decides what a number means, validated once and frozen.

Nothing here needs Spark. The words are those of the specification: cutoff, depth, relevant, judged, macro, micro.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from recallk_spark.errors import ProtocolError, did_you_mean
from recallk_spark.policies import (
    DuplicateRelevance,
    Duplicates,
    Gain,
    InvalidScores,
    MissingQueries,
    NoRelevant,
    Preset,
    ScoreOrder,
    ScorePrecision,
    ShortLists,
    TieBreak,
    UnjudgedQueries,
)

SPECIFICATION_VERSION = 1
DEFAULT_CUTOFFS = (1, 5, 10, 20, 50, 100)
MAX_DEPTH = 10_000
TO_MAX_CUTOFF = -(2**31)  # a depth that was not given: the largest cutoff
MAX_EXPONENTIAL_GRADE = 60  # 2^60 - 1 is the last gain whose sums over a list stay far from losing digits


PRESETS: Mapping[Preset, Mapping[str, str]] = {
    Preset.TREC_EVAL: {
        "tie_break": "item_desc",
        "no_relevant": "zero",
        "missing_queries": "zero",
        "duplicates": "error",
        "duplicate_relevance": "error",
        "gain": "linear",
    }
}
PRESETS = {**PRESETS, Preset.TREC_EVAL9: {**PRESETS[Preset.TREC_EVAL], "score_precision": "float32"}}

# Settings that never change a number: where it is read, the level (a key column), what is refused, what is declared
_NOT_IN_FINGERPRINT = frozenset(
    {"cutoffs", "depth", "min_grade", "short_lists", "unjudged_queries"}
    | {"candidates", "relevance_source", "judgment_completeness"}
)

E_ = TypeVar("E_", bound=StrEnum)


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Every setting that decides what a number means; immutable, comparable, hashable.

    Enum settings take a member or its string. The defaults are the specification's.

    Attributes:
        cutoffs: depths k at which measures are reported; positive integers, repeats merge, order is irrelevant.
        depth: deepest rank kept, at most 10,000; default max(cutoffs).
        min_grade: an item is relevant when its grade is at least this; a number > 0, or several, which are evaluated
            side by side in one pass. One is kept as a float, several as an ascending tuple; see `min_grades`.
        candidates: declared in words: what could be returned and how candidates were made.
        relevance_source: declared in words: where the labels come from.
        judgment_completeness: declared in words: how complete the labels are.

    Raises:
        ProtocolError: a value is unknown, of the wrong type or out of range.
    """

    cutoffs: tuple[int, ...] = DEFAULT_CUTOFFS
    depth: int = TO_MAX_CUTOFF
    min_grade: float | tuple[float, ...] = 1.0
    score_order: ScoreOrder = ScoreOrder.DESC
    score_precision: ScorePrecision = ScorePrecision.NATIVE
    tie_break: TieBreak = TieBreak.ITEM_ASC
    duplicates: Duplicates = Duplicates.OCCUPY
    duplicate_relevance: DuplicateRelevance = DuplicateRelevance.MAX
    invalid_scores: InvalidScores = InvalidScores.ERROR
    short_lists: ShortLists = ShortLists.ALLOW
    no_relevant: NoRelevant = NoRelevant.EXCLUDE
    missing_queries: MissingQueries = MissingQueries.ZERO
    unjudged_queries: UnjudgedQueries = UnjudgedQueries.IGNORE
    gain: Gain = Gain.LINEAR
    candidates: str = ""
    relevance_source: str = ""
    judgment_completeness: str = ""

    def __post_init__(self) -> None:
        put = object.__setattr__  # the one place where a frozen instance is filled in
        put(self, "cutoffs", _cutoffs(self.cutoffs))
        put(self, "depth", _depth(self.depth, self.cutoffs))
        put(self, "min_grade", _min_grade(self.min_grade))
        for name, enum in _ENUMS.items():
            put(self, name, _member(enum, name, getattr(self, name)))
        for name in ("candidates", "relevance_source", "judgment_completeness"):
            if not isinstance(getattr(self, name), str):
                raise ProtocolError(f"{name} is free text, not {getattr(self, name)!r}")

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, preset: str | None = None) -> Protocol:
        """A protocol from a mapping, as config files and options give it; the preset's values come first.

        Raises:
            ProtocolError: an unknown setting (with the nearest known one) or preset, or a bad value.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                raise ProtocolError(f"unknown protocol setting '{name}'{did_you_mean(name, known)}")
        base = PRESETS[_member(Preset, "preset", preset)] if preset else {}
        return cls(**{**base, **settings})

    @property
    def max_cutoff(self) -> int:
        """The largest cutoff: a list shorter than this is short under `short_lists = error`."""
        return self.cutoffs[-1]

    @property
    def min_grades(self) -> tuple[float, ...]:
        """Every min_grade, ascending, however many there are.

        A table whose rows name no min_grade holds what is relevant from the first, the lowest one, on.
        """
        return self.min_grade if isinstance(self.min_grade, tuple) else (self.min_grade,)

    def settings(self) -> dict[str, Any]:
        """Every setting under its name, as JSON-ready values, in the order of the fields."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: _plain(value) for name, value in values.items()}

    def differing(self) -> dict[str, Any]:
        """The settings that change a number and differ from their default: what the fingerprint is made of."""
        default = Protocol().settings()
        return {
            name: value
            for name, value in self.settings().items()
            if name not in _NOT_IN_FINGERPRINT and value != default[name]
        }

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the canonical JSON of the specification's version and `differing()`.

        Results with different fingerprints are not comparable. Cutoffs, depth and min_grade are not part of it.
        """
        content = {"version": SPECIFICATION_VERSION, **self.differing()}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def __str__(self) -> str:
        """The protocol in one line: what is read where, then the settings that are not the default."""
        default = Protocol().settings()
        shown = {
            n: v for n, v in self.settings().items() if n not in ("cutoffs", "depth", "min_grade") and v != default[n]
        }
        extra = "".join(f" {name}={value}" for name, value in shown.items()) or " (other settings: default)"
        grades = ",".join(map(grade_text, self.min_grades))
        return f"grade>={grades} depth={self.depth}{extra}"


def grade_text(grade: float) -> str:
    """A min_grade as a person writes it: 2, not 2.0."""
    return str(_plain(grade))


_ENUMS: Mapping[str, type[StrEnum]] = {
    "score_order": ScoreOrder,
    "score_precision": ScorePrecision,
    "tie_break": TieBreak,
    "duplicates": Duplicates,
    "duplicate_relevance": DuplicateRelevance,
    "invalid_scores": InvalidScores,
    "short_lists": ShortLists,
    "no_relevant": NoRelevant,
    "missing_queries": MissingQueries,
    "unjudged_queries": UnjudgedQueries,
    "gain": Gain,
}


def _member(enum: type[E_], name: str, value: object) -> E_:
    try:
        return enum(str(value))
    except ValueError:
        hint = did_you_mean(str(value), [member.value for member in enum])
        raise ProtocolError(f"{name}: unknown value {value!r}{hint}") from None


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _cutoffs(values: object) -> tuple[int, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ProtocolError(f"cutoffs: a sequence of positive integers, not {values!r}")
    cutoffs = tuple(values)
    bad = [k for k in cutoffs if not _is_integer(k) or k < 1]
    if bad:
        raise ProtocolError(f"cutoffs: positive integers, not {bad[0]!r}")
    if not cutoffs:
        raise ProtocolError("cutoffs: at least one is needed")
    if max(cutoffs) > MAX_DEPTH:
        raise ProtocolError(f"cutoffs: {max(cutoffs)} is beyond the greatest depth, {MAX_DEPTH}")
    return tuple(sorted(set(cutoffs)))


def _depth(value: object, cutoffs: tuple[int, ...]) -> int:
    if value is None or (value == TO_MAX_CUTOFF and _is_integer(value)):
        return cutoffs[-1]
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_DEPTH:
        raise ProtocolError(f"depth: an integer from 1 to {MAX_DEPTH}, not {value!r}")
    if value < cutoffs[-1]:
        raise ProtocolError(
            f"depth {value} is smaller than the largest cutoff {cutoffs[-1]}; raise depth or drop the cutoff"
        )
    return value


def _min_grade(value: object) -> float | tuple[float, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return _grade(value)
    grades = tuple(sorted({_grade(grade) for grade in value}))
    if not grades:
        raise ProtocolError("min_grade: at least one is needed")
    return grades if len(grades) > 1 else grades[0]


def _grade(value: object) -> float:
    try:
        grade = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
    except OverflowError:  # an integer beyond every double
        grade = math.inf
    if not math.isfinite(grade) or grade <= 0:
        raise ProtocolError(f"min_grade: a number > 0, not {value!r}")
    return grade


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
