"""FedPer: one global body, and a personal last layer for each client.

M. G. Arivazhagan, V. Aggarwal, A. K. Singh, S. Choudhary: Federated Learning with Personalization
Layers. arXiv 1912.00818, 2019.

Also FedRep, which trains the head before the body: L. Collins, H. Hassani, A. Mokhtari, S.
Shakkottai: Exploiting Shared Representations for Personalized Federated Learning. ICML 2021, arXiv
2102.07078.

    w_i = (b, h_i)     body b of all clients; head h_i, which stays on client i
    client i:  (b_i, h_i) <- local SGD on both, from (b, h_i)                              FedPer
               h_i <- local SGD on the head alone, then b_i <- local SGD on the body       FedRep
    server:    b <- sum_i n_i b_i / sum_i n_i
               over the clients whose body arrived; n_i is client i's number of training samples

Differs from the papers: the head is the last layer (weight and bias), while FedPer also has heads
of several blocks. All heads start as the head of the initial model. Statistics of normalisation
layers belong to the body, and are averaged with it. Clients are tested with their own heads. A
client that was never in a cohort is tested with the initial head, which is no better than random,
so cohorts should reach all clients. A new client gets its head in its first round. FedRep's head
and body see the same batches, and the run's training settings give the epochs of the body.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.method import State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import ClientReads, ModelNeeds, ModelParts, Requirements
from fedkin.core.task import Task
from fedkin.core.validation import check_positive_integer
from fedkin.core.world import World
from fedkin.methods.about import About
from fedkin.tasks.fedper import EvaluatePersonal, Personal, body_of, join


@dataclass(frozen=True)
class FedPerState(State):
    """One model, of which only the body (all layers but the last) is trained; its head (last layer)
    keeps its initial value. Clients keep their own heads."""

    start: Float[np.ndarray, "P"]  # the initial model

    def evaluation(self, spec: ModelSpec, clients: Int[np.ndarray, "n"]) -> Task:
        return EvaluatePersonal(
            models=body_of(self.models, spec.head),
            model_index=self.assignment[clients],
            start=self.start,
            head=spec.head,
        )


@plain_options
@dataclass(frozen=True)
class FedPer:
    """One global body. Every client keeps its own last layer, which is never sent.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.FedPer(), data, fk.models.mlp(data), rounds=1, cohort=6)
        >>> run.models.shape
        (1, 9610)
    """

    about: ClassVar[About] = About(
        name="fedper",
        paper="Arivazhagan et al., arXiv 1912.00818",
    )

    head_epochs: int = 0  # epochs in which only the head is trained, before the body; 0: together

    def __post_init__(self) -> None:
        if self.head_epochs:
            check_positive_integer("head_epochs", self.head_epochs)

    def requirements(self) -> Requirements:
        return Requirements(
            model=ModelNeeds(last_layer=True, hidden_layers=True),
            reads=ClientReads(sends="bodies of models"),
            parts=ModelParts(own="heads of clients"),
        )

    def init(self, world: World, stream: Stream) -> FedPerState:
        """The initial state: one cluster with all clients, and its model.

        Raises:
            MethodError: the model has no known last layer, or no other layer.
        """
        start = world.initial(stream.child("model"))
        head = world.spec.head
        if head is None or not len(body_of(start, head)):
            why = "has no other" if head else "does not end in a weight [C, d] and a bias [C]"
            raise MethodError(
                f"{type(self).__name__} shares all layers except the last, but this model {why}: "
                "use a model with hidden layers, such as model.name=mlp"
            )
        return FedPerState(
            models=start[None],
            assignment=np.zeros(world.total_clients, np.int64),
            start=start,
        )

    def round(
        self, world: World, state: FedPerState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FedPerState:
        head = world.spec.head
        bodies = body_of(state.models, head)
        task = Personal(
            models=bodies,
            work=world.work,
            model_index=state.assignment[cohort],
            start=state.start,
            head=head,
            head_epochs=self.head_epochs,
        )
        reply = world.run(task, cohort, stream.child("train"))
        models = join(bodies + reply.update, state.start[None, head], head)
        return replace(state, models=models)

    def place(
        self, world: World, state: FedPerState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FedPerState:
        return state  # there is one cluster, and all clients are in it from the start


@plain_options
@dataclass(frozen=True)
class FedRep(FedPer):
    """FedPer whose clients train their last layer first, and then the body.

    Examples:
        >>> import fedkin as fk
        >>> fk.FedRep(head_epochs=5)
        FedRep(head_epochs=5)
    """

    about: ClassVar[About] = About(
        name="fedrep",
        paper="Collins et al., ICML 2021",
    )

    head_epochs: int = 10  # epochs in which only the head is trained, before the body
