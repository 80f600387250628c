"""Copies of samples, so that each sample has one owner and one use and can be changed alone."""

from __future__ import annotations

import numpy as np

from fedkin.data.federated import FederatedData, Ragged


def with_own_rows(data: FederatedData) -> FederatedData:
    """The data with a separate copy of every sample for each client that owns it, and for each
    split. Rows are ordered by split and then by client, as in ``parts_of``."""
    parts = parts_of(data)
    source = np.concatenate([part.rows for part in parts.values()])
    copied: dict[str, Ragged] = {}
    start = 0
    for split, part in parts.items():
        end = start + len(part.rows)
        copied[split] = Ragged(np.arange(start, end), part.offsets)
        start = end
    return data.with_rows(
        train=copied["train"],
        test=copied["test"],
        validation=copied.get("validation"),
        x=data.x[source],
        y=data.y[source],
        unit=None if data.unit is None else data.unit[source],
    )


def parts_of(data: FederatedData) -> dict[str, Ragged]:
    """The rows (samples) of each split of the data: training, test, and validation if the data have
    it."""
    splits = [split for split in ("train", "test", "validation") if split in data.splits]
    return {split: data.part(split) for split in splits}
