"""The personal model of a client, which never leaves it (Ditto, APFL, pFedMe, FedSoft): its name in
client memory, and its evaluation.

Shapes: n rows (clients), r rows of a portion, K models, P parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.schema import Memory
from fedkin.core.task import Task, chosen, each
from fedkin.tasks.evaluate import Evaluate, refuse_counts, score_reply
from fedkin.tasks.train import and_padding

OWN = "own_model"
Read = Callable[[str, np.ndarray], np.ndarray]
_MEMORY = {OWN: Memory("P", np.float32)}


@dataclass(frozen=True)
class EvaluateOwn(Task):
    """Evaluation of each client's personal model on its data.

    A client without a personal model is evaluated with its cluster's model.

    Attributes:
        models: models of the clusters.
        model_index: for each row (a client), the model of its cluster.
        split: ``test``, ``train``, or ``validation`` if the data have one.
    """

    models: Float[np.ndarray, "K P"] = chosen("K P")
    model_index: Int[np.ndarray, "n"] = each()
    split: str = "test"

    up = Evaluate.up
    memory = _MEMORY
    can_be_lost = False  # an evaluation covers every client

    def compute(self, client: Client) -> dict[str, Any]:

        def stored(name: str, first: np.ndarray) -> np.ndarray:
            return client.memory.get(name, first[0])[None]

        model = self.read(stored, self.models[self.model_index])
        return score_reply(client.score(model, np.asarray(0), self.split))

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        for portion in rows.portions(self.models.shape[1]):
            clients = rows.clients[portion]
            received = self.models[self.model_index[portion]]
            own_model = self.read(
                lambda name, first, clients=clients: rows.memory.read(name, clients, first),
                received,
            )
            sums = rows.scorer.score(
                and_padding(own_model), rows.clients[portion], np.arange(len(portion)), self.split
            )
            yield portion, score_reply(sums)

    def read(self, stored: Read, received: Float[np.ndarray, "r P"]) -> Float[np.ndarray, "r P"]:
        """The models with which some clients are evaluated: each client's personal model, or its
        cluster's model if it has none.

        Args:
            stored: function that reads an array from the clients' memory, by its name; its second
                argument is the value for clients that have not stored one.
            received: models of the clients' clusters.
        """
        return stored(OWN, received)

    def check_sums(self, arrays: Mapping[str, np.ndarray], counted: Sequence[int]) -> None:
        refuse_counts(self, arrays, counted)
