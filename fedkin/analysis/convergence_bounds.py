"""The quantities of FlexCFL's convergence theorem, measured for the models of a run.

M. Duan et al., IEEE TPDS 2022, section 4. Client k of group g has the loss F_k and the share p_k of
the group's samples; the group's loss is F_g = sum_k p_k F_k. From the group's model both sides take
E gradient steps of rate eta:

    client (eq. 10)           w_k <- w_k - eta grad F_k(w_k),  then w = sum_k p_k w_k
    virtual model (eq. 11)    v <- v - eta grad F_g(v)
    divergence (eq. 12)       delta_k = max |grad F_k - grad F_g|
    of a group, of all        delta_g = sum_k p_k delta_k,  delta = sum_g p_g delta_g (eq. 13)
    bound (eq. 18)            |w - v| <= B = delta_g / L ((eta L + 1)^E - 1)
    Theorem 1 (eq. 19)        |F_g(w) - F_g(v)| <= M B
    inter-group (eq. 20)      w' = w + eta_g sum_{l != g} w_l / |w_l|
    bound (eq. 21)            |w' - v| <= B + eta_g (K - 1)
    bound (eq. 22)            |F_g(w') - F_g(v)| <= M B + eta_g (K - 1)

Differs from the paper:
* Its maximum over all w, L and M cannot be measured. Here they are the largest values at the points
  that its proofs use, so the bounds hold there: delta_k at v before each step, L for w_k and v
  before each step, M as the norm of grad F_g at each v and at the final models. If F_g is convex,
  this M suffices. Known constants L and M can be given.
* The bound of a group has delta_g. The paper writes delta, the mean over groups, which bounds the
  mean over groups.
* Eq. 22 needs M times the whole of eq. 21, so M B + M eta_g (K - 1). As printed it can fail.

Shapes: n clients with a group, K groups with clients, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.model_spec import BYTES_PER_NUMBER
from fedkin.core.validation import check_not_negative
from fedkin.methods import cluster_steps
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.losses import Losses

if TYPE_CHECKING:
    import pandas as pd

_PORTION = 64 * 2**20  # bytes of models in one request
# Models that are nearer to each other, relative to their norm, have gradients that differ by the
# rounding of float32.
_RESOLUTION = 1e-5


@dataclass(frozen=True)
class ConvergenceBounds:
    """Both sides of the inequalities of FlexCFL's theorem. Arrays over groups are in the order of
    ``groups``, arrays over clients in the order of ``clients``.

    Attributes:
        clients: clients with a group.
        groups: ids of the groups that have clients.
        client_divergence: delta_k of each client (eq. 12).
        group_divergence: delta_g of each group, the mean of its clients' delta_k.
        divergence: delta, the mean over groups (eq. 13).
        smoothness: L, the Lipschitz constant of the gradients.
        lipschitz: M, the Lipschitz constant of the losses.
        virtual: the virtual model v of each group (eq. 11).
        federated: the mean w of the clients' models of each group (eq. 10).
        shared: the group's model w' after inter-group aggregation (eq. 20).
        distance, distance_bound: |w - v| and its bound (eq. 18).
        loss_gap, loss_bound: |F_g(w) - F_g(v)| and its bound (Theorem 1, eq. 19).
        shared_distance, shared_distance_bound: |w' - v| and its bound (eq. 21).
        shared_loss_gap, shared_loss_bound: |F_g(w') - F_g(v)| and its bound, eq. 22 with the factor
            M that it lacks.
        printed_loss_bound: eq. 22 as printed.
    """

    clients: Int[np.ndarray, "n"]
    groups: Int[np.ndarray, "K"]
    client_divergence: Float64[np.ndarray, "n"]
    group_divergence: Float64[np.ndarray, "K"]
    divergence: float
    smoothness: float
    lipschitz: float
    virtual: Float64[np.ndarray, "K P"]
    federated: Float64[np.ndarray, "K P"]
    shared: Float64[np.ndarray, "K P"]
    distance: Float64[np.ndarray, "K"]
    distance_bound: Float64[np.ndarray, "K"]
    loss_gap: Float64[np.ndarray, "K"]
    loss_bound: Float64[np.ndarray, "K"]
    shared_distance: Float64[np.ndarray, "K"]
    shared_distance_bound: Float64[np.ndarray, "K"]
    shared_loss_gap: Float64[np.ndarray, "K"]
    shared_loss_bound: Float64[np.ndarray, "K"]
    printed_loss_bound: Float64[np.ndarray, "K"]

    def table(self) -> pd.DataFrame:
        """A DataFrame with a row for each group: delta_g, and both sides of the inequalities."""
        import pandas as pd

        columns = ["group_divergence"]
        for quantity in ("distance", "loss_gap", "shared_distance", "shared_loss_gap"):
            columns += [quantity, f"{quantity.removesuffix('_gap')}_bound"]
        table = {name: getattr(self, name) for name in columns}
        return pd.DataFrame(table, index=pd.Index(self.groups, name="group"))


def convergence_bounds(
    world: SimulatedWorld,
    models: Float[np.ndarray, "_ _"],
    assignment: Int[np.ndarray, "N"],
    *,
    eta_g: float = 0.0,
    smoothness: float | None = None,
    lipschitz: float | None = None,
) -> ConvergenceBounds:
    """Measure the quantities of FlexCFL's convergence theorem from given group models.

    All clients of a group take the E full gradient steps of eq. 10, one for each epoch, whatever
    the batches of the run are. Memory grows as clients times parameters. The ledger counts the
    traffic as evaluation.

    Args:
        world: the simulated clients, such as ``fk.SimulatedWorld(data, model, local)``. Of its
            local training E (``epochs``) and eta (``lr``) are used.
        models: the groups' models, such as ``run.models``.
        assignment: group of each client, such as ``run.assignment``.
        eta_g: inter-group learning rate.
        smoothness: L, if it is known; otherwise it is measured.
        lipschitz: M, if it is known; otherwise it is measured.

    Raises:
        MethodError: no client has a group, a constant is negative, or a gradient is not finite.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> model = fk.models.mclr(data)
        >>> run = fk.simulate(fk.FlexCFL(clusters=2), data, model, rounds=1, cohort=6)
        >>> world = fk.SimulatedWorld(data, model)
        >>> bounds = convergence_bounds(world, run.models, run.assignment)
        >>> bool((bounds.loss_gap <= bounds.loss_bound).all())
        True
    """
    for name, constant in (("eta_g", eta_g), ("smoothness", smoothness), ("lipschitz", lipschitz)):
        if constant is not None:
            check_not_negative(name, constant)
    with world.ledger.scoring():
        groups = _Groups.of(world, assignment)
        steps = _take_steps(groups, models[groups.ids].astype(np.float64))
        shared = _aggregate(world, steps.federated, eta_g)
        ends = (steps.virtual, steps.federated, shared)
        virtual_loss, federated_loss, shared_loss = (groups.losses(end) for end in ends)
        if lipschitz is None:
            M = max(steps.largest_gradient, *(groups.gradient_norms(end).max() for end in ends))
        else:
            M = float(lipschitz)
    L = steps.smoothness if smoothness is None else float(smoothness)

    delta = groups.mean(steps.divergence[:, None])[:, 0]
    moved = delta * growth(L, world.work.lr, int(world.work.epochs))
    between = eta_g * (len(groups.ids) - 1)
    return ConvergenceBounds(
        clients=groups.clients,
        groups=groups.ids,
        client_divergence=steps.divergence,
        group_divergence=delta,
        divergence=float(groups.weights @ delta),
        smoothness=L,
        lipschitz=M,
        virtual=steps.virtual,
        federated=steps.federated,
        shared=shared,
        distance=np.linalg.norm(steps.federated - steps.virtual, axis=1),
        distance_bound=moved,
        loss_gap=np.abs(federated_loss - virtual_loss),
        loss_bound=M * moved,
        shared_distance=np.linalg.norm(shared - steps.virtual, axis=1),
        shared_distance_bound=moved + between,
        shared_loss_gap=np.abs(shared_loss - virtual_loss),
        shared_loss_bound=M * (moved + between),
        printed_loss_bound=M * moved + between,
    )


def growth(smoothness: float, rate: float, steps: int) -> float:
    """((eta L + 1)^E - 1) / L, the factor of delta in the bounds; its limit eta E for L = 0.

    Args:
        smoothness: L.
        rate: eta, the learning rate.
        steps: E, the number of steps.
    """
    if not smoothness:
        return rate * steps
    return float(np.expm1(steps * np.log1p(rate * smoothness))) / smoothness


@dataclass(frozen=True)
class _Groups:
    """The clients with a group, and means over the clients of each group."""

    world: SimulatedWorld
    clients: Int[np.ndarray, "n"]
    ids: Int[np.ndarray, "K"]
    group: Int[np.ndarray, "n"]  # row in ``ids`` of each client's group
    shares: Float64[np.ndarray, "K n"]  # p_k; 0 for clients of other groups
    weights: Float64[np.ndarray, "K"]  # p_g, the group's share of all samples

    @staticmethod
    def of(world: SimulatedWorld, assignment: Int[np.ndarray, "N"]) -> _Groups:
        """The groups of an assignment. Raises MethodError if no client has a group."""
        clients = np.flatnonzero(assignment != UNASSIGNED)
        if not len(clients):
            raise MethodError("no client has a group; give the assignment of a run")
        ids, group = np.unique(assignment[clients], return_inverse=True)
        samples = np.zeros((len(ids), len(clients)))
        samples[group, np.arange(len(clients))] = world.data.train.sizes[clients]
        totals = samples.sum(axis=1)
        return _Groups(
            world=world,
            clients=clients,
            ids=ids,
            group=group,
            shares=samples / totals[:, None],
            weights=totals / totals.sum(),
        )

    def mean(self, rows: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "K d"]:
        """sum_k p_k x_k of each group."""
        return self.shares @ rows

    def gradients(self, models: Float64[np.ndarray, "n P"]) -> Float64[np.ndarray, "n P"]:
        """Gradient of each client's training loss at its model. Raises MethodError if one is not
        finite."""
        portion = max(1, _PORTION // (models.shape[1] * BYTES_PER_NUMBER))
        parts = []
        for first in range(0, len(models), portion):
            rows = slice(first, first + portion)
            sent = models[rows].astype(np.float32)
            task = Gradients(sent, np.arange(len(sent)))
            parts.append(self.world.run(task, self.clients[rows]).gradients)
        gradients = np.concatenate(parts).astype(np.float64)
        if not np.isfinite(gradients).all():
            raise MethodError("a gradient is not finite; lower local.lr or local.epochs")
        return gradients

    def gradient_norms(self, models: Float64[np.ndarray, "K P"]) -> Float64[np.ndarray, "K"]:
        """|grad F_g| at each group's model."""
        return np.linalg.norm(self.mean(self.gradients(models[self.group])), axis=1)

    def losses(self, models: Float64[np.ndarray, "K P"]) -> Float64[np.ndarray, "K"]:
        """F_g at each group's model."""
        losses = self.world.run(Losses(models.astype(np.float32)), self.clients).losses
        return (self.shares * losses.T).sum(axis=1)


@dataclass(frozen=True)
class _Steps:
    """The result of the E steps of eqs. 10 and 11."""

    virtual: Float64[np.ndarray, "K P"]
    federated: Float64[np.ndarray, "K P"]
    divergence: Float64[np.ndarray, "n"]  # delta_k
    smoothness: float  # L
    largest_gradient: float  # the largest |grad F_g| at a virtual model before a step


def _take_steps(groups: _Groups, models: Float64[np.ndarray, "K P"]) -> _Steps:
    """Take the E steps of eqs. 10 and 11 from the groups' models."""
    rate = groups.world.work.lr
    virtual = models
    local = models[groups.group]
    divergence = np.zeros(len(groups.clients))
    smoothness = 0.0
    largest_gradient = 0.0
    for _ in range(int(groups.world.work.epochs)):
        at_virtual = groups.gradients(virtual[groups.group])
        at_local = groups.gradients(local)
        of_group = groups.mean(at_virtual)

        apart = np.linalg.norm(at_virtual - of_group[groups.group], axis=1)
        divergence = np.maximum(divergence, apart)
        change = _gradient_change(local, virtual[groups.group], at_local - at_virtual)
        smoothness = max(smoothness, change)
        largest_gradient = max(largest_gradient, float(np.linalg.norm(of_group, axis=1).max()))

        local = local - rate * at_local
        virtual = virtual - rate * of_group
    return _Steps(
        virtual=virtual,
        federated=groups.mean(local),
        divergence=divergence,
        smoothness=smoothness,
        largest_gradient=largest_gradient,
    )


def _gradient_change(
    first: Float64[np.ndarray, "n P"],
    second: Float64[np.ndarray, "n P"],
    change: Float64[np.ndarray, "n P"],
) -> float:
    """The largest |change| / |first - second| over rows whose models differ; 0 if none do."""
    distance = np.linalg.norm(first - second, axis=1)
    differs = distance > _RESOLUTION * np.linalg.norm(second, axis=1)
    ratios = np.linalg.norm(change[differs], axis=1) / distance[differs]
    return float(ratios.max(initial=0.0))


def _aggregate(
    world: SimulatedWorld, models: Float64[np.ndarray, "K P"], eta_g: float
) -> Float64[np.ndarray, "K P"]:
    """Inter-group aggregation without a divisor (eq. 20)."""
    state = State(models, np.arange(len(models)))
    return cluster_steps.aggregate_between_clusters(world, state, eta_g, normalize=False).models
