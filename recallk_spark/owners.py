"""Whose an attempt is, and whether that process still lives."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

ABANDONED_AFTER = timedelta(days=7)  # for attempts of another place, of whose process nothing can be known

_ATTEMPT = re.compile(r"(\d{8}T\d{6}Z)-(\d+)-(\d+)-([0-9a-f]{12})-[0-9a-f]{8}")


def new_attempt_id(now: datetime) -> str:
    """A name that says all about the owner: when it began, pid, process start, place; so making it is one step."""
    pid = os.getpid()
    start = _process_start(pid) or 0
    return f"{now:%Y%m%dT%H%M%SZ}-{pid}-{start}-{_place()}-{secrets.token_hex(4)}"


def is_abandoned(attempt: str, now: datetime) -> bool:
    """Whether an attempt's process has ended, or, begun in another place, is older than ABANDONED_AFTER."""
    match = _ATTEMPT.fullmatch(attempt)
    if not match:
        return False  # none of ours
    began, pid, start, place = match.groups()
    if place == _place():
        return _process_start(int(pid)) != int(start)
    return now - datetime.strptime(began, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) > ABANDONED_AFTER


def _place() -> str:
    """Tells apart the worlds in which a pid means a process: machines, their boots, containers."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _process_start(pid: int) -> int | None:
    """When a process of this place started, in clock ticks (0 where that is not told); None if it has ended."""
    if Path("/proc/self/stat").exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in "ZX" else int(fields[19])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return 0
