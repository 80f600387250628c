"""Disclosure floors of a site: which replies it refuses to give, whatever the server asks.

A floor limits single replies. It is no privacy guarantee: the difference of two replies may still
say something about one person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from fedkin.config.server_settings import DisclosureSettings
from fedkin.core.errors import ConfigError, FedkinError, unknown
from fedkin.core.model_spec import BYTES_PER_NUMBER
from fedkin.core.schema import INDEX
from fedkin.core.task import Task
from fedkin.server.task_messages import known_rows
from fedkin.tasks import all_tasks, find_task

REFUSED_BY = "refused_by"  # entry of a ledger's line: the floor by which the site refused a request
TASKS = "tasks"  # header entry of the server's handshake: tasks that its methods send
SINGLE = "single"  # header entry of the server's handshake: whether updates are of single clients
_CHOOSE = "or choose another method (fedkin methods lists them)"


class DisclosureError(FedkinError):
    """A site refuses a request, because a reply would be below one of its floors.

    ``floor`` is the key in [disclosure].
    """

    def __init__(self, floor: str, reason: str) -> None:
        super().__init__(f"disclosure.{floor}: {reason}")
        self.floor = floor


@dataclass(frozen=True)
class Floors:
    """A site's floors, and the numbers of its samples that they are compared with.

    Attributes:
        settings: the section [disclosure].
        samples: number of training samples of each client.
        sizes: gives the number of samples of each client in a split, such as ``test``.
        class_counts: gives the number of training samples of each class, for each client.
        hides_scores: whether clients with too few test samples seem to have none, so that a reply
            to training has no scores of them.
    """

    settings: DisclosureSettings
    samples: Int[np.ndarray, "c"]
    sizes: Callable[[str], Int[np.ndarray, "c"]]
    class_counts: Callable[[], Int[np.ndarray, "c C"]]
    hides_scores: bool = False

    def check_names(self) -> None:
        """Raise ConfigError if the section names a task that does not exist."""
        for name in self.settings.tasks or ():
            if find_task(name) is None:
                known = unknown("task", name, [kind.name for kind in all_tasks()])
                raise ConfigError(f"disclosure.tasks: {known}")

    def check_start(self, tasks: Sequence[str], single: bool, parameters: int) -> None:
        """Check at the handshake that the server's methods can be run above the floors.

        Args:
            tasks: names of tasks that the methods send.
            single: whether a method reads the update of each client.
            parameters: number of the model's parameters.

        Raises:
            DisclosureError: they cannot, for the reason in the text.
        """
        floors = self.settings
        subjects = self._all_subjects()
        if subjects < floors.subjects:
            raise DisclosureError(
                "subjects",
                f"this site has {subjects} {floors.count}, but its floor is {floors.subjects}, so "
                "it cannot take part; add data, or lower the floor in client.toml",
            )
        allowed = floors.tasks
        refused = [] if allowed is None else [name for name in tasks if name not in allowed]
        if refused:
            raise DisclosureError(
                "tasks",
                f"the server's method sends the task {refused[0]}, which this site does not "
                f"allow; add it to disclosure.tasks in client.toml, {_CHOOSE}",
            )
        if single and floors.count == "clients" and floors.subjects > 1:
            raise DisclosureError(
                "subjects",
                "the server's method reads the update of each client, and each client is one "
                f"subject, but this site's floor is {floors.subjects}; choose a method that "
                'needs only means (fedkin methods), or count = "samples" in client.toml',
            )
        size = BYTES_PER_NUMBER * parameters
        if floors.bytes_per_round is not None and size > floors.bytes_per_round:
            raise DisclosureError(
                "bytes_per_round",
                f"one update of the model has {size:,} bytes, but at most "
                f"{floors.bytes_per_round:,} may leave this site in a round; raise the limit in "
                "client.toml, or choose a smaller model",
            )

    def check_task(self, task: Task, clients: Int[np.ndarray, "r"]) -> None:
        """Check a request before the work begins.

        Args:
            task: the task of the request, only for these clients.
            clients: positions of the clients among those of the site.

        Raises:
            DisclosureError: the reply would be below a floor.
        """
        floors = self.settings
        if floors.tasks is not None and task.name not in floors.tasks:
            raise DisclosureError("tasks", f"this site does not answer the task {task.name}")
        subjects = subjects_behind(task, clients, self.samples, floors.count)
        if subjects < floors.subjects:
            raise DisclosureError(
                "subjects",
                f"a number in the reply to {task.name} would stand for {subjects} {floors.count}, "
                f"but this site's floor is {floors.subjects}",
            )
        self._check_scores(task, clients)
        self._check_classes(task, clients)

    def check_reply(self, task: Task, arrays: Mapping[str, np.ndarray]) -> None:
        """Check a reply before it is sent. Raises DisclosureError for too many models, or a
        histogram with a cell of too few samples.

        Args:
            task: the task that was done.
            arrays: arrays of the reply.
        """
        self._check_histograms(task, arrays)
        limit = self.settings.models
        models = models_in(task, arrays)
        if limit is not None and models > limit:
            raise DisclosureError(
                "models",
                f"the reply to {task.name} would hold {models} models, but at most {limit} may "
                "leave this site at a time",
            )

    def _all_subjects(self) -> int:
        """The number of subjects of the site."""
        by_client = self.settings.count == "clients"
        return len(self.samples) if by_client else int(self.samples.sum())

    def _check_scores(self, task: Task, clients: Int[np.ndarray, "r"]) -> None:
        """Raise DisclosureError if scores would be of too few test samples."""
        scored = getattr(task, "split", "train")
        if getattr(task, "test", False) is True and not self.hides_scores:
            scored = "test"
        if scored == "train":
            return
        sizes = self.sizes(scored)[clients]
        if _is_summed(task):
            sizes = sizes.sum(keepdims=True)
        few = _few(sizes, self.settings.test)
        if few is not None:
            raise DisclosureError(
                "test",
                f"a score in the reply to {task.name} would be of {few} {scored} samples, but "
                f"this site's floor is {self.settings.test}",
            )

    def _check_classes(self, task: Task, clients: Int[np.ndarray, "r"]) -> None:
        """Raise DisclosureError if numbers about a class would stand for too few samples."""
        if not any("C" in array.axes.split() for array in task.up.carried.values()):
            return
        counts = self.class_counts()[clients]
        if _is_summed(task):
            counts = counts.sum(axis=0)
        few = _few(counts, self.settings.per_class)
        if few is not None:
            raise DisclosureError(
                "per_class",
                f"a number about a class in the reply to {task.name} would stand for {few} "
                f"samples, but this site's floor is {self.settings.per_class}",
            )

    def _check_histograms(self, task: Task, arrays: Mapping[str, np.ndarray]) -> None:
        """Raise DisclosureError for a histogram with a cell of too few samples. Every array with
        several whole numbers for each client, or for all clients, counts as one."""
        for name, array in task.up.carried.items():
            if name not in arrays or not array.axes or np.dtype(array.dtype).kind != "i":
                continue
            few = _few(np.asarray(arrays[name]), self.settings.per_class)
            if few is not None:
                raise DisclosureError(
                    "per_class",
                    f"a cell of {name} in the reply to {task.name} would stand for {few} samples, "
                    f"but this site's floor is {self.settings.per_class}",
                )


def _few(counts: np.ndarray, floor: int) -> int | None:
    """The smallest number of samples that is below a floor; None if there is none. Zero says
    nothing about a sample."""
    few = counts[(counts > 0) & (counts < floor)]
    return int(few.min()) if few.size else None


def subjects_behind(
    task: Task,
    clients: Int[np.ndarray, "r"],
    samples: Int[np.ndarray, "c"],
    count: str = "samples",
) -> int:
    """The fewest subjects behind any number in a reply.

    If the reply has numbers of each client, these are the subjects of one client. Sums stand for
    all clients that are asked. A mean by model stands for the clients of the model; if clients
    choose their models, it may stand for one of them.

    Args:
        task: the task, only for these clients.
        clients: positions of the clients among those of the site.
        samples: number of training samples of each client of the site.
        count: what a subject is: ``samples`` or ``clients``.
    """
    subjects = samples[clients] if count == "samples" else np.ones(len(clients), np.int64)
    if _is_summed(task):
        return int(subjects.sum())
    index = getattr(task, INDEX, None)
    if _rows_of_clients(task) or index is None:
        return int(subjects.min())
    of_models = [int(subjects[index == model].sum()) for model in np.unique(index)]
    return min(of_models)


def models_in(task: Task, arrays: Mapping[str, np.ndarray]) -> int:
    """The number of vectors with a number for each of the model's parameters in a reply."""
    # In a task with models, p is the number of the parameters that are sent.
    of_models = ("P", "p") if hasattr(task, "models") else ("P",)
    total = 0
    for name, array in task.up.carried.items():
        axes = array.axes.split()
        if name in arrays and axes and axes[-1] in of_models:
            total += int(np.prod(np.shape(arrays[name])[:-1], dtype=np.int64))
    return total


def spent_bytes(spent: int, size: int, limit: int) -> str:
    """The reason to refuse a reply that would exceed the bytes of a round; empty if it fits.

    Args:
        spent: bytes that have left in this round.
        size: bytes of the reply.
        limit: the most bytes of a round.
    """
    if spent + size <= limit:
        return ""
    return (
        f"disclosure.bytes_per_round: {spent:,} bytes have left this site in this round, and the "
        f"reply has {size:,}, but at most {limit:,} may leave"
    )


def _rows_of_clients(task: Task) -> set[str]:
    """Names of the arrays with numbers of each client that a reply to a task holds. The models
    that the clients chose are not among them."""
    return task.up.of("row").keys() - known_rows(task) - {INDEX}


def _is_summed(task: Task) -> bool:
    """Whether all numbers in a reply to a task are sums over all clients."""
    return not _rows_of_clients(task) and not task.up.of("model")
