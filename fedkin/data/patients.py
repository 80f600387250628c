"""Patients of survival data: the times and events that curves and indices over all patients need,
and risk sets have not.

Shapes: n patients, N clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64, Int

from fedkin.core.columns import PATIENTS
from fedkin.core.errors import DataError
from fedkin.data.ragged import Ragged

# Names of the arrays of patients in files.
ARRAYS = (
    "patients.samples",
    "patients.times",
    "patients.died",
    "patients.train.rows",
    "patients.train.offsets",
    "patients.test.rows",
    "patients.test.offsets",
)


@dataclass(frozen=True)
class Patients:
    """The patients of all clients, from whom risk sets are made (``fedkin.data.survival``). Each
    patient also has a sample: a risk set of one, for which a Cox model gives the patient's risk.

    Attributes:
        samples: row in ``FederatedData.x`` of each patient's sample.
        times: time of each patient's event, or the time until which the patient was seen.
        died: whether the event was observed; otherwise the patient is censored.
        train: each client's patients for training, as positions in these arrays.
        test: each client's patients for testing.

    Raises:
        DataError: arrays have different lengths, or a time is not finite.
    """

    samples: Int[np.ndarray, "n"]
    times: Float64[np.ndarray, "n"]
    died: Bool[np.ndarray, "n"]
    train: Ragged
    test: Ragged

    def __post_init__(self) -> None:
        if not len(self.samples) == len(self.times) == len(self.died):
            raise DataError(
                "patients: expected one sample, time and event for each patient, got "
                f"{len(self.samples)} samples, {len(self.times)} times and {len(self.died)} events"
            )
        if not np.isfinite(self.times).all():
            row = int(np.argmin(np.isfinite(self.times)))
            raise DataError(f"patients: the time of patient {row} is {self.times[row]}")

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays, by the names in ``ARRAYS``."""
        values = [self.samples, self.times, self.died]
        for part in (self.train, self.test):
            values += [part.rows, part.offsets]
        return dict(zip(ARRAYS, values, strict=True))

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Patients:
        """The patients with these ``arrays``."""
        samples, times, died, *parts = (arrays[name] for name in ARRAYS)
        return cls(
            samples=samples,
            times=times,
            died=died,
            train=Ragged(parts[0], parts[1]),
            test=Ragged(parts[2], parts[3]),
        )

    def part(self, split: str) -> Ragged:
        """Each client's patients of a split: ``train`` or ``test``."""
        return self.test if split == "test" else self.train

    def samples_of(self, name: str) -> Ragged | None:
        """The rows of x of each client's patients, for a split with a name of ``patients_split``;
        None for other names."""
        if not name.startswith(PATIENTS):
            return None
        part = self.part(name.removeprefix(PATIENTS))
        return Ragged(self.samples[part.rows], part.offsets)

    def select(self, clients: Int[np.ndarray, "m"]) -> Patients:
        """The patients of some clients, in this order."""
        return replace(self, train=self.train.select(clients), test=self.test.select(clients))
