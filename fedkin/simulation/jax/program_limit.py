"""Releases compiled programs before a process has too many memory maps.

On a CPU every kernel (compiled piece) of a program has separate memory maps. The programs for the
configuration of one run have 100 to 500 maps together. Linux limits a process to 65,530 maps, and
the compiler crashes beyond that. A released program that is needed again is compiled to the same
code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax

from fedkin.simulation.jax import local_training, score_programs

MAPS = 7000  # more than one run has; the programs of a few rounds may be added before a check
_MAPS_FILE = Path("/proc/self/maps")  # exists on Linux, the only system with this limit
# JAX reports this event also for a program that is read from the disk cache.
_COMPILED_EVENT = "/jax/core/compile/backend_compile_duration"
_PROGRAMS: tuple[Any, ...] = (
    local_training.train,
    local_training.gradients,
    score_programs.score,
    score_programs.raw_scores,
    score_programs.embeddings,
    score_programs.predict,
)


class ProgramLimit:
    """Releases compiled programs between rounds if the process has too many memory maps.

    Args:
        most: number of memory maps above which ``keep`` releases programs. It is far below Linux's
            limit, at which the compiler would crash.
    """

    def __init__(self, most: int = MAPS) -> None:
        self.most = most
        self._compiled = 0  # number of programs that JAX has compiled so far
        self._counted = 0  # the same number at the last call of `keep`
        # JAX reports each compilation as an event.
        jax.monitoring.register_event_duration_secs_listener(self._hear)

    def _hear(self, event: str, *_: Any, **__: Any) -> None:
        """Count compiled programs. JAX calls this for each of its events; only the event of a
        compilation is counted."""
        self._compiled += event == _COMPILED_EVENT

    def keep(self) -> bool:
        """Release compiled programs if there are more than ``most`` memory maps. Returns whether
        any were released.

        The programs of clients' computations (training, scoring) are released first. If more than
        half of the limit is then still in use, all of JAX's caches are cleared. Maps are counted
        only if programs have been compiled since the last call of ``keep``.
        """
        compiled = self._compiled
        has_new = compiled > self._counted
        self._counted = compiled
        if not has_new or memory_maps() <= self.most:
            return False
        for program in _PROGRAMS:
            program.clear_cache()
        if memory_maps() > self.most // 2:
            jax.clear_caches()
        # Other libraries may have that many maps themselves: then releasing again does not help.
        self.most = max(self.most, 2 * memory_maps())
        return True


def memory_maps() -> int:
    """Number of memory maps of this process; 0 if the system does not report it."""
    return _MAPS_FILE.read_bytes().count(b"\n") if _MAPS_FILE.exists() else 0


LIMIT = ProgramLimit()  # one for the whole process
