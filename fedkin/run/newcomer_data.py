"""The samples of clients that a run has not seen, as data that the run's model can be trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from fedkin.core.errors import DataError
from fedkin.data.federated import FederatedData, Ragged
from fedkin.export.predictor import as_samples, encoded_labels


def newcomer_samples(like: Any, x: Any, y: Any) -> tuple[Shaped[np.ndarray, "s ..."], Int[np.ndarray, "s"]]:
    """A newcomer's samples and labels, as the run's data hold them.

    Args:
        like: the run's samples.
        x: the newcomer's [s ...].
        y: their labels [s], by number or by name; None where nobody reads them: zeros.

    Raises:
        DataError: none, or samples or labels that do not fit.
    """
    samples = as_samples(x, like)
    names, unread = getattr(like, "label_names", None), np.zeros(len(samples), np.int64)
    labels = unread if y is None else encoded_labels(y, names, int(like.classes))
    if not len(samples) or len(labels) != len(samples):
        raise DataError(f"a newcomer needs a label for each sample, at least one; got {len(samples)} and {len(labels)}")
    return samples, labels


def newcomer_data(
    like: Any,
    x: Shaped[np.ndarray, "s ..."],
    y: Int[np.ndarray, "s"],
    clients: Sequence[np.ndarray],
) -> FederatedData:
    """Data of some clients among these samples.

    Args:
        like: the run's samples.
        x: samples.
        y: their labels.
        clients: the rows of each [r], for training and test alike.
    """
    rows = Ragged.of(clients)
    text: dict[str, Any] = {name: getattr(like, name, None) for name in ("vocabulary", "vectors")}
    return FederatedData(like.name, x, y, int(like.classes), rows, rows, **text)
