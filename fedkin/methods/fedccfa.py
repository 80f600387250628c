"""FedCCFA: one body; for each class, clients that label alike share a row of their last layers.

J. Chen, J. Xue, Y. Wang, Z. Liu, L. Huang: Classifier Clustering and Feature Alignment for
Federated Learning under Distributed Concept Drift. NeurIPS 2024, arXiv 2410.18478. The paper's body
could not be read: this file follows the authors' code.

    w_i = (b, h_i)   body b of all clients; last layer h_i of client i, row h_ic for class c
    client i:  v_i <- SGD on the last layer from its initial value, on few samples, equally many of
                      each class (balanced)
               h_i <- SGD on the last layer, then b_i <- SGD on the body
    server:    b <- sum_i n_i b_i / sum_i n_i
               D_ijc = mean over other clients z of |cos(v_ic, v_zc) - cos(v_jc, v_zc)|
               for each class c: clients with D_ijc <= eps, and chains of them, are a group
               h_ic <- mean of h_jc over the group of i;  alone in its group: as trained

So clients whose concepts differ in two classes only go on sharing all other rows. Groups are found
in each round, so that a drift of labels moves a client in its next round. Chains join groups if one
client lies between them. The distances need three clients in a round.

The initial last layer is in all rows, so distances are small where it is large or trained little,
and eps = 0.1 may join all. (Eight clients of handwritten digits, network 64-128-10, two classes
exchanged by half of them: 0.02 within and 0.05 between the halves after 15 rounds.) ``changes`` is
our addition: D compares v_ic minus its initial value (there, 0.2 within and 0.7 between).

Differs from the authors' code: (1) Features are not aligned to common prototypes of classes, so no
prototypes are sent. (2) The balanced samples are the first ones of each class that a client has;
there, all clients have all classes. The rows of a class that a client does not have only learn to
give low scores. (3) Clients do not tell how many samples of a class they have, so means of rows
have equal weights (the code's ``uniform``). The last layer must store its weight as [C, d], as
those of fedkin, Equinox and PyTorch do. A client that was never in a cohort has the initial last
layer. Last layers are kept by the server: N (C d + C) numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from fedkin.aggregation import mean_by_model
from fedkin.clustering.class_groups import group_means, groups_by_class
from fedkin.core.errors import MethodError
from fedkin.core.method import State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import (
    ClientReads,
    DataNeeds,
    MemoryNeeds,
    ModelNeeds,
    ModelParts,
    Requirements,
)
from fedkin.core.task import Task
from fedkin.core.validation import (
    check_choice,
    check_not_negative,
    check_positive,
    check_positive_integer,
)
from fedkin.core.world import World
from fedkin.methods.about import About
from fedkin.tasks.evaluate import Evaluate
from fedkin.tasks.fedccfa import TrainClassHeads


@dataclass(frozen=True)
class FedCCFAState(State):
    """One model, whose last layer keeps its initial value, and the last layers of all clients."""

    start: Float[np.ndarray, "P"]  # the initial model
    heads: Float[np.ndarray, "N h"]  # weight [C, d] and bias [C] of each client

    def evaluation(self, spec: ModelSpec, clients: Int[np.ndarray, "n"]) -> Task:
        assert spec.head is not None
        return Evaluate(_whole(self, spec.head, clients), np.arange(len(clients)))


@plain_options
@dataclass(frozen=True)
class FedCCFA:
    """One body, and last layers whose rows are shared, class by class, by clients that label alike.

    Examples:
        >>> import fedkin as fk
        >>> fk.FedCCFA(eps=0.2).per_class
        5
    """

    about: ClassVar[About] = About(
        name="fedccfa",
        paper="Chen et al., NeurIPS 2024",
        compares="last layers",
        when="every round",
        membership="hard",
        decides="server",
        count="found",
        leaves="its model; a balanced last layer",
    )

    eps: float = 0.1  # largest distance of two clients that share a row
    changes: bool = False  # compare how rows have changed since the start, in place of rows
    per_class: int = 5  # largest number of samples of a class, for the balanced last layer
    balanced_epochs: int = 5  # its epochs
    head_epochs: int = 1  # epochs of the client's last layer, before the body
    head_lr: float = 0.1  # learning rate of last layers

    def __post_init__(self) -> None:
        check_not_negative("eps", self.eps)
        check_choice("changes", self.changes, (True, False))
        check_positive("head_lr", self.head_lr)
        for name in ("per_class", "balanced_epochs", "head_epochs"):
            check_positive_integer(name, getattr(self, name))

    def requirements(self) -> Requirements:
        return Requirements(
            model=ModelNeeds(last_layer=True, hidden_layers=True),
            reads=ClientReads(updates="single", sends="balanced last layers"),
            parts=ModelParts(own="last layers of clients"),
            memory=MemoryNeeds(compares_all=True),
            data=DataNeeds(classes="compares the last layer's rows of classes"),
        )

    def init(self, world: World, stream: Stream) -> FedCCFAState:
        """One model, and its last layer for all clients.

        Raises:
            MethodError: the model has no known last layer, or no other layer.
        """
        start = world.initial(stream.child("model"))
        head = world.spec.head
        if head is None or head.stop - head.start == len(start):
            raise MethodError(
                "FedCCFA shares all layers except the last, but this model has no other, or does "
                "not end in a weight [C, d] and a bias [C]: use a model with hidden layers, such "
                "as model.name=mlp"
            )
        return FedCCFAState(
            models=start[None],
            assignment=np.zeros(world.total_clients, np.int64),
            start=start,
            heads=np.tile(start[head], (world.total_clients, 1)),
        )

    def round(
        self, world: World, state: FedCCFAState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FedCCFAState:
        head = world.spec.head
        bias = world.spec.head_bias
        assert head is not None and bias is not None
        task = TrainClassHeads(
            models=_whole(state, head, cohort),
            work=world.work,
            model_index=np.arange(len(cohort)),
            start=state.start,
            head=head,
            per_class=self.per_class,
            balanced_epochs=self.balanced_epochs,
            head_epochs=self.head_epochs,
            head_lr=self.head_lr,
        )
        reply = world.run(task, cohort, stream.child("train"))

        # The body: the mean over clients. The model's last layer keeps its initial value.
        weights = np.where(reply.arrived, reply.examples, 0.0)
        mean, _ = mean_by_model(reply.update, weights, np.zeros(len(cohort), np.int64), 1)
        mean[:, head] = 0

        # The last layers: means of the groups of each class.
        clients = cohort[reply.arrived]
        if not len(clients):
            return state
        classes = bias.stop - bias.start
        trained = state.heads[clients] + reply.update[reply.arrived, head]
        compared = reply.balanced[reply.arrived]
        if self.changes:
            compared = compared - state.start[head]
        groups = groups_by_class(_by_class(compared, classes), self.eps)
        shared = group_means(_by_class(trained, classes), groups)
        heads = state.heads.copy()
        heads[clients] = _as_layers(shared)
        return replace(state, models=state.models + mean, heads=heads)

    def place(
        self, world: World, state: FedCCFAState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FedCCFAState:
        return state  # all clients have the body, and an initial last layer


def _whole(
    state: FedCCFAState, head: slice, clients: Int[np.ndarray, "n"]
) -> Float[np.ndarray, "n P"]:
    """The body with the last layer of each client."""
    models = np.repeat(state.models, len(clients), axis=0)
    models[:, head] = state.heads[clients]
    return models


def _by_class(layers: Float[np.ndarray, "n h"], classes: int) -> Float[np.ndarray, "n C q"]:
    """Last layers (weight [C, d], then bias [C]) as rows of classes, each with its bias last."""
    weight = layers[:, :-classes].reshape(len(layers), classes, -1)
    return np.concatenate([weight, layers[:, -classes:, None]], axis=2)


def _as_layers(rows: Float[np.ndarray, "n C q"]) -> Float[np.ndarray, "n h"]:
    """Rows of classes as last layers: the inverse of ``_by_class``."""
    weight = rows[:, :, :-1].reshape(len(rows), rows.shape[1] * (rows.shape[2] - 1))
    return np.concatenate([weight, rows[:, :, -1]], axis=1).astype(np.float32)
