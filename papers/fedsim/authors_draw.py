"""FedSim's Synthetic(0.25, 0.25): the authors' draw, with their test samples.

The authors published the test samples of this row, and no training samples. All of them are in the
draw of seed 10000 of FedProx's generator, at the same client with the same label. So the rest of
the draw is the training part.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import DataError
from fedkin.data.download import Source, fetch
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.synthetic import synthetic

SEED = 10_000
ALPHA = BETA = 0.25
FILE = "synthetic_fedsim_0.25_0.25_testonly.npz"
HELP = "The authors' test samples as npz; set FEDKIN_DATA to the folder that has synthetic/ in it"


def quarter(seed: int = SEED) -> FederatedData:
    """The federation of the authors: 30 clients, and the published test samples.

    Args:
        seed: of the draw.

    Raises:
        DataError: a published test sample is not in the draw of this seed.
    """
    data = synthetic(alpha=ALPHA, beta=BETA, seed=seed)
    folder = fetch(Source(FILE, {FILE: None}, folders=("synthetic",), help=HELP))
    with np.load(folder / FILE) as file:
        test_rows = find_rows(data, file["x"], file["y"], file["client_id"])
    owners = np.repeat(np.arange(data.clients), data.train.sizes + data.test.sizes)
    is_test = np.zeros(len(data.y), bool)
    is_test[test_rows] = True
    parts = [np.flatnonzero(owners == client) for client in range(data.clients)]
    train = Ragged.of([rows[~is_test[rows]] for rows in parts])
    test = Ragged.of([rows[is_test[rows]] for rows in parts])
    return data.with_rows(train, test)


def find_rows(
    data: FederatedData,
    x: Float[np.ndarray, "M d"],
    y: Int[np.ndarray, "M"],
    owners: Int[np.ndarray, "M"],
) -> Int[np.ndarray, "M"]:
    """The rows of a draw that hold given samples.

    Args:
        data: the draw, with the samples of each client in consecutive rows.
        x: features of the samples.
        y: their labels.
        owners: their clients.

    Raises:
        DataError: a sample is not in the draw, or it has another client or label there.
    """
    row_of = {features.tobytes(): row for row, features in enumerate(data.x.astype(np.float32))}
    rows = np.array([row_of.get(each.tobytes(), -1) for each in x.astype(np.float32)])
    if (rows < 0).any():
        raise DataError(
            f"{int((rows < 0).sum())} of {len(x)} published test samples are not in this draw; use "
            f"seed {SEED}"
        )
    owner_of = np.repeat(np.arange(data.clients), data.train.sizes + data.test.sizes)
    if not (np.array_equal(owner_of[rows], owners) and np.array_equal(data.y[rows], y)):
        raise DataError("a published test sample has another client or label in this draw")
    return rows
