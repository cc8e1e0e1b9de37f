"""The errors a caller can meet: one root, few leaves, each with the exit code the command line ends in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import ClassVar


class RecallkError(Exception):
    """Root of every error this package raises on purpose. The message is meant for the user as it stands."""

    exit_code: ClassVar[int] = 4


class UsageError(RecallkError):
    """Raised when a command or a call is put together wrongly (an option, a date, a measure's name)."""

    exit_code = 2


class ProtocolError(UsageError):
    """Raised when a setting of the protocol is unknown or out of range."""


class ConfigError(UsageError):
    """Raised when a configuration file cannot be read, or has an unknown key or a value of the wrong kind."""


class InputError(RecallkError):
    """Raised when an input is missing, unreadable or malformed."""

    exit_code = 3


class ProtocolMismatch(RecallkError):
    """Raised when two results were made under protocols whose numbers cannot be compared."""

    exit_code = 3


class SparkError(RecallkError):
    """Raised when Spark cannot be started, failed, or did not finish within `job_timeout`."""

    exit_code = 4


class PublishError(RecallkError):
    """Raised when storage fails while publishing, or another writer published the same day and run first."""

    exit_code = 4


@dataclass(frozen=True, order=True)
class Fault:
    """One kind of fault found in one table.

    Attributes:
        table: the input it was found in ('scores', 'relevance', 'queries', ...).
        column: the column at fault, '' when the whole table is.
        message: what is wrong, and the next move.
        count: number of rows (or queries) at fault; None when the fault is the table's, not a row's.
        example: key of one row at fault, the smallest in order of text; '' when there is none.
    """

    table: str
    column: str
    message: str
    count: int | None = None
    example: str = ""

    def __str__(self) -> str:
        place = f"{self.table}.{self.column}" if self.column else self.table
        amount = "" if self.count is None else f" [{self.count:,} at fault]"
        example = f" (for example {self.example})" if self.example else ""
        return f"{place}: {self.message}{amount}{example}"


class ContractError(InputError):
    """Raised when an input breaks its contract; carries every fault that was found, not only the first.

    Attributes:
        faults: the faults, sorted by table and column.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults: tuple[Fault, ...] = tuple(sorted(faults, key=lambda f: (f.table, f.column, f.message)))
        lines = [str(fault) for fault in self.faults]
        head = "input refused: " if len(lines) == 1 else f"input refused, {len(lines)} faults:\n  - "
        super().__init__(head + "\n  - ".join(lines))

    def __reduce__(self) -> tuple[type[ContractError], tuple[tuple[Fault, ...]]]:
        return type(self), (self.faults,)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """'; did you mean ...?' with the known word nearest to `word`, or the list of known words where none is near."""
    names = sorted(known)
    near = get_close_matches(word, names, n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(names)}"
