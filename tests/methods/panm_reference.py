"""A slow reference implementation of PANM's rounds, peer after peer, with sets; and worlds of
twelve peers.

The reference knows the names of the streams, and that k random peers are those of the lowest noise;
all else is from the paper, and that peers outside the cohort are inactive: they do not reply. It
trains and evaluates one row at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.methods.decentralized import PeerState
from fedkin.methods.panm import PANM, Matching
from fedkin.models import mclr
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.peer_queries import Ask
from fedkin.tasks.train import train
from tests.clustering.test_gaussian_mixture import slow as reference_matching

SEED = 6
CLIENTS = 12
TRUE_CLUSTERS = np.arange(CLIENTS) % 3
EVERYBODY = np.arange(CLIENTS)
SAME = (TRUE_CLUSTERS[:, None] == TRUE_CLUSTERS) & ~np.eye(CLIENTS, dtype=bool)


def all_of_them(round: int) -> np.ndarray:
    return EVERYBODY


class UnresponsivePeers(FakeWorld):
    """Peers in ``mute`` train but do not answer, from round ``since`` on. ``here`` says which peers
    can be reached."""

    mute: tuple[int, ...] = ()
    since: int = 0
    unresponsive: tuple[int, ...] = ()  # in this round
    here: Callable[[int], np.ndarray] = staticmethod(all_of_them)

    def clients(self, round: int) -> np.ndarray:
        return self.here(round)

    def begin(self, stream: Stream) -> None:
        self.unresponsive = self.mute if stream.round >= self.since else ()

    def run(self, task: Task, clients: Any, stream: Stream | None = None) -> Reply:
        if not isinstance(task, Ask):
            return super().run(task, clients, stream)
        responsive = ~np.isin(clients, self.unresponsive)
        replied = np.zeros(len(clients), bool)
        replied[responsive] = super().run(task, clients[responsive], stream).arrived
        return Reply({}, replied, np.zeros(len(clients), bool))


def fake(
    *,
    noise: float = 0.6,
    lr: float = 0.3,
    here: Callable[[int], np.ndarray] = all_of_them,
    **options: Any,
) -> UnresponsivePeers:
    """Three clusters of quadratic peers, far apart; w_0 is in the middle of them."""
    rng = np.random.default_rng(0)
    target = 6 * np.eye(3, 5)[TRUE_CLUSTERS] + rng.normal(scale=noise, size=(CLIENTS, 5))
    examples = rng.integers(5, 50, CLIENTS)
    w = UnresponsivePeers(
        target.astype(np.float32),
        examples,
        LocalTraining(lr=lr),
        start=lambda _: np.full(5, 1.0),
        **options,
    )
    w.here = here
    return w


def simulated(**options: Any) -> SimulatedWorld:
    """Twelve peers of 6 to 11 samples; a cluster is a pair of the six classes."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(8, 14, CLIENTS)  # two of them to be tested on
    owner = np.repeat(EVERYBODY, sizes)
    y = 2 * TRUE_CLUSTERS[owner] + rng.integers(0, 2, len(owner))
    x = (np.eye(6)[y] + rng.normal(scale=0.3, size=(len(y), 6))).astype(np.float32)
    rows = Ragged.of([np.flatnonzero(owner == c) for c in EVERYBODY])
    train, test = (
        Ragged.of([rows[c][part] for c in range(CLIENTS)]) for part in (slice(2, None), slice(0, 2))
    )
    data = FederatedData(
        name="kinds", x=x, y=y, classes=6, train=train, test=test, true_clusters=TRUE_CLUSTERS
    )
    return SimulatedWorld(
        data, mclr(data), LocalTraining(epochs=2, batch_size=5, lr=0.1), **options
    )


def stream(t: int) -> Stream:
    return Stream(SEED, t, "method").child("round")


def initial_state(method: Matching, w: Any) -> PeerState:
    return method.init(w, Stream(SEED, 0, "method/init"))


def run(
    method: Matching, w: Any, rounds: int, cohort: Callable[[int], np.ndarray] | None = None
) -> list[PeerState]:
    """States before the first round and after each."""
    states = [initial_state(method, w)]
    for t in range(1, rounds + 1):
        w.begin(Stream(SEED, t, "world"))
        there = w.clients(t) if cohort is None else cohort(t)
        states.append(method.round(w, states[-1], there, stream(t)))
    return states


# --- the slow reference


@dataclass
class Peer:
    model: np.ndarray
    trust: set[int] = field(default_factory=set)
    age: int = 0
    got: list[int] = field(default_factory=list)  # vectors of each answer
    given: list[int] = field(default_factory=list)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a = a.astype(np.float64)
    b = b.astype(np.float64)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def draw(s: Stream, peer: int, pool: set[int], count: int) -> set[int]:
    noise = s.client(peer).random(CLIENTS)
    return set(sorted(pool, key=lambda j: noise[j])[:count])


def rematched(
    method: Matching, peer: Peer, first: bool, answers: set[int], similar: dict[int, float]
) -> set[int]:
    """Eq. 5 where neighbours are chosen, for the places that those who are asked and silent leave;
    else eq. 10."""
    if first:
        silent = peer.trust - answers
        places = max(0, method.neighbours - len(silent))
        return silent | set(sorted(answers, key=lambda j: -similar[j])[:places])
    inside = answers & peer.trust
    if not inside:  # nothing is known of the bag
        return peer.trust
    members = sorted(inside) + sorted(answers - inside)
    result, _ = reference_matching([similar[j] for j in members], set(range(len(inside))))
    return (peer.trust - inside) | {members[r] for r in result}


def reference_round(
    method: Matching, w: Any, peers: list[Peer], start: np.ndarray, cohort: np.ndarray, s: Stream
) -> None:
    solution = {}
    update = {}
    examples = {}
    for i in cohort.tolist():
        one = np.array([i])
        reply = train(w, peers[i].model[None], one, np.array([0]), stream=s.child("train"))
        if reply.arrived[0]:
            update[i] = reply.update[0]
            examples[i] = int(reply.examples[0])
            solution[i] = peers[i].model + update[i]

    def alike(i: int, j: int) -> float:
        if not isinstance(method, PANM):
            return 1 / float(
                evaluate(w, solution[j][None], np.array([i]), np.array([0]), split="train").loss[0]
            )
        g = cosine(update[i], update[j])
        h = cosine(solution[i] - start, solution[j] - start)
        return method.alpha * g + (1 - method.alpha) * h

    reachable = set(w.clients(s.round).tolist())
    # The others are inactive, or are not answered.
    able = set(solution) - set(getattr(w, "unresponsive", ()))
    of_each = 2 if isinstance(method, PANM) and method.alpha > 0 else 1
    for i in sorted(solution):
        peer = peers[i]
        others = reachable - {i}
        peer.age += 1
        peer.trust = peer.trust & others
        first = peer.age <= method.stage_one or not peer.trust
        candidates = draw(s.child("ask"), i, others - peer.trust, method.candidates)
        asks = set()
        if first:
            asks = candidates | peer.trust
        elif peer.age % method.period == 0:
            asks = candidates | draw(s.child("ask"), i, peer.trust, method.candidates)
        answers = asks & able
        peer.trust = rematched(
            method=method,
            peer=peer,
            first=first,
            answers=answers,
            similar={j: alike(i, j) for j in answers},
        )
        partners = draw(s.child("partners"), i, peer.trust, method.neighbours)
        later = (partners - asks) & able
        for who, vectors in ((answers, of_each), (later, 1)):
            peer.got += [vectors] * len(who)
            for j in who:
                peers[j].given.append(vectors)
        together = sorted((partners & answers) | later | {i})
        peer.model = np.average(
            [solution[j] for j in together], axis=0, weights=[examples[j] for j in together]
        )
        peer.model = peer.model.astype(np.float32)


def assert_equal_peers(state: PeerState, peers: list[Peer]) -> None:
    np.testing.assert_allclose(state.models, [p.model for p in peers], rtol=1e-4, atol=1e-5)
    assert [set(np.flatnonzero(row).tolist()) for row in state.trust] == [p.trust for p in peers]
    assert state.age.tolist() == [p.age for p in peers]
    assert state.messages.tolist() == [[len(p.got), len(p.given)] for p in peers]
    assert state.vectors.tolist() == [[sum(p.got), sum(p.given)] for p in peers]
    assert not state.votes.any()


def compare_with_reference(
    method: Matching, make: Callable[[], Any], rounds: int, cohort: Any = None
) -> PeerState:
    """Both run, compared after every round; the twin in its own world. The last state."""
    w = make()
    own = make()
    states = run(method, w, rounds, cohort)
    peers = [Peer(model) for model in states[0].models]
    assert_equal_peers(states[0], peers)
    for t in range(1, rounds + 1):
        own.begin(Stream(SEED, t, "world"))
        reference_round(
            method=method,
            w=own,
            peers=peers,
            start=states[0].start,
            cohort=own.clients(t) if cohort is None else cohort(t),
            s=stream(t),
        )
        assert_equal_peers(states[t], peers)
    sent = int(states[-1].vectors[:, 0].sum()) * 4 * w.spec.parameters
    assert w.ledger.total() == (sent, sent) and w.ledger.up == {"ask": sent}
    return states[-1]
