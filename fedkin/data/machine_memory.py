"""What a run will take of the machine's memory, or its container's, compared before anything is
allocated."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from fedkin.core.errors import ConfigError

# shares of the available memory: an estimate is no measurement
REFUSED = 1.25
WARNED = 0.75
_GB = 1e9
_log = logging.getLogger("fedkin")


def check_memory(parts: Mapping[str, int], cure: str, available: int | None = None) -> None:
    """Refuse what is clearly more than the available memory, and warn of what is near to it.

    Args:
        parts: what will be allocated, in words, and its bytes.
        cure: what to do about it.
        available: bytes; None for those of this machine.

    Raises ConfigError.
    """
    available = available_memory() if available is None else available
    needed = sum(parts.values())
    if available is None or needed <= WARNED * available:
        return
    largest = sorted(parts.items(), key=lambda part: -part[1])
    listed = ", ".join(
        f"{count / _GB:.1f} GB for {name}" for name, count in largest if count >= needed / 100
    )
    what = f"about {needed / _GB:.1f} GB of memory ({listed}), and {available / _GB:.1f} GB are available: {cure}"
    if needed > REFUSED * available:
        raise ConfigError(f"this takes {what}")
    _log.warning("this takes %s", what)


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process can still have: of the machine and of every control group (container)
    that it is in. None where the system does not tell.

    Args:
        root: of the file system with ``proc`` and ``sys``.
    """
    known = [free for free in (_free_of_machine(root), *_free_of_groups(root)) if free is not None]
    return max(0, min(known)) if known else None


def _free_of_machine(root: Path) -> int | None:
    """Available memory and swap; all memory where only that is known."""
    facts = _numbers(root / "proc/meminfo")
    if "MemAvailable:" in facts:
        return 1024 * (facts["MemAvailable:"] + facts.get("SwapFree:", 0))
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _free_of_groups(root: Path) -> Iterator[int | None]:
    """What is left in each control group from this process's own up to the root; files that are
    cached count as free.

    Inside a container the path of a group may be that of the host: then the group is the root that
    it sees.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            base = "sys/fs/cgroup"
            most = "memory.max"
            now = "memory.current"
            cached = "inactive_file"
        elif "memory" in controllers.split(","):
            base = "sys/fs/cgroup/memory"
            most = "memory.limit_in_bytes"
            now = "memory.usage_in_bytes"
            cached = "total_inactive_file"
        else:
            continue
        group = Path(path.lstrip("/"))
        for folder in (group, *group.parents):
            place = root / base / folder
            limit = _text(place / most).strip()
            used = _text(place / now).strip()
            if limit.isdigit() and used.isdigit():
                yield int(limit) - int(used) + _numbers(place / "memory.stat").get(cached, 0)


def _numbers(path: Path) -> dict[str, int]:
    """The lines ``name number ...`` of a file of the kernel."""
    words = (line.split() for line in _text(path).splitlines())
    return {
        first: int(second)
        for first, second, *_ in (w for w in words if len(w) > 1)
        if second.isdigit()
    }


def _text(path: Path) -> str:
    """A file of the kernel; empty where there is none."""
    try:
        return path.read_text()
    except OSError:
        return ""
