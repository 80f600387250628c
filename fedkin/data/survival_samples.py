"""Patients in the user's samples (a table or arrays): they become the federation of risk sets that
``fk.data.from_patients`` makes, but for the random streams of the draws (``RiskSetDraws``).

Shapes: M samples, n of them patients, N clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Shaped

from fedkin.core.errors import ConfigError, DataError
from fedkin.data.federated import FederatedData
from fedkin.data.label_statistics import place_of
from fedkin.data.label_tasks import read_labels
from fedkin.data.ragged import Ragged
from fedkin.data.risk_set_federation import (
    DividedPatients,
    divided_patients,
    drawn_training,
    risk_set_federation,
)
from fedkin.data.risk_set_options import RiskSetOptions
from fedkin.data.split_column import split_numbers
from fedkin.data.survival_columns import check_times, events_of
from fedkin.data.table_transform import TableTransform

_VALIDATION = 2  # the number that marks validation samples in a split
# What to do about an option that does not apply; not named: leave it out.
_CURES = {
    "unit": "drop its column, and mark all rows of a unit as train, or all as test, in the split"
}


@dataclass(frozen=True)
class PatientSamples:
    """The times and events of samples.

    Attributes:
        times: time of each sample; any number if it has none.
        died: whether the event was observed.
        present: whether a sample has a time, so that it is a patient.
        place: file or name with which messages begin.
    """

    times: Float64[np.ndarray, "M"]
    died: Bool[np.ndarray, "M"]
    present: Bool[np.ndarray, "M"]
    place: Path | str

    @classmethod
    def read(
        cls,
        times: Any,
        events: Any,
        *,
        place: Path | str,
        clients: Any,
        columns: Mapping[str, str] | None,
        refused: Mapping[str, Any],
    ) -> PatientSamples:
        """The times and events that the user gives. Samples without a time are left out.

        Args:
            times: time of each sample.
            events: whether the event was observed, as of ``events_of``.
            place: file or name with which messages begin.
            clients: client of each sample, for messages; None if it is unknown.
            columns: names of the columns of a table by their roles; None for other data.
            refused: values of options that do not apply to survival; None if not given.

        Raises:
            DataError: a time or an event is impossible, or no sample has a time.
            ConfigError: an option does not apply.
        """
        for name, value in refused.items():
            if value is not None:
                raise ConfigError(
                    f"{place}: {name} does not apply to task = 'survival', whose samples are risk "
                    f"sets of several patients; {_CURES.get(name, 'leave it out')}"
                )
        raw, present = read_labels(
            times, None, None, place=place, clients=clients, columns=columns, what="time"
        )
        check_times(raw.label, place_of("label", place, columns), clients)
        place_of_event = place_of("event", place, columns)
        died = events_of(events, place_of_event, clients, needed=present)
        return cls(raw.label, died, present, place)

    def divided(
        self, owned: Ragged, trained: Bool[np.ndarray, "M"], names: Sequence[str]
    ) -> DividedSamples:
        """The patients, without clients that have no event to compare.

        Args:
            owned: the patients of each client.
            trained: whether each sample is for training.
            names: names of the clients.
        """
        owners = owned.owner_of_rows(len(self.times))
        rows = np.flatnonzero(owners >= 0)
        patients = divided_patients(
            times=self.times[rows],
            died=self.died[rows],
            owners=owners[rows],
            trained=trained[rows],
            names=names,
            place=self.place,
        )
        return DividedSamples(patients, rows, names)


@dataclass(frozen=True)
class DividedSamples:
    """Patients for training and testing.

    Attributes:
        patients: the n patients.
        rows: their rows among the samples.
        names: names of all clients, also of those that are left out.
    """

    patients: DividedPatients
    rows: Int[np.ndarray, "n"]
    names: Sequence[str]

    @property
    def train(self) -> Ragged:
        """The samples of the training patients of each client."""
        return Ragged.of([self.rows[own] for own in self.patients.train_rows()])

    @property
    def client_names(self) -> list[str]:
        """Names of the clients that are not left out."""
        return [str(self.names[client]) for client in self.patients.clients]

    def federation(
        self,
        x: Shaped[np.ndarray, "M ..."],
        *,
        options: RiskSetOptions,
        title: str,
        place: Path | str,
        true_clusters: Int[np.ndarray, "_"] | None,
        client_columns: Mapping[str, tuple[str, ...]] | None,
        transform: TableTransform | None,
        **facts: Any,
    ) -> FederatedData:
        """The federation of risk sets.

        Args:
            x: features of all samples.
            options: how risk sets are made.
            title: name of the data set.
            place: file or name with which messages begin.
            true_clusters: true cluster of each client, also of those that are left out; None if it
                is unknown.
            client_columns: facts about these clients, as in ``FederatedData``.
            transform: how the columns of a table became ``x``.
            facts: further fields of ``FederatedData``, by name.

        Raises:
            DataError: features are no columns of numbers.
        """
        if x.ndim != 2:
            raise DataError(
                f"{place}: survival needs a row of numbers for each patient, [n, d], got x of "
                f"shape {list(x.shape)}; flatten it: x.reshape(len(x), -1)"
            )
        data = risk_set_federation(
            self.patients.table(_numbers(x)[self.rows]),
            self.client_names,
            options,
            title=title,
            purpose=None,
            dtype=np.float32 if transform is None else transform.dtype,
        )
        left = self.patients.clients
        if client_columns is not None:
            client_columns = {
                name: tuple(values[client] for client in left.tolist())
                for name, values in client_columns.items()
            }
        return replace(
            data,
            true_clusters=None if true_clusters is None else true_clusters[left],
            client_columns=client_columns,
            transform=transform,
            **facts,
        )


def training_patients(
    owned: Ragged,
    split: Shaped[np.ndarray, "M"] | None,
    train_fraction: float | int,
    seed: int,
    *,
    samples: int,
    place: Path | str,
) -> Bool[np.ndarray, "M"]:
    """Whether each sample is for training: by a column of the split, or by a draw of each client's
    share.

    Args:
        owned: the patients of each client.
        split: the split of each sample; None for a draw.
        train_fraction: share of training patients.
        seed: seed of the draw.
        samples: number of samples M.
        place: file or name with which messages begin.

    Raises:
        ConfigError: the split has validation samples, or the share is impossible.
    """
    if split is not None:
        number = split_numbers(split, place)
        if (number == _VALIDATION).any():
            raise ConfigError(
                f"{place}: a split of survival data has train and test only, but row "
                f"{int(np.argmax(number == _VALIDATION))} is for validation "
                f"({int((number == _VALIDATION).sum())} such rows); mark these rows as train or "
                "test"
            )
        return number == 0
    if not 0 < train_fraction <= 1:
        raise ConfigError(f"train_fraction must be in (0, 1], got {train_fraction}")
    owners = owned.owner_of_rows(samples)
    rows = np.flatnonzero(owners >= 0)
    trained = np.ones(samples, bool)
    # Rounded, because 1 - 0.9 is 0.09999999999999998.
    trained[rows] = drawn_training(owners[rows], round(1 - float(train_fraction), 12), seed)
    return trained


def _numbers(x: Shaped[np.ndarray, "M d"]) -> Float[np.ndarray, "M d"]:
    """Features as floats, which risk sets hold."""
    return x if x.dtype.kind == "f" else x.astype(np.float64)
