"""Compiled programs that are no longer needed are released before a process has too many.

On a CPU every kernel of a program has memory maps of its own, 100 to 500 a setting, and Linux gives
a process 65,530: beyond that the compiler crashes. A program that is needed again is compiled to
the same code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax

from fedkin.simulation.jax import local_training

MAPS = 7000  # more than one run has; the programs of a few rounds come on top
_MAPS_FILE = Path("/proc/self/maps")  # of Linux, which alone has that limit
_COMPILED_EVENT = (
    "/jax/core/compile/backend_compile_duration"  # reading from the cache on disk is one, too
)
_PROGRAMS: tuple[Any, ...] = (
    local_training.train,
    local_training.gradients,
    local_training.score,
    local_training.raw_scores,
    local_training.predict,
)


class ProgramLimit:
    """Releases compiled programs between rounds, where the process has more than ``most`` memory
    maps."""

    def __init__(self, most: int = MAPS) -> None:
        self.most, self._compiled, self._counted = most, 0, 0
        jax.monitoring.register_event_duration_secs_listener(self._hear)

    def _hear(self, event: str, *_: Any, **__: Any) -> None:
        self._compiled += event == _COMPILED_EVENT

    def keep(self) -> bool:
        """Release programs where there are too many: those of clients' computations, and all that
        JAX holds where they were not half of it. Returns whether it did. Maps are counted only
        where programs have been compiled since."""
        new, self._counted = self._compiled > self._counted, self._compiled
        if not new or memory_maps() <= self.most:
            return False
        for program in _PROGRAMS:
            program.clear_cache()
        if memory_maps() > self.most // 2:
            jax.clear_caches()
        self.most = max(
            self.most, 2 * memory_maps()
        )  # where others have as many, releasing does not help
        return True


def memory_maps() -> int:
    """Number of memory maps of this process; 0 where the system does not tell."""
    return _MAPS_FILE.read_bytes().count(b"\n") if _MAPS_FILE.exists() else 0


LIMIT = ProgramLimit()  # of this process
