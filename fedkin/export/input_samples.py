"""Checks and conversion of the user's samples to the input of a model.

Shapes: B samples, d raw columns, f features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.model_spec import Samples
from fedkin.core.object_repr import listed
from fedkin.data.number_columns import check_above_zero, numbers_of
from fedkin.data.patient_columns import (
    PatientRows,
    are_patient_rows,
    has_patients,
    risk_sets_of_one,
    with_columns,
)
from fedkin.data.table_transform import TableTransform, transform_of
from fedkin.data.user_arrays import user_array
from fedkin.export.columns import is_table, values_of
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.count import Count

_PIXELS = np.float32(255)
_LARGEST = np.finfo(np.float32).max
# Number of samples that are compared with the training samples.
_COMPARED = 8


def as_samples(x: Any, samples: Samples) -> Shaped[np.ndarray, "B ..."]:
    """Convert samples to the input of a model: raw values, which are scaled if the training samples
    were.

    Args:
        x: samples, as for ``raw_samples``; rows of patients, if the training samples are risk sets.
        samples: the training samples. They may also say how the columns of a table were scaled
            (``transform``).

    Returns:
        An array of the training samples' type.

    Raises:
        DataError: as for ``raw_samples``, or a scaled value is not finite as float32.
    """
    if are_patient_rows(x, samples):
        # Each patient is a risk set of one.
        return risk_sets_of_one(as_samples(x, PatientRows.of(samples)), samples.x.shape[1])
    array = raw_samples(x, samples)
    transform = transform_of(samples)
    if transform is None:
        return array
    if has_patients(samples):
        return with_columns(array, transform.apply)
    if not is_table(x):
        _refuse_scaled(array, samples)
    scaled = transform.apply(array)
    _check_finite(scaled)
    return scaled


def raw_samples(x: Any, samples: Samples) -> Shaped[np.ndarray, "B ..."]:
    """Check samples, and convert them to an array of raw values.

    Args:
        x: any value that NumPy converts to an array [B ...]. ``uint8`` values are divided by 255 if
            the training samples were. Columns of a DataFrame are selected by name if the features
            have names.
        samples: the training samples, which define the shape and type. They may also say that
            pixels were divided by 255 (``from_uint8``), and name the features (``feature_names``).

    Returns:
        An array of the training samples' type; float64 if columns of a table are scaled.

    Raises:
        DataError: the samples have another shape or type, contain NaN or infinity, or lack a
            column.
    """
    if are_patient_rows(x, samples):
        return raw_samples(x, PatientRows.of(samples))
    shape = tuple(samples.x.shape[1:])
    transform = transform_of(samples)
    # The features of risk sets are encoded already.
    has_raw_columns = not has_patients(samples)
    if has_raw_columns and transform is not None and transform.encoding is not None:
        return encoded_samples(x, transform, samples)
    dtype = samples.x.dtype if transform is None else np.dtype(np.float64)
    floats = np.issubdtype(dtype, np.floating)
    names = getattr(samples, "feature_names", None)
    if names is not None and is_table(x):
        table = x if transform is None else transform.rename(x)
        array = values_of(table, names, "samples", dtype)
    else:
        array = user_array(x, "samples", "x")
    right_type = array.dtype.kind in ("biuf" if floats else "iu")
    if not right_type or not array.ndim or array.shape[1:] != shape:
        kind = "numbers" if floats else "integers"
        raise DataError(
            f"expected samples of shape [B, {', '.join(map(str, shape))}] ({kind}, as "
            f"in {samples.name}), got {array.dtype} of shape {list(array.shape)}; for a "
            "single sample x, pass x[None]"
        )
    if floats and array.dtype == np.uint8 and transform is None:
        if not getattr(samples, "from_uint8", False):
            raise DataError(
                f"uint8 samples: it is unknown whether the samples of {samples.name} were uint8 "
                "divided by 255, so these cannot be scaled; prepare them like the training "
                "samples, and pass floats (x.astype('float32'))"
            )
        array = array / _PIXELS
    array = np.ascontiguousarray(array, dtype)
    _check_finite(array)
    return array


def encoded_samples(
    x: Any, transform: TableTransform, samples: Samples
) -> Float[np.ndarray, "B f"]:
    """The features of a table with text or missing values, before scaling.

    Args:
        x: a DataFrame, or an array [B, d] with the raw columns in their order (objects, if some are
            text).
        transform: the transform of the training samples.
        samples: the training samples, for messages.

    Raises:
        DataError: a column is missing, or a cell cannot be used.
    """
    encoding = transform.encoding
    assert encoding is not None
    features = encoding.apply(_raw_table(x, transform, samples), "samples")
    _check_finite(features)
    return features


def warn_of_new_categories(x: Any, samples: Samples) -> None:
    """Warn of categories in the user's samples that training never saw, if no feature counts them.

    Args:
        x: samples, as for ``as_samples``.
        samples: the training samples.
    """
    transform = transform_of(samples)
    if transform is None or transform.encoding is None:
        return
    # Arrays of risk sets and of forecasts are encoded already.
    is_encoded = has_patients(samples) or getattr(samples, "task_type", CLASSIFICATION).by_time
    if is_encoded and not is_table(x):
        return
    transform.encoding.warn_of_new_categories(_raw_table(x, transform, samples), "samples")


def _raw_table(x: Any, transform: TableTransform, samples: Samples) -> Any:
    """The user's samples as a DataFrame with the raw columns, by the names of the run.

    Args:
        x, transform, samples: as for ``encoded_samples``.

    Raises:
        DataError: an array has another number of columns.
    """
    import pandas as pd

    if is_table(x):
        return transform.rename(x)
    encoding = transform.encoding
    assert encoding is not None
    array = np.asarray(x)
    if array.ndim != 2 or array.shape[1] != len(encoding.columns):
        raise DataError(
            f"expected samples with the {len(encoding.columns)} columns of the table of "
            f"{samples.name}, got shape {list(array.shape)}; pass a DataFrame with the columns "
            f"{listed(encoding.columns)}"
        )
    return pd.DataFrame(array, columns=list(encoding.columns)).infer_objects()


def _check_finite(array: Shaped[np.ndarray, "B ..."]) -> None:
    """Raise DataError for NaN, and for numbers that are not finite as float32."""
    if array.dtype.kind != "f" or not len(array):
        return
    wrong = ~(np.abs(array.reshape(len(array), -1)) <= _LARGEST).all(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(f"sample {row} holds NaN, or a number that is not finite as float32")


def _refuse_scaled(array: Float[np.ndarray, "B d"], samples: Samples) -> None:
    """Raise DataError for rows of the run's own scaled features, which would be scaled twice."""
    transform = transform_of(samples)
    if transform is None or not (transform.scales and hasattr(samples, "train") and len(array)):
        return
    if transform.encoding is not None:
        # Scaled features have other columns than the table.
        return
    first = array[:_COMPARED].astype(np.float32)
    if not all((samples.x == row).all(axis=1).any() for row in first):
        return
    # Raw whole numbers may equal scaled ones by chance: rows of the table itself are no mistake.
    raw = transform.undo(samples.x)
    if all(np.isclose(raw, row, rtol=1e-5, atol=1e-6).all(axis=1).any() for row in first):
        return
    raise DataError(
        f"these samples are rows of the scaled features of {samples.name} (data.x), but a model "
        "takes raw values, as in the table, and scales them; pass rows of the table, or "
        "data.transform.undo(x)"
    )


def exposures(x: Any, exposure: Any, samples: Samples) -> Float[np.ndarray, "B"] | None:
    """The exposure of each sample; None if all are 1.

    Args:
        x: the samples.
        exposure: the given exposures; None for the column of a DataFrame that has the name of the
            training data's column.
        samples: the training samples.

    Raises:
        ConfigError: exposures are given, but the labels are no counts.
        DataError: an exposure is text, missing or not above 0.
    """
    column = (getattr(samples, "columns", None) or {}).get("exposure")
    task_type = getattr(samples, "task_type", CLASSIFICATION)
    if exposure is None and column is not None and is_table(x) and column in x:
        exposure = x[column]
    if exposure is None:
        return None
    if not isinstance(task_type, Count):
        raise ConfigError(
            f"exposure applies to counts only, and the labels are of {task_type.name}; leave it out"
        )
    given = numbers_of(exposure, "exposure", "samples")
    check_above_zero(given, "exposure", "samples")
    return given
