"""Survival curves and C-indices of a run's clusters, from sums over clients."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int

from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.core.world import World
from fedkin.measures.concordance import Concordance
from fedkin.measures.survival_curves import SurvivalCurve, kaplan_meier
from fedkin.options.journal import Journal
from fedkin.options.secret.secret_settings import SecretSettings
from fedkin.options.secret.secret_sums import SecretWorld
from fedkin.tasks.survival_counts import SurvivalCounts, cluster_counts


class ClusterSurvival(NamedTuple):
    """The survival of a cluster's patients.

    Attributes:
        cluster: number of the cluster.
        clients: number of clients that have replied.
        patients: number of their patients.
        curve: the Kaplan-Meier curve on the grid of times, with Greenwood's variance.
        pairs: comparable pairs within clients, by the risks of the cluster's model.
    """

    cluster: int
    clients: int
    patients: int
    curve: SurvivalCurve
    pairs: Concordance

    @property
    def concordance_index(self) -> float | None:
        """The C-index within clients; None with fewer than two comparable pairs."""
        return self.pairs.index

    def __str__(self) -> str:
        index = self.concordance_index
        shown = "-" if index is None else f"{index:.3f}"
        return (
            f"cluster {self.cluster}: {self.patients} patients of {self.clients} clients, median "
            f"survival {self.curve.median:g}, C-index within clients {shown}"
        )


def survival_curves(
    run: Any,
    *,
    grid: Any = None,
    split: str = "test",
    secret: SecretSettings | None = None,
) -> list[ClusterSurvival]:
    """The Kaplan-Meier curve and the C-index of each cluster of a run, from sums over its clients.

    A client sends numbers of events and of patients at risk at public times, and of comparable
    pairs; no time of a patient leaves it. If the grid holds the time of every event, a curve is the
    one of the pooled patients. A coarser grid, such as months, gives the estimate of a life table,
    and hides single patients better.

    Args:
        run: a run on survival data.
        grid: public times in ascending order; None for all times of events of the split, which
            only a simulation may read.
        split: ``test`` or ``train`` patients.
        secret: settings of secret sums, such as ``fk.SecretSums()``, with which the server learns
            only the sums of each cluster; None: it sees the numbers of each client.

    Returns:
        A value for each cluster with patients, in the order of the clusters.

    Raises:
        ConfigError: the split or the grid is impossible.
        MethodError: the data have no patients, or clients have personal models.

    Examples:
        >>> import fedkin as fk
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(60, 2))
        >>> clients = np.repeat([0, 1, 2], 20)
        >>> data = fk.data.from_patients(x, np.arange(60), np.ones(60, bool), clients=clients)
        >>> run = fk.simulate(fk.FedAvg(), data, fk.models.cox(data), rounds=1, cohort=3)
        >>> len(fk.survival_curves(run, grid=[20, 40]))
        1
    """
    trained = run.trained
    patients = getattr(trained.parts.samples, "patients", None)
    if patients is None:
        raise MethodError(
            "survival curves need a simulated run on patients, such as data of "
            "fk.data.from_patients or fk.data.tcga_brca"
        )
    if split not in ("test", "train"):
        raise ConfigError(f"split must be test or train, got {split!r}")
    members = patients.part(split)
    if grid is None:
        taken = members.rows
        grid = np.unique(patients.times[taken][patients.died[taken]])
    times = np.asarray(grid, np.float64)
    if times.ndim != 1 or not len(times) or not (np.diff(times) > 0).all():
        raise ConfigError("grid must be times in ascending order, such as [30, 60, 90]")
    state = run.state
    assigned = np.flatnonzero((state.assignment != UNASSIGNED) & (members.sizes > 0))
    if trained.personal:
        raise MethodError(
            "survival curves compare the models of clusters, but clients of this run have personal "
            "models; use a method without personal parts"
        )
    return cluster_survival(
        world=trained.world(),
        models=state.models,
        clients=assigned,
        clusters=state.assignment[assigned],
        grid=times,
        split=split,
        secret=secret,
    )


def cluster_survival(
    world: World,
    models: Any,
    clients: Int[np.ndarray, "n"],
    clusters: Int[np.ndarray, "n"],
    grid: Float64[np.ndarray, "G"],
    split: str = "test",
    secret: SecretSettings | None = None,
) -> list[ClusterSurvival]:
    """The survival of each cluster's patients, from sums over the clients of any world.

    Args:
        world: the clients, simulated or real.
        models: models of the clusters.
        clients: clients to ask.
        clusters: cluster of each of them.
        grid: public times in ascending order.
        split: ``test`` or ``train`` patients.
        secret: settings of secret sums; None: clients reply in the clear.
    """
    stream = Stream(0, 0, "survival")
    asked: World = world
    if secret is not None:
        asked = SecretWorld(world, secret, Journal(None), stream)
    task = SurvivalCounts(np.asarray(models), clusters, grid, split)
    reply = asked.run(task, clients, stream)
    found = []
    for cluster, counts in enumerate(cluster_counts(task, reply)):
        if not counts.patients:
            continue
        found.append(
            ClusterSurvival(
                cluster=cluster,
                clients=int((clusters[reply.arrived] == cluster).sum()),
                patients=counts.patients,
                curve=kaplan_meier(counts.sums, grid),
                pairs=counts.pairs,
            )
        )
    return found
