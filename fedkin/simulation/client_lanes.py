"""How many clients an accelerator trains side by side: measured once for a model, on the first cohort."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from jax.errors import JaxRuntimeError

from fedkin.models.model import Model

CANDIDATES = (1, 8, 32, 128)
_FEWEST_ROWS = 8  # of a call that shows anything
_NO_MEMORY = "RESOURCE_EXHAUSTED"  # XLA's status
_chosen: WeakKeyDictionary[Model, int] = WeakKeyDictionary()
_log = logging.getLogger("fedkin")


def fastest_lanes(
    model: Model, rows: int, train: Callable[[int], Any], clock: Callable[[], float] = time.perf_counter
) -> int:
    """The number of lanes that trains a call fastest, of ``CANDIDATES`` that the call fills.

    A call of few rows decides nothing: it is trained one after another, and a later one is measured. A number for which
    the device has too little memory ends the search.

    Args:
        model: what is trained; the choice is remembered for it.
        rows: of the call.
        train: trains the call with a number of lanes; results are NumPy's, so that nothing is still being computed.
        clock: seconds.
    """
    if model in _chosen:
        return _chosen[model]
    if rows < _FEWEST_ROWS:
        return 1
    seconds = {}
    for lanes in CANDIDATES:
        if lanes > rows:
            break
        try:
            train(lanes)  # compiles
            begin = clock()
            train(lanes)
        except JaxRuntimeError as error:
            if not seconds or _NO_MEMORY not in str(error):
                raise
            _log.info("%d clients side by side need more memory than the device has", lanes)
            break
        seconds[lanes] = clock() - begin
    best = _chosen[model] = min(seconds, key=lambda lanes: seconds[lanes])
    measured = ", ".join(f"{lanes}: {took:.3f} s" for lanes, took in seconds.items())
    _log.info("run.clients_per_batch = %d, the fastest on the first cohort (%s)", best, measured)
    return best
