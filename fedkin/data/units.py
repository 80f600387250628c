"""Units: samples that belong together, such as the visits of a patient.

All samples of a unit are in one part of a client's data. Otherwise a model would be tested on
patients from whom it has learnt.

Shapes: M samples, n samples of a client, u units of a client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int, Int64

from fedkin.core.errors import DataError
from fedkin.data.client_ids import client_ids
from fedkin.data.ragged import Ragged


class UnitsOf(NamedTuple):
    """The units of some samples.

    Attributes:
        count: number of units u.
        of_sample: the unit of each sample, 0 .. u-1.
        first: the first sample of each unit, as a position among these samples.
    """

    count: int
    of_sample: Int[np.ndarray, "n"]
    first: Int[np.ndarray, "u"]


def units_of(unit: Int[np.ndarray, "M"], rows: Int[np.ndarray, "n"]) -> UnitsOf:
    """The units of a client's samples.

    Args:
        unit: the unit of each sample of a federation.
        rows: rows of the client's samples.
    """
    found, first, of_sample = np.unique(unit[rows], return_index=True, return_inverse=True)
    return UnitsOf(len(found), of_sample.reshape(-1), first)


def unit_numbers(values: Any, place: Path | str, name: str = "unit") -> Int64[np.ndarray, "M"]:
    """The unit of each sample as a number.

    Args:
        values: units as numbers or text. Equal units of two clients are two units.
        place: file or name with which messages begin.
        name: name of the column or array, for messages.

    Raises:
        DataError: a unit is missing.
    """
    names = client_ids(values, place, name)
    _, number = np.unique(names.astype(str), return_inverse=True)
    return number.reshape(-1).astype(np.int64)


def check_whole_units(
    unit: Int[np.ndarray, "M"],
    parts: Mapping[str, Ragged],
    place: Path | str,
    client_names: Sequence[str] | None = None,
) -> None:
    """Raise DataError if samples of a client's unit are in two parts.

    Args:
        unit: the unit of each sample.
        parts: rows of each client, by the name of the part.
        place: file or name with which the message begins.
        client_names: names of the clients; None for their numbers.
    """
    clients = len(next(iter(parts.values())))
    for client in range(clients):
        part_of_unit: dict[int, str] = {}
        for part, rows_of in parts.items():
            for row in rows_of[client].tolist():
                first = part_of_unit.setdefault(int(unit[row]), part)
                if first != part:
                    name = client if client_names is None else client_names[client]
                    raise DataError(
                        f"{place}: the unit of row {row} (client {name}) has {first} and {part} "
                        "samples, so a model would be tested on what it has learnt; put all rows "
                        "of a unit into one part, or leave the split out"
                    )
