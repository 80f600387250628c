"""A model of each client's own, which never leaves it (Ditto, APFL, pFedMe, FedSoft): under which
name a client keeps it, and its evaluation.

Shapes: n rows, r of a portion, K models, P parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.errors import TaskError
from fedkin.core.schema import Memory
from fedkin.core.task import Task, chosen, each
from fedkin.tasks.evaluate import Evaluate
from fedkin.tasks.train import and_padding

OWN = "own_model"
Read = Callable[[str, np.ndarray], np.ndarray]
_MEMORY = {OWN: Memory("P", np.float32)}


@dataclass(frozen=True)
class EvaluateOwn(Task):
    """Evaluation of each client's own model on its own data; of a client that has none, of the
    model of its cluster.

    Attributes:
        models: of the clusters.
        model_index: that of each row.
        split: ``test``, ``train``, or ``validation`` where the data have one.
    """

    models: Float[np.ndarray, "K P"] = chosen("K P")
    model_index: Int[np.ndarray, "n"] = each()
    split: str = "test"

    up = Evaluate.up
    memory = _MEMORY
    can_be_lost = False  # it measures a method, and so every client

    def compute(self, client: Client) -> dict[str, Any]:
        model = self.read(
            lambda name, first: client.memory.get(name, first[0])[None],
            self.models[self.model_index],
        )
        correct, loss, examples = client.score(model, np.asarray(0), self.split)
        return {"correct": np.int64(correct), "examples": examples, "loss": loss / max(examples, 1)}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        for some in rows.portions(self.models.shape[1]):
            clients = rows.clients[some]
            received = self.models[self.model_index[some]]
            own = self.read(
                lambda name, first, clients=clients: rows.memory.read(name, clients, first),
                received,
            )
            sums = rows.scorer.score(
                and_padding(own), rows.clients[some], np.arange(len(some)), self.split
            )
            loss = sums.loss / np.maximum(sums.examples, 1)
            yield (
                some,
                {"correct": sums.correct.astype(np.int64), "examples": sums.examples, "loss": loss},
            )

    def read(self, stored: Read, received: Float[np.ndarray, "r P"]) -> Float[np.ndarray, "r P"]:
        """The models that some clients are tested with.

        Args:
            stored: an array that clients keep, by its name and what it is of a client that keeps
                none.
            received: the models of their clusters.
        """
        return stored(OWN, received)

    def check_reply(self, arrays: Mapping[str, np.ndarray]) -> None:
        if (arrays["correct"] > arrays["examples"]).any():
            raise TaskError(
                f"task {self.name}: impossible scores, more correct samples than samples"
            )
