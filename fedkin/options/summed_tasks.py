"""Kinds of tasks by their replies: a sum of one vector of each client, a choice, or something else.

Here is also the message for a method that asks for no means.
"""

from __future__ import annotations

from fedkin.core.errors import MethodError
from fedkin.core.method import Method
from fedkin.core.requirements import requirements_of
from fedkin.core.task import Task


def wants_sums(task: Task) -> bool:
    """Whether a task sends one vector by model, which noise covers, and otherwise only numbers that
    are not needed."""
    return task.charged == "sum" and _is_one_vector(task)


def is_start(task: Task) -> bool:
    """Whether all that a task sends is one vector no longer than 1 by model, as a cold start asks
    for."""
    return task.charged == "unit_sum" and _is_one_vector(task)


def is_choice(task: Task) -> bool:
    """Whether a client only chooses, by its own data, among what was released: the server keeps
    that to itself, and what it does with it is charged as a noisy sum."""
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
    """The message for a method that averages single updates itself.

    Args:
        method: which one.
        so_that: why the option is no use to it.
    """
    because = requirements_of(method).reads.because
    why = f", because of its option {because}" if because else ""
    return (
        f"{type(method).__name__} averages single updates by itself{why}, so that {so_that}; a "
        "method that asks for means has one (fedavg, fedgroup, flexcfl, ifca with "
        "weighting='examples')"
    )


def check_asks_for_means(
    section: str, method: Method, so_that: str, round: int, *, single: int, averages: int
) -> None:
    """Refuse (MethodError) a method that asked for single updates in a round, and for no means.

    Args:
        section: of the option that needs means.
        method: which one.
        so_that: why the option is no use to it.
        round: which one; in the round of a first clustering, single updates are read to find
            clusters.
        single: how many calls asked for single updates.
        averages: how many asked for means.
    """
    if single and not averages and round != requirements_of(method).rounds.first_clustering:
        raise MethodError(f"{section}: {averages_itself(method, so_that)}")
