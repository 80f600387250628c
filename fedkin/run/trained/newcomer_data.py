"""Conversion of new clients' samples to data on which the run's model can train."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float32, Int, Shaped

from fedkin.core.errors import DataError
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.label_statistics import RawLabels, place_of
from fedkin.data.label_tasks import given
from fedkin.data.number_columns import numbers_of
from fedkin.data.patient_columns import PatientRows, are_patient_rows
from fedkin.data.survival import risk_sets
from fedkin.data.survival_columns import check_times, events_of
from fedkin.export.columns import is_table
from fedkin.export.forecast_inputs import labelled_rows
from fedkin.export.input_samples import as_samples, exposures
from fedkin.export.known_labels import encoded_labels, numbers_are_classes
from fedkin.task_types.classification import task_type_of_samples
from fedkin.task_types.survival import Survival


def has_labels(like: Any, x: Any, y: Any) -> bool:
    """Whether the labels of a newcomer's samples are known: given, or in a table of series or of
    patients.

    Args:
        like: the run's samples.
        x: the newcomer's samples [s ...].
        y: the samples' labels [s], or None.
    """
    return y is not None or task_type_of_samples(like).by_time or are_patient_rows(x, like)


def newcomer_samples(
    like: Any, x: Any, y: Any
) -> tuple[Shaped[np.ndarray, "s ..."], Shaped[np.ndarray, "s ..."]]:
    """Check a newcomer's samples and labels, and convert them to the format of the run's data.

    Args:
        like: the run's samples.
        x: the newcomer's samples [s ...].
        y: the samples' labels [s]: names if the run's labels are names, otherwise numbers. None:
            zeros, for methods that read no labels. A DataFrame x also has the exposures of counts,
            for forecasts the labels, and for survival the times and the events.

    Raises:
        DataError: there are no samples, or the samples or labels do not fit the run's.
    """
    task_type = task_type_of_samples(like)
    if task_type.by_time:
        return labelled_rows(x, like)
    if are_patient_rows(x, like):
        return _risk_sets(like, x)
    samples = as_samples(x, like)
    labels: np.ndarray
    if y is None:
        labels = np.zeros(len(samples), np.int64 if task_type.loss is None else np.float32)
    elif task_type.loss is None:
        labels = _newcomer_labels(like, y)
    else:
        raw = RawLabels(numbers_of(y, "label", like.name), exposures(x, None, like))
        _, labels = given(task_type, raw, like.name)
    if not len(samples) or len(labels) != len(samples):
        raise DataError(
            f"a newcomer needs at least one sample, and a label for each; got {len(samples)} "
            f"samples and {len(labels)} labels"
        )
    return samples, labels


def _risk_sets(like: Any, x: Any) -> tuple[Float32[np.ndarray, "s m e"], Int[np.ndarray, "s"]]:
    """Risk sets of a newcomer's patients, and their labels, with the run's options.

    Args:
        like: the run's samples.
        x: a DataFrame with the columns of the time, of the event and of the features.

    Raises:
        DataError: a column is missing, a value is impossible, or no event can be compared.
    """
    columns = getattr(like, "columns", None) or {}
    needed = [columns.get("label", "time"), columns.get("event", "event")]
    if not is_table(x) or any(name not in x for name in needed):
        raise DataError(
            f"{like.name}: the patients of a newcomer need a time and an event each; give a "
            f"DataFrame with the columns {needed[0]!r} and {needed[1]!r} and those of the features"
        )
    place = "newcomer"
    times = numbers_of(x[needed[0]], "time", place_of("label", place, columns))
    check_times(times, place_of("label", place, columns))
    died = events_of(x[needed[1]], place_of("event", place, columns))
    task_type = task_type_of_samples(like)
    assert isinstance(task_type, Survival)
    return risk_sets(
        x=as_samples(x, PatientRows.of(like)),
        times=times,
        died=died,
        size=int(like.classes),
        draws=task_type.draws,
        rng=Stream(0, purpose="newcomer/risk_sets").client(0),
        who=place,
        ties=task_type.ties,
    )


def _newcomer_labels(like: Any, y: Any) -> Int[np.ndarray, "s"]:
    """A newcomer's labels as class numbers. Raises DataError for labels that the run has not seen,
    and for numbers if the run's labels are names."""
    # `columns` is None if the data were made with numbered labels, as the library's data sets are.
    # It is absent on a server, which does not know the labels of the sites.
    columns = getattr(like, "columns", {})
    by_number = columns is None or numbers_are_classes(columns)
    return encoded_labels(y, getattr(like, "label_names", None), int(like.classes), by_number)


def newcomer_data(
    like: Any,
    x: Shaped[np.ndarray, "s ..."],
    y: Shaped[np.ndarray, "s ..."],
    clients: Sequence[np.ndarray],
) -> FederatedData:
    """Federated data of new clients, like the run's data.

    Args:
        like: the run's samples.
        x: samples of all new clients.
        y: the samples' labels.
        clients: for each client, the indices of its samples in ``x``, used for training and test.
    """
    rows = Ragged.of(clients)
    text: dict[str, Any] = {name: getattr(like, name, None) for name in ("vocabulary", "vectors")}
    return FederatedData(
        like.name,
        x,
        y=y,
        classes=int(like.classes),
        train=rows,
        test=rows,
        task_type=task_type_of_samples(like),
        **text,
    )
