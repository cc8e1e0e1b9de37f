"""A made-up shop's search: what its customers ask and click, and what three systems answer.

Everything is drawn with `Random.random()`, the one method whose sequence Python promises to keep, and combined
by operations that IEEE 754 rounds in one way only: it is the same on every machine and under every version.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

CATALOGUE = [f"sku-{number:05d}" for number in range(1, 20_001)]
_COUNTRIES = {"de": 0.40, "fr": 0.25, "us": 0.20, "jp": 0.15}
_DEVICES = {"mobile": 0.50, "desktop": 0.40, "tablet": 0.10}
_GRADES = {"1": 0.70, "2": 0.22, "3": 0.08}


@dataclass(frozen=True, kw_only=True)
class System:
    """How a system searches: what it finds, how high it puts it, and what its scores look like."""

    name: str
    by_words: tuple[float, float]  # chance to find an item that shares words with its query: mobile, elsewhere
    by_meaning: tuple[float, float]  # the same for an item that shares none
    lead: float  # chance that what it found first stands on top
    skew: int  # the higher, the nearer to the top stands the rest
    top: int  # best score, in units
    gap: int  # the next score is 0 to gap - 1 units lower: one in `gap` is a tie
    unit: int  # units in a score of 1
    lacks: int  # the queries it fails on: those of this index modulo 50


SYSTEMS = (
    System(
        name="keyword",
        by_words=(0.85, 0.90),
        by_meaning=(0.05, 0.10),
        lead=0.90,
        skew=4,
        top=2_600,
        gap=4,
        unit=100,
        lacks=11,
    ),
    System(
        name="embedding",
        by_words=(0.90, 0.65),
        by_meaning=(0.90, 0.60),
        lead=0.15,
        skew=2,
        top=9_400,
        gap=9,
        unit=10_000,
        lacks=29,
    ),
    System(
        name="hybrid",
        by_words=(0.85, 0.95),
        by_meaning=(0.75, 0.75),
        lead=0.20,
        skew=3,
        top=3_278,
        gap=4,
        unit=100_000,
        lacks=41,
    ),
)


@dataclass(frozen=True)
class Query:
    """What customers typed, and how they took to the items they were shown."""

    index: int
    name: str
    country: str | None
    device: str
    labels: tuple[tuple[str, int, bool], ...]  # item, grade, whether it shares words with the query

    @property
    def listed(self) -> bool:
        """Whether the table of queries has it."""
        return self.index % 50 != 7 and self.index % 100 != 37


def make_query(random: Random, index: int) -> Query:
    """The query of an index, from 0. What is odd about it follows from the index: its counts are known."""
    country = _pick(random, _COUNTRIES)
    device = _pick(random, _DEVICES)
    relevant = 1 + int(_skewed(random, 3) * 20)
    if _is_narrow(index):
        relevant = 1 + _below(random, 2)
    elif _is_broad(index):
        relevant = 60 + _below(random, 40)
    if index % 50 == 23:  # looked at, never clicked
        relevant = 0
    size = relevant + 4 + _below(random, 12)
    if index % 50 == 7 or index % 100 == 67:  # nobody looked
        size = 0
    taken: set[str] = set()
    items = [_new_item(random, taken) for _ in range(size)]
    labels = tuple(
        (item, int(_pick(random, _GRADES)) if place < relevant else 0, random.random() < 0.6)
        for place, item in enumerate(items)
    )
    return Query(index, f"q{index + 1:04d}", None if index % 40 == 3 else country, device, labels)


def _is_narrow(index: int) -> bool:
    return index % 20 == 14


def _is_broad(index: int) -> bool:
    return index % 200 == 55


def answer(random: Random, system: System, query: Query, logged: int) -> list[tuple[str, float]]:
    """What a system returns for a query: (item, score), best first, down to the last result that was logged."""
    if query.index % 50 == system.lacks:
        return []
    length = 50 + int(_skewed(random, 2) * 51)
    if _is_narrow(query.index) or _is_broad(query.index):
        length = 3 if _is_narrow(query.index) else 1_000
    placed = _placed(random, system, query, length)
    taken = {item for item, _, _ in query.labels}
    results: list[str] = []
    for place in range(min(length, logged)):
        item = placed.get(place)
        if item is None and results and random.random() < 0.006:
            item = results[_below(random, place)]  # an item that the list has already
        if item is None:
            item = _new_item(random, taken)
        results.append(item)
    return list(zip(results, _scores(random, system, len(results)), strict=True))


def _placed(random: Random, system: System, query: Query, length: int) -> dict[int, str]:
    """The labelled items that the system found, by 0-based place; places beyond the list are lost."""
    elsewhere = query.device != "mobile"
    placed: dict[int, str] = {}
    for item, grade, shares_words in query.labels:
        chance = (system.by_words if shares_words else system.by_meaning)[elsewhere]
        if random.random() >= chance:
            continue
        if grade and 0 not in placed and random.random() < system.lead:
            place = 0
        else:
            place = int(_skewed(random, system.skew if grade else 1) * length)
        while place in placed:
            place += 1
        placed[place] = item
    return placed


def _scores(random: Random, system: System, count: int) -> list[float]:
    """Descending scores, counted in whole units so that equal ones are truly equal."""
    units = system.top - _below(random, system.top // 10)
    scores = []
    for _ in range(count):
        scores.append(units / system.unit)
        units -= _below(random, system.gap)
    return scores


def _below(random: Random, bound: int) -> int:
    """A whole number from 0 to bound - 1."""
    return int(random.random() * bound)


def _skewed(random: Random, skew: int) -> float:
    """A number in [0, 1), the nearer to 0 the higher the skew; multiplied out, for `**` may round by platform."""
    draw = random.random()
    result = draw
    for _ in range(skew - 1):
        result *= draw
    return result


def _pick(random: Random, chances: dict[str, float]) -> str:
    """One of the words, by its chance; the last takes what rounding leaves."""
    draw = random.random()
    *words, last = chances
    for word in words:
        draw -= chances[word]
        if draw < 0:
            return word
    return last


def _new_item(random: Random, taken: set[str]) -> str:
    """An item of the catalogue that is not taken yet; it is taken then."""
    item = CATALOGUE[_below(random, len(CATALOGUE))]
    while item in taken:
        item = CATALOGUE[_below(random, len(CATALOGUE))]
    taken.add(item)
    return item
