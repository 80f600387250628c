"""PACFL: clusters before any training, from the angles between the subspaces of clients' data.

S. Vahidian, M. Morafah, W. Wang, V. Kungurtsev, C. Chen, M. Shah, B. Lin: Efficient Distribution
Similarity Identification in Clustered Federated Learning via Principal Angles Between Client Data
Subspaces. AAAI 2023, arXiv 2209.10526.

    U_i     the first p left singular vectors of client i's samples of each label, side by side:
            d x C p numbers, for d numbers of a sample and C classes
    A_ij    ``smallest``: the smallest principal angle of span U_i and span U_j, in degrees (eq. 2)
            ``same_rank``: tr arccos(U_i^T U_j), the sum over vectors of the same rank (eq. 3)
            ``sum``: the sum of all principal angles
            ``as_coded``: the smallest angle between any u_a of i and any u_b of j
            ``classwise``: V, the mean over classes of the smallest angle between any vector of the
            class of i and any of j (absolute cosine); 90 for a class of only one of both
    clusters: the nearest two merge while they are at most beta = ``threshold`` apart; FedAvg in
    each cluster

U_i is sent once, and needs no training. New clients send theirs, which add rows to A, and all
clients are clustered again with the same beta. New clusters keep the number of the former cluster
with which they share most clients. A cluster of only new clients gets a new number and starts from
the initial model. A cluster that splits off another one starts from that cluster's model.

Differs from the authors' code: (1) In place of the smallest principal angle, the code takes the
smallest angle between two single vectors, which is larger; ``as_coded`` does the same. Principal
angles need orthonormal columns. The vectors of several labels are not orthonormal, so here they are
orthonormalised first. (2) The code takes cosines without absolute values, so its angles depend on
the signs of singular vectors. Here the largest entry of each vector is positive. (3) The linkage
that the code calls "average" is ``weighted`` here. (4) If labels are divided by Dirichlet shares,
the paper takes fewer vectors for rarer labels. The code tries to look up these numbers of vectors,
but never finds them, and takes p vectors for each label, as is done here.

``classwise`` is from FedDAG (A. Pramanik et al., ICLR 2026, arXiv 2602.23504). Equal samples with
other labels are then far apart, which vectors of all labels together do not show. Differs from
FedDAG: no second encoder, no angles of updates, and no weights by the counts of labels, which
clients would have to send.

Samples are not centred, so the first vector of a label is near the mean of its samples. A good beta
depends on feature scaling and on ``angle``. The authors' scripts use 3.5 and 4.9 degrees, for the
angles of ``as_coded`` and data with another scaling. (MNIST, pixels 0 .. 1, four rotations, p = 3:
principal angles are 1.5 to 2.6 degrees within a rotation and 8 to 13 across; ``as_coded`` needs a
beta of about 20. benchmarks/field/pacfl.py prints both.) If C p is not far below d, spans intersect
and principal angles are 0: use p = 1. ``fk.subspace_angles`` shows the angles of whole clients
before a run. The vectors resemble mean samples of each label and are sent unprotected, d p numbers
for each label. The state keeps them (for N clients N d C p numbers), and A. New clients need
labelled samples to be placed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int

from fedkin.clustering.agglomerative import MERGING, merge_up_to
from fedkin.clustering.matching import match_labels
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import ClientReads, DataNeeds, MemoryNeeds, Requirements, Separation
from fedkin.core.validation import check_choice, check_not_negative, check_positive_integer
from fedkin.core.world import World
from fedkin.measures.classwise_angles import classwise_angles
from fedkin.measures.principal_angles import FORMS, angles_between, orthonormal, side_by_side
from fedkin.methods import cluster_steps
from fedkin.methods.about import About
from fedkin.methods.fedavg import train_and_average
from fedkin.tasks.pacfl import LabelSubspaces


@dataclass(frozen=True)
class PACFLState(State):
    """Arrays that PACFL keeps from round to round. A client has q = C p singular vectors: p for
    each of the C classes."""

    start: Float[np.ndarray, "P"]  # the initial model
    bases: Float[np.ndarray, "N d q"]  # singular vectors of each client; NaN if unknown
    angles: Float[np.ndarray, "N N"]  # A; NaN if unknown


@plain_options
@dataclass(frozen=True)
class PACFL:
    """One clustering before training, by angles between the subspaces of clients' samples; then
    FedAvg in each cluster.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.PACFL(threshold=30.0)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.assignment.shape
        (6,)
    """

    about: ClassVar[About] = About(
        name="pacfl",
        paper="Vahidian et al., AAAI 2023",
        compares="subspaces of samples",
        when="once, before training",
        membership="hard",
        decides="server",
        count="found",
        leaves="singular vectors by label",
    )

    p: int = 3  # number of vectors per label
    threshold: float = 3.5  # largest angle at which clusters merge, in degrees (beta)
    angle: Literal["smallest", "same_rank", "sum", "as_coded"] = (
        "smallest"  # angle of two clients, as in the formulas
    )
    # linkage by which clusters merge
    linkage: Literal["weighted", "average", "complete", "single"] = "weighted"
    classwise: bool = False  # compare class by class, in place of ``angle``

    def __post_init__(self) -> None:
        check_positive_integer("p", self.p)
        check_not_negative("threshold", self.threshold)
        check_choice("angle", self.angle, tuple(FORMS))
        check_choice("linkage", self.linkage, MERGING)
        check_choice("classwise", self.classwise, (True, False))
        if self.classwise and self.angle != "smallest":
            raise MethodError(
                f"angle = {self.angle!r} does not apply to classwise = true, which has an angle "
                "by itself; leave out one of the two"
            )

    def requirements(self) -> Requirements:
        return Requirements(
            reads=ClientReads(sends="bases of subspaces of its samples"),
            separation=Separation("by_cluster"),
            memory=MemoryNeeds(compares_all=True),
            data=DataNeeds(classes="compares the samples of each class"),
        )

    def init(self, world: World, stream: Stream) -> PACFLState:
        """Clusters of all reachable clients, before training.

        Raises:
            MethodError: no client has sent singular vectors of its samples.
        """
        clients = world.clients(stream.round)
        total = world.total_clients
        start = world.initial(stream.child("model"))
        bases = self._bases(world, clients)
        state = PACFLState(
            models=start[None][:0],
            assignment=np.full(total, UNASSIGNED),
            start=start,
            bases=np.full((total, *bases.shape[1:]), np.nan, np.float32),
            angles=np.full((total, total), np.nan),
        )
        state = self._cluster(world, state, clients, bases)
        if not len(state.models):
            raise MethodError(
                f"0 of {len(clients)} clients sent singular vectors of their samples, so none can "
                "be clustered; the clients need training samples, and not only zeros"
            )
        return state

    def round(
        self, world: World, state: PACFLState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> PACFLState:
        models = train_and_average(world, state, cohort, work=world.work, stream=stream)
        return replace(state, models=models)

    def place(
        self, world: World, state: PACFLState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> PACFLState:
        """Cluster all known clients again, including the new ones."""
        return self._cluster(world, state, newcomers, self._bases(world, newcomers))

    def _bases(self, world: World, clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n d q"]:
        """The basis U_i of each client's samples, as the option ``angle`` needs it: the singular
        vectors that the client sends, or an orthonormal basis of their span (for principal
        angles)."""
        by_label = world.run(LabelSubspaces(self.p), clients).basis
        if self.classwise:
            # The columns stay in the order of classes.
            return np.nan_to_num(by_label).reshape(*by_label.shape[:2], -1)
        columns = side_by_side(by_label)
        principal = self.angle in ("smallest", "sum")
        return (orthonormal(columns) if principal else columns).astype(np.float32)

    def _cluster(
        self,
        world: World,
        state: PACFLState,
        clients: Int[np.ndarray, "n"],
        bases: Float[np.ndarray, "n d q"],
    ) -> PACFLState:
        """The state with the angles of these clients, and new clusters of all clients whose angles
        are known."""
        replied = bases.any(axis=(1, 2))
        clients = clients[replied]
        all_bases = state.bases.copy()
        all_bases[clients] = bases[replied]

        # A gets a row and a column for each of these clients.
        known = np.flatnonzero(np.isfinite(all_bases[:, 0, 0]))
        rows = self._rows(all_bases, clients, known)
        angles = state.angles.copy()
        angles[np.ix_(clients, known)] = rows
        angles[np.ix_(known, clients)] = rows.T
        angles[clients, clients] = 0

        # The nearest two merge while they are at most beta apart.
        labels = merge_up_to(angles[np.ix_(known, known)], self.threshold, self.linkage)
        cluster = match_labels(labels, state.assignment[known], len(state.models), new=True)
        models = _with_new_models(state, known, cluster)
        state = replace(state, models=models, bases=all_bases, angles=angles)
        return cluster_steps.update_assignment(world, state, known, cluster)

    def _rows(
        self,
        bases: Float[np.ndarray, "N d q"],
        clients: Int[np.ndarray, "n"],
        known: Int[np.ndarray, "m"],
    ) -> Float[np.ndarray, "n m"]:
        """The angles of clients with all whose bases are known."""
        if not self.classwise:
            return angles_between(bases[clients], bases[known], self.angle)
        N, d, _ = bases.shape
        by_class = bases.reshape(N, d, -1, self.p)
        return classwise_angles(by_class[known], rows=np.searchsorted(known, clients))


def _with_new_models(
    state: PACFLState, clients: Int[np.ndarray, "n"], cluster: Int[np.ndarray, "n"]
) -> Float[np.ndarray, "K P"]:
    """The models of all clusters after a new clustering.

    Former clusters keep their models. A new cluster takes the model of the former cluster of most
    of its clients, or the initial model if none of them had a cluster.

    Args:
        state: state before the clustering.
        clients: clients that were clustered.
        cluster: new cluster of each of them.
    """
    models = [state.models]
    for k in range(len(state.models), int(cluster.max(initial=-1)) + 1):
        former = state.assignment[clients[cluster == k]]
        former = former[former != UNASSIGNED]
        model = state.models[np.bincount(former).argmax()] if len(former) else state.start
        models.append(model[None])
    return np.concatenate(models)
