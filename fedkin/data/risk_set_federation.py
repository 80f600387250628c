"""Patients of all clients, divided into training and test patients, as a federation of risk sets
(``fedkin.data.survival``).

Shapes: n patients, d features, N clients, m places in a risk set.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from fedkin.core.errors import DataError
from fedkin.core.object_repr import listed
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.patient_columns import risk_sets_of_one
from fedkin.data.patients import Patients
from fedkin.data.risk_set_options import RiskSetOptions
from fedkin.data.survival import comparable_pairs, deaths_with_others, risk_sets
from fedkin.task_types.survival import Survival

_log = logging.getLogger("fedkin")


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
class DividedPatients:
    """Which patients are for training, and which clients have an event to compare.

    Attributes:
        times, died, trained: as in ``PatientTable``, of all patients.
        owners: the client of each patient, also of clients that are left out.
        clients: the N clients that are not left out.
    """

    times: Float64[np.ndarray, "n"]
    died: Bool[np.ndarray, "n"]
    owners: Int[np.ndarray, "n"]
    trained: Bool[np.ndarray, "n"]
    clients: Int[np.ndarray, "N"]

    def train_rows(self) -> list[Int[np.ndarray, "t"]]:
        """The training patients of each of the N clients."""
        return [
            np.flatnonzero((self.owners == client) & self.trained)
            for client in self.clients.tolist()
        ]

    def table(self, x: Float[np.ndarray, "n d"]) -> PatientTable:
        """The patients of the N clients, with features ``x`` of all patients."""
        kept = np.isin(self.owners, self.clients)
        return PatientTable(
            x=x[kept],
            times=self.times[kept],
            died=self.died[kept],
            owners=np.searchsorted(self.clients, self.owners[kept]),
            trained=self.trained[kept],
        )


@dataclass(frozen=True)
class RiskSetDraws:
    """The random streams by which the risk sets of clients are drawn.

    Attributes:
        seed: seed of the draws.
        purpose: purpose of the streams, one for the number of each client. None for tables: a
            client's stream then depends on its name alone. So a site that reads its own file draws
            what a table of all sites draws for it.
    """

    seed: int
    purpose: str | None = None

    def rng(self, split: str, client: int, name: str) -> np.random.Generator:
        """The random generator of a client's part.

        Args:
            split: ``train`` or ``test``.
            client: number of the client.
            name: its name.
        """
        if self.purpose is None:
            return Stream(self.seed, purpose=f"survival tables/{split}/{name}").rng()
        return Stream(self.seed, purpose=f"{self.purpose}/{split}").client(client)


def divided_patients(
    *,
    times: Float64[np.ndarray, "n"],
    died: Bool[np.ndarray, "n"],
    owners: Int[np.ndarray, "n"],
    trained: Bool[np.ndarray, "n"],
    names: Sequence[str],
    place: Any,
) -> DividedPatients:
    """Patients without the clients that have no event to compare. A warning names these.

    Args:
        times, died, owners, trained: as in ``PatientTable``.
        names: names of all clients.
        place: file or name with which messages begin.

    Raises:
        DataError: no client has an event while another training patient was at risk.
    """
    clients = _comparable(
        owners=owners, trained=trained, times=times, died=died, names=names, place=place
    )
    return DividedPatients(times=times, died=died, owners=owners, trained=trained, clients=clients)


def drawn_training(owners: Int[np.ndarray, "n"], test: float, seed: int) -> Bool[np.ndarray, "n"]:
    """Whether each patient is for training, for a share ``test`` of test patients of each client.

    Args:
        owners: the client of each patient.
        test: the share.
        seed: seed of the draw.
    """
    stream = Stream(seed, purpose="from_patients/split")
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
    place: Any,
) -> Int[np.ndarray, "N"]:
    """The clients with an event while another training patient was at risk. A warning names the
    others. Raises DataError if there are none."""
    left = []
    for client in range(len(names)):
        rows = (owners == client) & trained
        if len(deaths_with_others(times[rows], died[rows])):
            left.append(client)
    without = [names[client] for client in range(len(names)) if client not in left]
    if not left:
        raise DataError(
            f"{place}: no client has an event while another patient was at risk, so a Cox loss has "
            "nothing to compare; give clients with more patients"
        )
    if without:
        _log.warning(
            "%s: left out %s, where no event was observed while another patient was at risk",
            place,
            listed(without),
        )
    return np.array(left)


def risk_set_federation(
    table: PatientTable,
    names: Sequence[str],
    options: RiskSetOptions,
    title: str,
    purpose: str | None,
    dtype: Any = np.float32,
) -> FederatedData:
    """The federation of a table of patients.

    Args:
        table: the patients of all clients.
        names: names of the clients.
        options: how risk sets are made.
        title: name of the data set.
        purpose: purpose of the random streams; None for streams by the names of clients
            (``RiskSetDraws``).
        dtype: type of the samples; float64 for columns that are scaled later.
    """
    draws = RiskSetDraws(options.seed, purpose)
    # For each client: training samples, then test samples.
    samples: list[Float[np.ndarray, "s m d"]] = []
    labels: list[Int[np.ndarray, "s"]] = []
    for client, client_name in enumerate(names):
        trained = (table.owners == client) & table.trained
        train_samples, train_labels = risk_sets(
            x=table.x[trained],
            times=table.times[trained],
            died=table.died[trained],
            size=options.at_risk,
            draws=options.draws,
            rng=draws.rng("train", client, client_name),
            who=f"{title}, client {client_name}, train",
            ties=options.ties,
            dtype=dtype,
        )
        tested = (table.owners == client) & ~table.trained
        test_samples, test_labels = comparable_pairs(
            x=table.x[tested],
            times=table.times[tested],
            died=table.died[tested],
            size=options.at_risk,
            rng=draws.rng("test", client, client_name),
            dtype=dtype,
        )
        samples += [train_samples, test_samples]
        labels += [train_labels, test_labels]
    ends = np.cumsum([len(part) for part in labels])
    rows = [np.arange(end - len(part), end) for end, part in zip(ends, labels, strict=True)]
    alone = risk_sets_of_one(table.x, options.at_risk, dtype)
    return FederatedData(
        name=title,
        x=np.concatenate([*samples, alone]),
        y=np.concatenate([*labels, np.zeros(len(alone), np.int64)]),
        classes=options.at_risk,
        train=Ragged.of(rows[::2]),
        test=Ragged.of(rows[1::2]),
        client_names=tuple(names),
        task_type=Survival(ties=options.ties, draws=options.draws),
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
