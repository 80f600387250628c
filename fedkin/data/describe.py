"""Statistics of a federation: the samples and labels of its clients, as a table."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int

from fedkin.core.object_repr import listed
from fedkin.data.federated import FederatedData
from fedkin.data.patient_columns import training_table
from fedkin.data.patients import Patients
from fedkin.data.table_scaling import raw_statistics
from fedkin.data.table_transform import NONE, TableTransform
from fedkin.measures.moments import intraclass_correlation, moments


def table(data: FederatedData) -> pd.DataFrame:
    """Statistics of a federation.

    Returns:
        A table with a row for each quantity (its index), and a column for each split: train, test,
        and validation if there is one.
    """
    columns = {split: _statistics(data, split) for split in data.splits}
    return pd.DataFrame(columns).rename_axis(data.name)


def column_table(data: FederatedData) -> pd.DataFrame | None:
    """Statistics of a table's columns over the training samples of all clients, before scaling.

    Returns:
        A table with a row for each column (its index): mean, standard deviation, smallest and
        largest value, and how the column is scaled. None for data without names of columns.
    """
    if data.feature_names is None:
        return None
    transform = data.transform or TableTransform.identity(data.feature_names)
    facts = raw_statistics(*training_table(data), data.transform)
    scaling = [
        _scaling(transform.kind, mean, scale)
        for mean, scale in zip(transform.mean, transform.scale, strict=True)
    ]
    columns = {
        "mean": facts.mean,
        "SD": facts.deviation,
        "min": _without_rounding(facts.low, facts.deviation),
        "max": _without_rounding(facts.high, facts.deviation),
    }
    table = pd.DataFrame(columns, index=pd.Index(data.feature_names, name="column"))
    return table.assign(scaling=scaling)


def _without_rounding(
    values: Float64[np.ndarray, "d"], deviation: Float64[np.ndarray, "d"]
) -> Float64[np.ndarray, "d"]:
    """Values with 0 for those that are near 0 because float32 has rounded scaled features."""
    return np.where(np.abs(values) < 1e-6 * deviation, 0.0, values)


def _scaling(kind: str, mean: float, scale: float) -> str:
    """How a column is scaled, as text."""
    if kind == NONE:
        return NONE
    sign = "-" if mean >= 0 else "+"
    return f"(x {sign} {abs(mean):.5g}) / {scale:.5g}"


def _statistics(data: FederatedData, split: str) -> dict[str, str]:
    """The statistics of one split, which are a column of ``table``."""
    part = data.part(split)
    sizes = part.sizes
    samples = int(sizes.sum())
    # A sample may belong to two clients.
    owned_again = samples - len(np.unique(part.rows))
    statistics = {
        "clients": f"{data.clients:,}",
        **_client_names(data),
        "clients without samples": f"{int((sizes == 0).sum()):,}",
        "samples": f"{samples:,}",
        "samples owned more than once": f"{owned_again:,}",
        "samples per client, min / median / mean / max": _spread(sizes, mean=True),
        **_labels(data, split),
    }
    if data.vocabulary:
        statistics |= _text_statistics(data, data.vocabulary, split)
    else:
        statistics |= _features(data)
    if data.true_clusters is not None:
        cluster_sizes = np.bincount(data.true_clusters)
        statistics["clients per true cluster"] = ", ".join(map(str, cluster_sizes))
    return statistics


def _labels(data: FederatedData, split: str) -> dict[str, str]:
    """Statistics of the labels of a split."""
    if data.patients is not None and split != "validation":
        return _patients(data, data.patients, split)
    return _classes(data, split) if data.task_type.loss is None else _numbers(data, split)


def _patients(data: FederatedData, patients: Patients, split: str) -> dict[str, str]:
    """Statistics of the patients from whom the risk sets of a split are made."""
    part = patients.part(split)
    times = patients.times[part.rows]
    statistics = {
        "task type": data.task_type.name,
        "patients": f"{len(part.rows):,}",
        "observed events": f"{int(patients.died[part.rows].sum()):,}",
    }
    if len(times):
        statistics["times, min / median / mean / max"] = _number_spread(times, mean=True)
        statistics["patients per client, min / median / max"] = _spread(part.sizes)
    return statistics


def _classes(data: FederatedData, split: str) -> dict[str, str]:
    """Statistics of labels that are classes."""
    counts = data.label_counts(split)
    by_class = counts.sum(axis=0)
    statistics = {"classes": f"{int((by_class > 0).sum())} of {data.classes}"}
    if data.label_names is not None:
        statistics["labels"] = listed(data.label_names)
    statistics["classes per client, min / median / max"] = _spread((counts > 0).sum(axis=1))
    statistics["samples per class, min / median / max"] = _spread(by_class)
    return statistics


def _numbers(data: FederatedData, split: str) -> dict[str, str]:
    """Statistics of labels that are numbers, in the user's units."""
    part = data.part(split)
    labels = number_labels(data)[part.rows]
    if not len(labels):
        return {}
    by_client = moments(labels, part.owners(), data.clients)
    means = by_client.mean[by_client.count > 0]
    statistics = {
        "task type": data.task_type.name,
        "labels, min / median / mean / max": _number_spread(labels, mean=True),
        "mean label of a client, min / median / max": _number_spread(means),
    }
    if len(labels) > len(means) > 1:
        statistics["intraclass correlation of labels"] = f"{label_icc(data, split):.3f}"
    return statistics


def label_icc(data: FederatedData, split: str = "train") -> float:
    """Intraclass correlation of the labels of a split: the share of their variance that lies
    between clients. Of classes, it is the correlation of belonging to the last class.

    Args:
        data: the data.
        split: ``train``, ``test``, or ``validation`` if the data have one.
    """
    part = data.part(split)
    labels = data.labels[part.rows]
    if data.task_type.loss is None:
        labels = (labels == data.classes - 1).astype(np.float64)
    return intraclass_correlation(moments(labels, part.owners(), data.clients))


def number_labels(data: FederatedData) -> Float64[np.ndarray, "M"]:
    """The labels of all samples in the user's units, for data whose labels are numbers."""
    # Scaled labels are float32, so a label of 0 would become 1e-8.
    digits = 6 - math.floor(math.log10(data.task_type.smallest_scale))
    return np.round(data.task_type.labels_of(data.y), digits) + 0.0


def _client_names(data: FederatedData) -> dict[str, str]:
    """The names of the clients, in the order of their ids; empty if they have none."""
    if data.client_names is None:
        return {}
    return {"names of clients": listed(data.client_names)}


def _features(data: FederatedData) -> dict[str, str]:
    """Statistics of the features of data other than text: the shape of a sample."""
    return {"features": " x ".join(map(str, data.x.shape[1:]))}


def _text_statistics(
    data: FederatedData, vocabulary: tuple[str, ...], split: str
) -> dict[str, str]:
    """Statistics of text, such as the size of its vocabulary and the length of a sample."""
    unit = "words" if max(map(len, vocabulary), default=0) > 1 else "characters"
    statistics = {f"length of a sample, in {unit}": f"{data.x.shape[1]:,}"}
    words = len(vocabulary)

    # Word 0 may be "", which stands for padding and for words outside the vocabulary.
    if vocabulary[0] == "":
        words -= 1
        rows = np.unique(data.part(split).rows)
        lengths = np.count_nonzero(data.x[rows], axis=1)
        # A split may have no samples.
        if len(lengths):
            statistics["known words of a sample, min / median / mean / max"] = _spread(
                lengths, mean=True
            )
    statistics[f"{unit} in the vocabulary"] = f"{words:,}"
    statistics["word vectors"] = (
        "none" if data.vectors is None else f"{data.vectors.shape[1]:,} numbers each"
    )
    return statistics


def _number_spread(values: Float64[np.ndarray, "_"], mean: bool = False) -> str:
    """As ``_spread``, for numbers with decimals: four digits."""
    numbers = [values.min(), np.median(values)]
    if mean:
        numbers.append(values.mean())
    numbers.append(values.max())
    return " / ".join(f"{number:.4g}" for number in numbers)


def _spread(values: Int[np.ndarray, "_"], mean: bool = False) -> str:
    """Minimum, median, mean (if requested) and maximum of values, as text."""
    numbers = [values.min(), np.median(values)]
    if mean:
        numbers.append(values.mean())
    numbers.append(values.max())
    return " / ".join(f"{number:,.1f}".removesuffix(".0") for number in numbers)
