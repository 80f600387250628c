"""Checks, before allocation, that a run fits into the memory of its machine or container."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from fedkin.core.errors import ConfigError

# Shares of the available memory above which a run is refused, or a warning is logged. Needs are
# estimates, so slightly more than 1 is allowed.
REFUSED = 1.25
WARNED = 0.75
_GB = 1e9
_log = logging.getLogger("fedkin")


def check_memory(parts: Mapping[str, int], cure: str, available: int | None = None) -> None:
    """Raise an error if the memory that will be allocated clearly exceeds the available memory. Log
    a warning if most of the available memory would be used.

    Args:
        parts: bytes of each thing that will be allocated (e.g. models), by its name in messages.
        cure: advice for the message.
        available: available bytes; None for the memory of this machine.

    Raises:
        ConfigError: all parts together need more than ``REFUSED`` times the available memory.
    """
    if available is None:
        available = available_memory()
    needed = sum(parts.values())
    if available is None or needed <= WARNED * available:
        return
    largest = sorted(parts.items(), key=lambda part: -part[1])
    listed = ", ".join(
        f"{size / _GB:.1f} GB for {name}" for name, size in largest if size >= needed / 100
    )
    what = (
        f"about {needed / _GB:.1f} GB of memory are needed ({listed}), and {available / _GB:.1f} "
        f"GB are available; {cure}"
    )
    if needed > REFUSED * available:
        raise ConfigError(f"not enough memory: {what}")
    _log.warning("memory may be short: %s", what)


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process can still allocate; None if the system does not report them.

    The machine and every control group (container) of the process set limits.

    Args:
        root: root of the file system, with ``proc`` and ``sys``.
    """
    limits = [*_free_of_groups(root)]
    of_machine = _free_of_machine(root)
    if of_machine is not None:
        limits.append(of_machine)
    return max(0, min(limits)) if limits else None


def _free_of_machine(root: Path) -> int | None:
    """Bytes of available memory and swap space. If the available memory is unknown, the total
    memory counts."""
    facts = _numbers(root / "proc/meminfo")
    if "MemAvailable:" in facts:
        return 1024 * (facts["MemAvailable:"] + facts.get("SwapFree:", 0))
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


class _GroupFiles(NamedTuple):
    """The files that describe a control group's memory.

    Attributes:
        base: folder of all groups, below the root of the file system.
        limit: file with the limit, in bytes.
        used: file with the bytes in use.
        cached: key in ``memory.stat`` for the bytes of cached files.
    """

    base: str
    limit: str
    used: str
    cached: str


_VERSION_2 = _GroupFiles(
    base="sys/fs/cgroup",
    limit="memory.max",
    used="memory.current",
    cached="inactive_file",
)
_VERSION_1 = _GroupFiles(
    base="sys/fs/cgroup/memory",
    limit="memory.limit_in_bytes",
    used="memory.usage_in_bytes",
    cached="total_inactive_file",
)


def _free_of_groups(root: Path) -> Iterator[int]:
    """Free bytes of each control group, from the group of this process up to the root group.

    Cached files count as free. Inside a container, the path of a group may be its path on the host,
    which does not exist here. Then only the root group is found.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            files = _VERSION_2
        elif "memory" in controllers.split(","):
            files = _VERSION_1
        else:
            continue
        group = Path(path.lstrip("/"))
        for folder in (group, *group.parents):
            place = root / files.base / folder
            limit = _text(place / files.limit).strip()
            used = _text(place / files.used).strip()
            if limit.isdigit() and used.isdigit():
                cached = _numbers(place / "memory.stat").get(files.cached, 0)
                yield int(limit) - int(used) + cached


def _numbers(path: Path) -> dict[str, int]:
    """The numbers in a file of the kernel with lines ``name number ...``, by name."""
    numbers = {}
    for line in _text(path).splitlines():
        words = line.split()
        if len(words) > 1 and words[1].isdigit():
            numbers[words[0]] = int(words[1])
    return numbers


def _text(path: Path) -> str:
    """The content of a file of the kernel; empty if it does not exist."""
    try:
        return path.read_text()
    except OSError:
        return ""
