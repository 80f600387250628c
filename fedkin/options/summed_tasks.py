"""Classifies tasks by their replies: a sum of one vector per client, a choice, or something else.

It also holds the message for a method that requests single updates where an option needs means.
"""

from __future__ import annotations

from fedkin.core.errors import MethodError
from fedkin.core.method import Method
from fedkin.core.requirements import requirements_of
from fedkin.core.task import Task


def wants_sums(task: Task) -> bool:
    """Whether a task replies with sums of one vector per client, which noise covers.

    It may also send numbers that are not needed.
    """
    return task.charged == "sum" and _is_one_vector(task)


def is_start(task: Task) -> bool:
    """Whether a task replies with sums of one vector of norm at most 1 per client (cold start)."""
    return task.charged == "unit_sum" and _is_one_vector(task)


def is_choice(task: Task) -> bool:
    """Whether a client only chooses among released values, using its data.

    The server does not release the choice. Values that the server computes from the choice are
    charged as a noisy sum.
    """
    arrays = task.up.arrays.values()
    return task.charged == "choice" and all(
        array.over == "row" and not array.counted for array in arrays
    )


def _is_one_vector(task: Task) -> bool:
    up = task.up
    vectors = [array for array in up.of("model").values() if array.norm_checked]
    other_arrays = up.of("all") or any(array.counted for array in up.of("row").values())
    return len(vectors) == 1 and not other_arrays and not task.local


def averages_itself(method: Method, so_that: str) -> str:
    """The message for a method that averages single updates itself, so an option has no effect.

    Args:
        method: the method.
        so_that: consequence for the option, after "so that".
    """
    because = requirements_of(method).reads.because
    why = f", because of its option {because}" if because else ""
    return (
        f"{type(method).__name__} averages single updates by itself{why}, so that {so_that}; use a "
        "method that asks for means (fedavg, fedgroup, flexcfl, ifca with weighting='examples')"
    )


def check_asks_for_means(
    section: str, method: Method, so_that: str, round: int, *, single: int, averages: int
) -> None:
    """Raise MethodError if a method requested single updates in a round, and no means.

    Args:
        section: section of the option that needs means.
        method: the method.
        so_that: consequence for the option, after "so that".
        round: the round. In the round of a first clustering, methods may read single updates to
            find clusters.
        single: number of calls that requested single updates.
        averages: number of calls that requested means.
    """
    if single and not averages and round != requirements_of(method).rounds.first_clustering:
        raise MethodError(f"{section}: {averages_itself(method, so_that)}")
