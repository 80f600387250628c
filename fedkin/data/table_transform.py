"""How the columns of a table become the features of a model: renamed, and centred and scaled by
numbers that are computed from all clients' training samples, or given.

The columns of text and with missing values are encoded before (``TableEncoding``). The transform
travels with the model: data, run folders and exports hold it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped

from fedkin.core.columns import CommonScaling
from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.core.object_repr import listed
from fedkin.data.table_encoding import TableEncoding

STANDARD = "standard"
ROBUST = "robust"
NONE = "none"
# Ways to scale the columns of a table, by the option ``scale``.
SCALES = (STANDARD, ROBUST, NONE)
# Options that only tables have.
TABLE_OPTIONS = (
    "scale",
    "scale_from",
    "drop",
    "rename",
    "categories",
    "min_frequency",
    "min_clients",
)
# The way of a transform whose statistics were given by the option ``scale_from``.
GIVEN = "given"
# The way of a transform that keeps the values of a table in float64, for statistics.
RAW = "raw"
_EXAMPLE = "{mean = {age = 50.0, weight = 70.0}, scale = {age = 12.0, weight = 9.5}}"


@dataclass(frozen=True)
class TableTransform:
    """How the raw columns of a table become features: ``(x - mean) / scale`` for each column.

    Attributes:
        columns: names of the d columns, after renaming; of an encoded table, names of the features.
        kind: ``standard`` (mean and standard deviation), ``robust`` (median and interquartile
            range), ``given``, ``none``, or ``raw`` until the sites' server sends the numbers.
        mean: the value of each column that becomes 0.
        scale: the difference in each column that becomes 1.
        renamed: new name of each renamed column, by its name in the file.
        encoding: how raw columns with text or missing values became ``columns``; None if they are
            numbers without missing values.
    """

    columns: tuple[str, ...]
    kind: str
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)
    encoding: TableEncoding | None = None

    @classmethod
    def identity(
        cls, columns: Sequence[str], renamed: Mapping[str, str] | None = None
    ) -> TableTransform:
        """The transform that leaves all values as they are.

        Args:
            columns: names of the columns.
            renamed: new names of renamed columns; None: no column is renamed.
        """
        zeros = (0.0,) * len(columns)
        ones = (1.0,) * len(columns)
        return cls(tuple(columns), NONE, mean=zeros, scale=ones, renamed=dict(renamed or {}))

    @property
    def scales(self) -> bool:
        """Whether the transform changes any value."""
        return any(self.mean) or any(scale != 1 for scale in self.scale)

    @property
    def scaling(self) -> CommonScaling:
        """Mean and scale of each column, as arrays."""
        return CommonScaling(np.array(self.mean), np.array(self.scale))

    @property
    def fitted(self) -> bool:
        """Whether the statistics were computed from training samples."""
        return self.kind in (STANDARD, ROBUST)

    @property
    def released(self) -> bool:
        """Whether numbers or names in the transform come from the clients' samples."""
        return self.fitted or (self.encoding is not None and self.kind != GIVEN)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the raw columns that a table must have."""
        return self.columns if self.encoding is None else self.encoding.columns

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the features."""
        return np.dtype(np.float64 if self.kind == RAW else np.float32)

    def apply(self, x: Shaped[np.ndarray, "B d"]) -> Shaped[np.ndarray, "B d"]:
        """The features of raw values, or of encoded ones. They are computed in float64, so that a
        column of large numbers keeps its small differences."""
        if self.kind == RAW:
            return np.asarray(x, np.float64)
        scaled = (np.asarray(x, np.float64) - np.array(self.mean)) / np.array(self.scale)
        # A number that overflows becomes infinite; the caller refuses it by its row.
        with np.errstate(over="ignore"):
            return scaled.astype(np.float32)

    def undo(self, x: Shaped[np.ndarray, "B d"]) -> Float64[np.ndarray, "B d"]:
        """The raw values of features, to the precision of float32."""
        return np.asarray(x, np.float64) * np.array(self.scale) + np.array(self.mean)

    def new_names(self, names: Sequence[Any]) -> list[Any]:
        """Names of columns, renamed as in the training data. A column keeps its name if another one
        has the new name already.

        Args:
            names: names of columns, as in the file or renamed.
        """
        renamed = self.renaming(names)
        return [renamed.get(str(name), name) for name in names]

    def renaming(self, names: Sequence[Any]) -> dict[str, str]:
        """The new names of those columns that are to be renamed, by their present names.

        Args:
            names: names of columns, as in the file or renamed.
        """
        present = {str(name) for name in names}
        return {
            old: new for old, new in self.renamed.items() if old in present and new not in present
        }

    def rename(self, table: Any) -> Any:
        """A DataFrame with its columns renamed as in the training data. A table that has the new
        names already stays as it is."""
        return table.set_axis(self.new_names(list(table.columns)), axis=1)

    def of_columns(self, names: Sequence[str], place: Any) -> TableTransform:
        """The same statistics for other columns, in their order.

        Args:
            names: names of the columns.
            place: file or name with which the message begins.

        Raises:
            DataError: there are no statistics of a column, or the columns are the features of an
                encoding, which have one order.
        """
        if tuple(names) == self.columns:
            return self
        if self.kind == RAW:
            return replace(TableTransform.identity(names), kind=RAW)
        if self.encoding is not None:
            raise DataError(
                f"{place}: the encoding makes the features {listed(self.columns)} in this order, "
                f"got {listed(names)}; leave out the names of the features"
            )
        for name in names:
            if name not in self.columns:
                raise DataError(
                    f"{place}: {unknown('column', name, self.columns)}; the statistics for scaling "
                    "have no other columns"
                )
        numbers = [self.columns.index(name) for name in names]
        return TableTransform(
            columns=tuple(names),
            kind=self.kind,
            mean=tuple(self.mean[number] for number in numbers),
            scale=tuple(self.scale[number] for number in numbers),
            renamed=self.renamed,
        )

    def as_given(self) -> TableTransform:
        """The transform with statistics that count as given, so they are never computed again."""
        return replace(self, kind=GIVEN)

    def equals(self, other: TableTransform | None) -> bool:
        """Whether another transform changes values in the same way."""
        if other is None:
            return False
        numbers = (self.mean, self.scale, self.encoding)
        return numbers == (other.mean, other.scale, other.encoding)

    def values(self) -> dict[str, Any]:
        """The transform as values for JSON, from which ``of_values`` makes it again."""
        values: dict[str, Any] = {
            "kind": self.kind,
            "columns": list(self.columns),
            "mean": list(self.mean),
            "scale": list(self.scale),
            "renamed": dict(self.renamed),
        }
        if self.encoding is not None:
            values["encoding"] = self.encoding.values()
        return values

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> TableTransform:
        """The transform with these ``values``.

        Raises:
            ValueError: the values are damaged.
        """
        try:
            encoding = values.get("encoding")
            transform = cls(
                columns=tuple(map(str, values["columns"])),
                kind=str(values["kind"]),
                mean=tuple(map(float, values["mean"])),
                scale=tuple(map(float, values["scale"])),
                renamed=dict(values.get("renamed") or {}),
                encoding=None if encoding is None else TableEncoding.of_values(encoding),
            )
        except KeyError as error:
            raise ValueError(f"there is no {error}") from error
        except (TypeError, AttributeError) as error:
            raise ValueError(str(error)) from error
        if not len(transform.columns) == len(transform.mean) == len(transform.scale):
            raise ValueError("columns, mean and scale have different lengths")
        if transform.encoding is not None and transform.encoding.names != transform.columns:
            raise ValueError("columns are not the features of the encoding")
        return transform


# Stands for values that are not scaled, in the place of given statistics.
UNCHANGED = TableTransform((), NONE, (), ())
# Stands for raw values of any columns, which are scaled later, in the place of given statistics.
RAW_VALUES = TableTransform((), RAW, (), ())


def transform_of(samples: Any) -> TableTransform | None:
    """How the raw columns of a table became some samples; None if they kept their values, and for
    other data.

    Args:
        samples: federated data, or a description of samples.
    """
    return getattr(samples, "transform", None)


def scaling_transform(
    scaling: CommonScaling, columns: Sequence[str], renamed: Mapping[str, str] | None = None
) -> TableTransform:
    """The transform with the scaling that all sites of a federation use.

    Args:
        scaling: mean and scale of each column.
        columns: names of the columns, in the same order.
        renamed: new names of the columns that one site has renamed; None: no column is renamed.
    """
    assert scaling.mean is not None
    assert scaling.scale is not None
    return TableTransform(
        columns=tuple(columns),
        kind=GIVEN,
        mean=tuple(scaling.mean.tolist()),
        scale=tuple(scaling.scale.tolist()),
        renamed=dict(renamed or {}),
    )


def given_transform(
    statistics: Mapping[str, Any], columns: Sequence[str], place: Any
) -> TableTransform:
    """The transform with given statistics.

    Args:
        statistics: ``mean`` and ``scale``: numbers by column, or a list in the order of
            ``columns``. A stored transform (``TableTransform.values``) names the columns of its
            lists.
        columns: names of the feature columns.
        place: file or name with which messages begin.

    Raises:
        ConfigError: the statistics are incomplete, or a scale is not positive.
    """
    order = statistics.get("columns", columns)
    mean = _by_column(statistics, key="mean", order=order, columns=columns, place=place)
    scale = _by_column(statistics, key="scale", order=order, columns=columns, place=place)
    for name, value in zip(columns, scale, strict=True):
        if value <= 0:
            raise ConfigError(
                f"{place}: scale_from needs a positive scale of each column, got {value:g} for "
                f"{name}; give 1 for a column that keeps its unit"
            )
    return TableTransform(tuple(columns), GIVEN, mean=mean, scale=scale)


def _by_column(
    statistics: Mapping[str, Any],
    key: str,
    order: Sequence[str],
    columns: Sequence[str],
    place: Any,
) -> tuple[float, ...]:
    """The numbers of one kind (``mean`` or ``scale``) in the order of the columns."""
    given = statistics.get(key)
    if isinstance(given, (list, tuple)) and len(given) == len(order):
        given = dict(zip(map(str, order), given, strict=True))
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"{place}: scale_from needs the {key} of each of the {len(columns)} columns, got "
            f"{key} = {given!r}; give numbers by column: scale_from = {_EXAMPLE}"
        )
    numbers = []
    for name in columns:
        if name not in given:
            raise ConfigError(
                f"{place}: scale_from has no {key} of column {name!r}, but of "
                f"{listed(given) or 'no column'}; add it: scale_from = {_EXAMPLE}"
            )
        value = given[name]
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not np.isfinite(value):
            raise ConfigError(
                f"{place}: scale_from needs numbers, got {key}.{name} = {value!r}; for example "
                f"scale_from = {_EXAMPLE}"
            )
        numbers.append(float(value))
    return tuple(numbers)
