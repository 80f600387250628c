"""Survival data of clients: the user's patients, with the time and the event of each one, as risk
sets (``fedkin.data.survival``).

Shapes: n patients, d features, N clients.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.object_repr import listed
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.number_columns import numbers_of
from fedkin.data.patients import Patients
from fedkin.data.survival import check_ties, comparable_pairs, others_at_risk, risk_sets
from fedkin.task_types.survival import Survival

_log = logging.getLogger("fedkin")
_NAME = "patients"


@dataclass(frozen=True)
class PatientTable:
    """The patients of all clients.

    Attributes:
        x: features of each patient.
        times: time of each patient's event, or the time until which the patient was seen.
        died: whether the event was observed; otherwise the patient is censored.
        owners: the client of each patient, 0 .. N-1.
        trained: whether the patient is for training; otherwise for testing.
    """

    x: Float[np.ndarray, "n d"]
    times: Float64[np.ndarray, "n"]
    died: Bool[np.ndarray, "n"]
    owners: Int[np.ndarray, "n"]
    trained: Bool[np.ndarray, "n"]


@dataclass(frozen=True)
class RiskSetOptions:
    """How risk sets are made.

    Attributes:
        at_risk: number of places for patients in a sample.
        draws: number of training samples for each event.
        ties: treatment of events at the same time: ``breslow`` or ``efron``.
        seed: seed of the draws.
    """

    at_risk: int = 8
    draws: int = 8
    ties: str = "breslow"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least, value in (("at_risk", 2, self.at_risk), ("draws", 1, self.draws)):
            if value < least:
                raise ConfigError(f"{name} must be an integer of at least {least}, got {value}")
        check_ties(self.ties)


def from_patients(
    x: Any,
    times: Any,
    died: Any,
    *,
    clients: Any,
    test: float = 0.2,
    at_risk: int = 8,
    draws: int = 8,
    ties: str = "breslow",
    seed: int = 0,
    name: str = _NAME,
) -> FederatedData:
    """A federation of patients with the time and the event of each one. The model for these data is
    ``fk.models.cox``.

    A training sample is a risk set: an event with patients of the same client who were at risk at
    that time. A test sample is a pair of patients of the same client of whom it is known who had
    the event first. So the loss is Cox's, stratified by client, and the score is the C-index within
    clients. A client without an event while another patient is at risk has no loss: it is left out,
    with a warning.

    Args:
        x: features [n, d]; scale them before, in one way for all clients.
        times: time of each patient's event, or the time until which the patient was seen [n].
        died: whether the event was observed [n]; otherwise the patient is censored.
        clients: the client of each patient [n].
        test: each client's share of patients for testing.
        at_risk: number of places for patients in a sample, at least 2.
        draws: number of training samples for each event, each with other patients.
        ties: treatment of events at the same time: ``breslow`` or ``efron``.
        seed: seed of the draws and of the split.
        name: name of the data set.

    Raises:
        DataError: lengths differ, a value is no finite number, an event is no boolean, or no client
            has an event to compare.
        ConfigError: an option is unknown or out of range.

    Examples:
        >>> import numpy as np
        >>> import fedkin as fk
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(60, 2))
        >>> times = rng.exponential(np.exp(-x[:, 0]))
        >>> data = fk.data.from_patients(x, times, times < 2, clients=np.repeat([0, 1, 2], 20))
        >>> data.clients, data.task_type.name
        (3, 'survival')
    """
    options = RiskSetOptions(at_risk, draws, ties, seed)
    features = np.asarray(x, np.float64)
    if features.ndim != 2 or not np.isfinite(features).all():
        raise DataError(f"{name}: x must be finite numbers [n, d], got {features.shape}")
    ends = numbers_of(times, "time", name)
    events = numbers_of(died, "event", name)
    owners = np.asarray(clients)
    if not len(features) == len(ends) == len(events) == len(owners):
        raise DataError(
            f"{name}: expected one time, event and client for each row of x, got {len(features)} "
            f"rows, {len(ends)} times, {len(events)} events and {len(owners)} clients"
        )
    if not np.isin(events, (0, 1)).all():
        row = int(np.argmin(np.isin(events, (0, 1))))
        raise DataError(f"{name}: the event in row {row} is {events[row]:g}; it must be 0 or 1")
    if not 0 < test < 1:
        raise ConfigError(f"test must be a share between 0 and 1, such as 0.2; got {test!r}")
    names, numbers = np.unique(owners, return_inverse=True)
    died = events == 1
    trained = _split(numbers, test, Stream(seed, purpose="from_patients/split"))
    left = _comparable(
        owners=numbers,
        trained=trained,
        times=ends,
        died=died,
        names=[str(one) for one in names],
        name=name,
    )
    kept = np.isin(numbers, left)
    table = PatientTable(
        x=features[kept],
        times=ends[kept],
        died=died[kept],
        owners=np.searchsorted(left, numbers[kept]),
        trained=trained[kept],
    )
    client_names = [str(one) for one in names[left]]
    return risk_set_federation(table, client_names, options, title=name, purpose=name)


def _split(owners: Int[np.ndarray, "n"], test: float, stream: Stream) -> Bool[np.ndarray, "n"]:
    """Whether each patient is for training, for a share of test patients of each client."""
    trained = np.ones(len(owners), bool)
    for client in np.unique(owners).tolist():
        rows = np.flatnonzero(owners == client)
        order = stream.client(client).permutation(rows)
        trained[order[: round(test * len(rows))]] = False
    return trained


def _comparable(
    owners: Int[np.ndarray, "n"],
    trained: Bool[np.ndarray, "n"],
    times: Float64[np.ndarray, "n"],
    died: Bool[np.ndarray, "n"],
    names: Sequence[str],
    name: str,
) -> Int[np.ndarray, "N"]:
    """The clients with an event while another training patient was at risk. A warning names the
    others. Raises DataError if there are none."""
    left = []
    for client in range(len(names)):
        rows = (owners == client) & trained
        if others_at_risk(times[rows], died[rows]).any():
            left.append(client)
    without = [names[client] for client in range(len(names)) if client not in left]
    if not left:
        raise DataError(
            f"{name}: no client has an event while another patient was at risk, so a Cox loss has "
            "nothing to compare; give clients with more patients"
        )
    if without:
        _log.warning(
            "%s: left out %s, where no event was observed while another patient was at risk",
            name,
            listed(without),
        )
    return np.array(left)


def risk_set_federation(
    table: PatientTable,
    names: Sequence[str],
    options: RiskSetOptions,
    title: str,
    purpose: str,
) -> FederatedData:
    """The federation of a table of patients.

    Args:
        table: the patients of all clients.
        names: names of the clients.
        options: how risk sets are made.
        title: name of the data set.
        purpose: purpose of the random streams.
    """
    # For each client: training samples, then test samples.
    samples: list[Float32[np.ndarray, "s m d"]] = []
    labels: list[Int[np.ndarray, "s"]] = []
    for client, client_name in enumerate(names):
        trained = (table.owners == client) & table.trained
        train_samples, train_labels = risk_sets(
            x=table.x[trained],
            times=table.times[trained],
            died=table.died[trained],
            size=options.at_risk,
            draws=options.draws,
            rng=Stream(options.seed, purpose=f"{purpose}/train").client(client),
            who=f"{title}, client {client_name}, train",
            ties=options.ties,
        )
        tested = (table.owners == client) & ~table.trained
        test_samples, test_labels = comparable_pairs(
            x=table.x[tested],
            times=table.times[tested],
            died=table.died[tested],
            size=options.at_risk,
            rng=Stream(options.seed, purpose=f"{purpose}/test").client(client),
        )
        samples += [train_samples, test_samples]
        labels += [train_labels, test_labels]
    ends = np.cumsum([len(part) for part in labels])
    rows = [np.arange(end - len(part), end) for end, part in zip(ends, labels, strict=True)]
    alone = _alone(table.x, options.at_risk)
    return FederatedData(
        name=title,
        x=np.concatenate([*samples, alone]),
        y=np.concatenate([*labels, np.zeros(len(alone), np.int64)]),
        classes=options.at_risk,
        train=Ragged.of(rows[::2]),
        test=Ragged.of(rows[1::2]),
        client_names=tuple(names),
        task_type=Survival(),
        patients=_patients(table, len(names), first=int(ends[-1])),
    )


def _patients(table: PatientTable, clients: int, first: int) -> Patients:
    """The patients of a table, whose samples begin at row ``first``."""
    by_split = {}
    for split, taken in (("train", table.trained), ("test", ~table.trained)):
        of_client = [np.flatnonzero((table.owners == client) & taken) for client in range(clients)]
        by_split[split] = Ragged.of(of_client)
    return Patients(
        samples=first + np.arange(len(table.times)),
        times=table.times,
        died=table.died,
        train=by_split["train"],
        test=by_split["test"],
    )


def _alone(x: Float[np.ndarray, "n d"], size: int) -> Float32[np.ndarray, "n m e"]:
    """A risk set of one patient for each patient, with the patient in the first place."""
    samples = np.zeros((len(x), size, x.shape[1] + 1), np.float32)
    samples[:, 0, :-1] = x
    samples[:, 0, -1] = 1
    return samples
