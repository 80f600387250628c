"""Computations on one thread."""

from __future__ import annotations

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from fedkin.core.one_thread import one_thread


def threads() -> set[int]:
    """Numbers of threads of all libraries of matrix products."""
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize("library", ["numpy", "scipy.optimize"])
def test_products_have_one_thread_and_then_as_many_as_before(library: str) -> None:
    with one_thread(library):
        pass  # loads the library
    with threadpool_limits(2):
        assert threads() == {2}
        with one_thread(library):
            assert 1 in threads()
            if library != "numpy":
                assert threads() == {1}
        assert threads() == {2}
