"""Matrix products of NumPy and SciPy on one thread.

Sums over several threads have no fixed order. And threads that wait for each other take most of the
time of many small products.
"""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread(library: str) -> AbstractContextManager[Any]:
    """A context in which a library computes on one thread.

    Args:
        library: the module that computes, such as ``scipy.optimize``. It is imported.
    """
    return _threads_of(library).limit(limits=1)


@lru_cache(maxsize=8)
def _threads_of(library: str) -> ThreadpoolController:
    """The thread pools of all libraries that are loaded together with a module. They are found
    once, because looking for them takes longer than a small fit."""
    importlib.import_module(library)
    return ThreadpoolController()
