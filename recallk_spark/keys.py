"""Which (day, run) a result is of, and how that is said in the names of directories: as Spark says it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

RUN = "run_id"
DS = "ds"

_ESCAPED = frozenset([*map(chr, range(0x01, 0x20)), *"\"#%'*/:=?\\{[]^\x7f"])  # Spark's escapePathName
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # where Spark puts null and ''


def escape(value: str) -> str:
    """`value` as Spark writes it in the name of a partition's directory; only some ASCII is escaped."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in value)


def unescape(name: str) -> str:
    """The value of an escaped name; a '%' that two hex digits do not follow stands for itself."""
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), name)


@dataclass(frozen=True)
class Key:
    """What is published as one: a run, of a day where the root is by day."""

    ds: str | None
    run_id: str

    @property
    def directory(self) -> str:
        """Its directory within a table: 'ds=2026-11-29/run_id=A'."""
        return day_directory(self.ds) + f"{RUN}={escape(self.run_id)}"

    @property
    def order(self) -> tuple[str, str]:
        """Keys sort by day, then run."""
        return (self.ds or "", self.run_id)

    def __str__(self) -> str:
        return f"run '{self.run_id}'" if self.ds is None else f"run '{self.run_id}' of {self.ds}"

    @classmethod
    def parse(cls, parts: Sequence[str]) -> Key | None:
        """The key whose directory has these parts, None where they are no such thing."""
        names, values = zip(*(part.partition("=")[::2] for part in parts), strict=True) if parts else ((), ())
        if names not in ((RUN,), (DS, RUN)) or not all(values) or values[-1] == _NO_VALUE:
            return None
        return cls(unescape(values[0]) if len(parts) > 1 else None, unescape(values[-1]))


def day_directory(ds: str | None) -> str:
    """'ds=2026-11-29/', or nothing where the root is not by day."""
    return "" if ds is None else f"{DS}={escape(ds)}/"
