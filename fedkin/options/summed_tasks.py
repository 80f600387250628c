"""What clients send in reply to a task: one vector each that is only summed, a choice among models,
or something else.

Options that work on sums or means (privacy, secret sums, robust rules, late replies) use these
functions to decide how they treat a task. They also share ``averages_itself``, the error message
for a method that reads the update of every client instead of asking for means.
"""

from __future__ import annotations

from fedkin.core.errors import MethodError
from fedkin.core.method import Method
from fedkin.core.requirements import requirements_of
from fedkin.core.task import Task


def wants_sums(task: Task) -> bool:
    """Whether a task needs only the sum of one vector per client, so that noise on the sum protects
    the clients.

    A task may also ask for a few numbers, such as losses; privacy and secret sums replace these by
    zeros.
    """
    return task.charged == "sum" and _is_one_vector(task)


def is_start(task: Task) -> bool:
    """Whether a task of a cold start (first clustering) needs only the sum of one vector per
    client, of norm at most 1."""
    return task.charged == "unit_sum" and _is_one_vector(task)


def is_choice(task: Task) -> bool:
    """Whether a client's reply is only its choice among values that are already public (e.g. which
    of the released models fits its data best).

    The choice itself costs no privacy, since a trusted server does not release it. The sums that
    the server computes by these choices get noise, and are charged.
    """
    arrays = task.up.arrays.values()
    return task.charged == "choice" and all(
        array.over == "row" and not array.counted for array in arrays
    )


def _is_one_vector(task: Task) -> bool:
    """Whether the only large array of a task's reply is one vector per client, averaged by
    model."""
    up = task.up
    vectors = [array for array in up.of("model").values() if array.norm_checked]
    other_arrays = up.of("all") or any(array.counted for array in up.of("row").values())
    return len(vectors) == 1 and not other_arrays and not task.local


def averages_itself(method: Method, so_that: str) -> str:
    """The message for a method that collects single updates and averages them itself, so that an
    option which acts on the world's means would have no effect.

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
        round: the round. In the round in which a method first finds its clusters, it may read
            single updates.
        single: number of tasks in the round that requested single updates.
        averages: number of tasks in the round that requested means.
    """
    if single and not averages and round != requirements_of(method).rounds.first_clustering:
        raise MethodError(f"{section}: {averages_itself(method, so_that)}")
