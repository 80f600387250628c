"""A run compared with the models that its clients train alone: the run of ``fk.Local`` on the same
data from the same seed.

The compared quantity is each client's mean test loss after the last round: the cross entropy of
classes, Cox's loss of survival times, and of numbers the error by which runs are scored (if that is
a root, such as RMSE, its square).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int

from fedkin.measures.run_scores import RunScores, scores_in
from fedkin.measures.worse_than_alone import counted, worse_than_alone
from fedkin.methods.decentralized import PeerState
from fedkin.methods.gossip import Local
from fedkin.run.run import Run

LOCAL = Local.about.name
_ROOT = "root_mean_squared_error"
# The compared losses in words, where they differ from the heading of the score.
_WORDS = {
    "accuracy": "cross entropy",
    "concordance_index": "Cox loss",
    _ROOT: "squared error",
    "mean_absolute_error": "absolute error",
}


class ServedWorse(NamedTuple):
    """How many clients a run serves worse than their own models.

    Attributes:
        share: share of the counted clients that lose more than 2%; NaN if no client counts.
        counted: number of clients that count.
        clients: number of all clients of the run.
    """

    share: float
    counted: int
    clients: int


class ClientLosses(NamedTuple):
    """Test losses of a run's clients after the last round, c of N.

    Attributes:
        client: ids of the clients that were scored.
        loss: mean test loss of each.
        samples: number of its test samples.
    """

    client: Int[np.ndarray, "c"]
    loss: Float64[np.ndarray, "c"]
    samples: Int[np.ndarray, "c"]


def loss_words(scores: RunScores) -> str:
    """The quantity that is compared, such as ``cross entropy``.

    Args:
        scores: the measures of the runs' score.
    """
    score = scores.of_round
    return _WORDS.get(score.name, score.head)


def served_worse(run: Run, alone: Run) -> ServedWorse:
    """Compare a run with the run of ``fk.Local`` on the same data from the same seed.

    A client counts if it has 10 test samples or more, is scored in both runs, and has trained its
    own model. Attackers do not count.

    Args:
        run: a finished run.
        alone: the run in which each client trains alone.
    """
    losses = client_losses(run)
    own = client_losses(alone)
    total = len(run.assignment)
    own_loss = np.full(total, np.nan)
    own_loss[own.client] = own.loss
    own_loss[~_trained(alone)] = np.nan
    own_loss[_attackers(run, alone)] = np.nan
    own_loss = own_loss[losses.client]
    return ServedWorse(
        share=worse_than_alone(losses.loss, own_loss, losses.samples),
        counted=int(counted(own_loss, losses.samples).sum()),
        clients=total,
    )


def client_losses(run: Run) -> ClientLosses:
    """The mean test loss of each scored client; empty if the run has no table of clients."""
    score = scores_in(run.summary()).of_round
    # An accuracy is no loss, and a C-index neither; the other scores are errors.
    name = "loss" if score.direction == "higher" else score.name
    columns = ("client", name, "test_samples")
    if not all(column in run.clients for column in columns):
        none = np.zeros(0, np.int64)
        return ClientLosses(none, np.zeros(0), none)
    client, loss, samples = (run.clients[column].to_numpy() for column in columns)
    loss = loss.astype(np.float64)
    return ClientLosses(client, loss**2 if name == _ROOT else loss, samples)


def _trained(alone: Run) -> Bool[np.ndarray, "N"]:
    """The clients that have trained their own models. With cohorts, some may never be drawn."""
    state = alone.state
    return state.age > 0 if isinstance(state, PeerState) else np.full(len(alone.assignment), True)


def _attackers(run: Run, alone: Run) -> Int[np.ndarray, "a"]:
    """The clients that attack in one of the runs."""
    attackers = {*run.final.get("attackers", ()), *alone.final.get("attackers", ())}
    return np.array(sorted(attackers), np.int64)
