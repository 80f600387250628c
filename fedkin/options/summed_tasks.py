"""What a task sends to the server: a sum of one vector of each client, a choice, or something else."""

from __future__ import annotations

from fedkin.core.task import Task


def wants_sums(task: Task) -> bool:
    """Whether all that a task sends is one vector by model, which noise covers, besides numbers that nobody needs."""
    return task.charged == "sum" and _is_one_vector(task)


def is_start(task: Task) -> bool:
    """Whether all that a task sends is one vector no longer than 1 by model, as a cold start asks for."""
    return task.charged == "unit_sum" and _is_one_vector(task)


def is_choice(task: Task) -> bool:
    """Whether a client only chooses, by its own data, among what was released: the server keeps that to itself, and
    what it does with it is charged as a noisy sum."""
    arrays = task.up.arrays.values()
    return task.charged == "choice" and all(array.over == "row" and not array.counted for array in arrays)


def _is_one_vector(task: Task) -> bool:
    up = task.up
    vectors = [array for array in up.of("model").values() if array.norm_checked]
    more = up.of("all") or any(array.counted for array in up.of("row").values())
    return len(vectors) == 1 and not more and not task.local
