"""The sums of a client, from which all measures of labels that are no classes follow. Of survival,
they are the comparable pairs of the client's patients.

Shapes: B samples, C outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from fedkin.core.errors import ConfigError
from fedkin.data.federated import FederatedData
from fedkin.data.number_scores import number_sums
from fedkin.export.predictor import Predictor
from fedkin.measures.concordance import concordance
from fedkin.task_types.survival import Survival
from fedkin.task_types.task_type import TaskType


class ClientSums(NamedTuple):
    """The sums of a client's samples, from which all measures follow.

    Attributes:
        sums: the sums of the task type, by name.
        samples: number of samples.
    """

    sums: dict[str, float]
    samples: int


def sums_of(
    task_type: TaskType, scores: Float[np.ndarray, "B C"], y: Shaped[np.ndarray, "B ..."]
) -> ClientSums:
    """The sums of a client.

    Args:
        task_type: what the labels are, with statistics.
        scores: scores of the client's model.
        y: rows of ``FederatedData.y``.
    """
    return ClientSums(number_sums(task_type, scores, y), len(y))


def client_sums(
    model: Predictor, data: FederatedData, client: int, splits: Sequence[str]
) -> ClientSums:
    """The sums of a client over its samples of some splits.

    Args:
        model: the client's model.
        data: the federated data, whose labels are no classes.
        client: number of the client.
        splits: names of the splits.
    """
    if isinstance(data.task_type, Survival):
        return pairs_of_client(model, data, client, splits)
    rows = np.concatenate([data.part(split)[client] for split in splits])
    scores = model.finite_scores(data.x[rows], prepared=True)
    return sums_of(data.task_type, scores, data.y[rows])


def pairs_of_client(
    model: Predictor, data: FederatedData, client: int, splits: Sequence[str]
) -> ClientSums:
    """The comparable pairs of a client's patients, and those that a model orders correctly. A pair
    of equal risks counts half.

    Args:
        model: the client's model.
        data: federated data of survival.
        client: number of the client.
        splits: ``train``, ``test`` or both; pairs of patients of two splits count too.

    Raises:
        ConfigError: the data have no patients, so that only test samples are pairs.
        ModelError: a risk is NaN or infinite.
    """
    if data.patients is None or model.shares is not None:
        return _pairs_of_samples(model, data, client, splits)
    members = [data.patients.part(split)[client] for split in splits]
    patients = np.concatenate(members)
    x = data.x[data.patients.samples[patients]]
    # A patient alone has the first place of a risk set.
    risks = model.finite_scores(x, prepared=True)[:, 0]
    pairs = concordance(risks, data.patients.times[patients], data.patients.died[patients])
    return ClientSums({"correct": pairs.concordant + pairs.tied / 2}, pairs.pairs)


def _pairs_of_samples(
    model: Predictor, data: FederatedData, client: int, splits: Sequence[str]
) -> ClientSums:
    """The pairs among the test samples of a client. A mixture of models is scored in this way,
    because its risks have no common scale. Arguments are those of ``pairs_of_client``."""
    if list(splits) != ["test"]:
        raise ConfigError(
            f"{data.name}: only test samples are pairs of patients, and {model.name} is a mixture "
            "or the data have no patients; evaluate the split test"
        )
    rows = data.part("test")[client]
    return sums_of(data.task_type, model.finite_scores(data.x[rows], prepared=True), data.y[rows])
