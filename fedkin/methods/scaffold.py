"""SCAFFOLD: local steps corrected by control variates, so that clients do not drift apart.

S. P. Karimireddy, S. Kale, M. Mohri, S. Reddi, S. Stich, A. T. Suresh: SCAFFOLD: Stochastic
Controlled Averaging for Federated Learning. ICML 2020, arXiv 1910.06378.

    client i:  y <- y - lr (g_i(y) - c_i + c),  K_i steps from x
               c_i+ = g_i(x), over all its samples                 option I
               c_i+ = c_i - c + (x - y) / (K_i lr)                 option II
    server:    x <- x + eta mean_S (y_i - x)
               c <- c + |S| / N mean_S (c_i+ - c_i)
    S: the clients that replied, N: all clients

c_i and c start at 0; means are unweighted. c_i stays on its client. Differs from the paper: K_i is
the client's number of steps (epochs times batches), while the paper has one K for all. With a
schedule of local steps K_i lr is the sum of their rates. Many published implementations contain
errors: K without the epochs, c divided by |S| instead of N, or a server that adds c_i instead of
its change. A client that never trained has c_i = 0. If a real client's reply is lost on the way,
its c_i has changed but c has not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.method import State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import ClientReads, MemoryNeeds, ModelParts, Requirements
from fedkin.core.training import LocalTraining
from fedkin.core.validation import check_choice, check_positive
from fedkin.core.world import World
from fedkin.methods.about import About
from fedkin.methods.fedavg import single_model_state
from fedkin.tasks.scaffold import Controlled


@dataclass(frozen=True)
class ScaffoldState(State):
    """One model, and the server's control variate."""

    control: Float[np.ndarray, "P"]  # c


@plain_options
@dataclass(frozen=True)
class SCAFFOLD:
    """One global model; control variates keep the clients' local steps from drifting apart.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.SCAFFOLD(), data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (1, 650)
    """

    about: ClassVar[About] = About(
        name="scaffold",
        paper="Karimireddy et al., ICML 2020",
        leaves="the change of its control variate, in a sum",
    )

    option: Literal["I", "II"] = "II"  # rule for control variates: one more gradient, or the steps
    server_lr: float = 1.0  # learning rate of the server (eta)

    def __post_init__(self) -> None:
        check_choice("option", self.option, ("I", "II"))
        check_positive("server_lr", self.server_lr)

    def requirements(self) -> Requirements:
        return Requirements(
            reads=ClientReads(sends="control variates"),
            parts=ModelParts(own="control variates of clients"),
            memory=MemoryNeeds(kept_models=1),
        )

    def init(self, world: World, stream: Stream) -> ScaffoldState:
        """One model; the server's control variate starts at zero.

        Raises:
            MethodError: option II is set, but local steps do not give the mean gradient.
        """
        self._check_steps(world.work)
        start = single_model_state(world, stream)
        return ScaffoldState(
            models=start.models,
            assignment=start.assignment,
            control=np.zeros(world.spec.parameters, np.float32),
        )

    def round(
        self, world: World, state: ScaffoldState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> ScaffoldState:
        task = Controlled(
            models=state.models,
            control=state.control,
            work=world.work,
            model_index=state.assignment[cohort],
            rate=world.work.rate(stream.round),
            option=self.option,
        )
        reply = world.run(task, cohort, stream.child("train"))

        # x <- x + eta mean_S (y_i - x)
        models = state.models + np.float32(self.server_lr) * reply.update

        # c <- c + |S| / N mean_S (c_i+ - c_i)
        share = reply.arrived.sum() / world.total_clients
        control = state.control + np.float32(share) * reply.control_update[0]
        return replace(state, models=models, control=control)

    def place(
        self, world: World, state: ScaffoldState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> ScaffoldState:
        return state  # there is one cluster, and all clients are in it from the start

    def _check_steps(self, work: LocalTraining) -> None:
        """Raise MethodError if local steps are not plain SGD, from which option II computes a
        client's mean gradient. Option I needs no such steps."""
        if self.option != "II":
            return
        causes = [f"optimizer = {work.optimizer!r}"] if work.optimizer != "sgd" else []
        for name in ("momentum", "mu", "clip_norm"):
            value = getattr(work, name)
            if value:
                causes.append(f"{name} = {value}")
        if causes:
            raise MethodError(
                "SCAFFOLD with option 'II' reads a client's mean gradient from its plain SGD "
                f"steps, but local {causes[0]} changes them; leave that out, or set "
                "method.option='I'"
            )
