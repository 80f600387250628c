"""How the raw columns of a table become complete numbers: a column of 0 and 1 for each category,
missing values filled, and indicators of missing values.

The order is categories and booleans, then missing values; scaling comes last (``TableTransform``).
The features are in the order of the raw columns, and the indicators come after all of them. The
encoding travels with the model.

Shapes: B samples, e numbers before the indicators, f features.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from fedkin.core.errors import DataError
from fedkin.core.object_repr import of_client
from fedkin.data.categories import Vocabulary
from fedkin.data.column_checks import check_columns
from fedkin.data.column_kinds import as_numbers, category_names
from fedkin.data.missing_values import Imputation

_log = logging.getLogger("fedkin")


@dataclass(frozen=True)
class TableEncoding:
    """How the raw columns of a table become features.

    Attributes:
        columns: names of the raw columns, after renaming.
        vocabularies: the vocabulary of each column of categories, by its name.
        imputation: how missing values of the encoded columns are filled.
    """

    columns: tuple[str, ...]
    vocabularies: Mapping[str, Vocabulary]
    imputation: Imputation

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features: numbers and categories in the order of the raw columns, then the
        indicators."""
        return self.imputation.names

    @property
    def sources(self) -> tuple[str, ...]:
        """The raw column of each feature."""
        sources: list[str] = []
        for name in self.columns:
            width = len(self.vocabularies[name].names) if name in self.vocabularies else 1
            sources += [name] * width
        return (*sources, *self.imputation.indicated)

    @property
    def is_binary(self) -> Bool[np.ndarray, "f"]:
        """Whether a feature is 0 or 1: a category or an indicator. Such features are not scaled."""
        count = len(self.imputation.columns)
        return np.array(
            [
                place >= count or source in self.vocabularies
                for place, source in enumerate(self.sources)
            ]
        )

    def apply(
        self, table: Any, place: Path | str, start: int = 0, clients: Any = None
    ) -> Float64[np.ndarray, "B f"]:
        """The features of samples, before scaling. A category that is not in the vocabulary is
        infrequent, or a row of zeros.

        Args:
            table: a DataFrame with the raw columns, and perhaps others.
            place: file or name with which messages begin.
            start: number of the first row, if the table is a part of a larger one.
            clients: the client of each row of the whole table, for messages; None if unknown.

        Raises:
            DataError: a column is missing, or a cell of a column of numbers is text or infinite.
        """
        named = table.set_axis([str(name) for name in table.columns], axis=1)
        check_columns(named, self.columns, place, dict.fromkeys(self.columns, "the model needs it"))
        numbers = encoded(
            named, self.columns, self.vocabularies, place=place, start=start, clients=clients
        )
        return self.imputation.apply(numbers)

    def warn_of_new_categories(self, table: Any, place: Path | str, clients: Any = None) -> None:
        """Warn of categories that training never saw, in columns without a feature for infrequent
        ones: their rows have no category at all.

        Args:
            table: a DataFrame with all rows, and perhaps without some columns.
            place: file with which the warning begins.
            clients: the client of each row; None if unknown.
        """
        for name, vocabulary in self.vocabularies.items():
            if vocabulary.infrequent or name not in table:
                continue
            found = category_names(table[name])
            known = {None, *vocabulary.categories}
            rows = [row for row, category in enumerate(found) if category not in known]
            if rows:
                _log.warning(
                    "%s: column %r: the category %r in row %d%s is not among the training data's "
                    "(%d such rows), so no category counts there; correct it, or train again with "
                    "such rows",
                    place,
                    name,
                    found[rows[0]],
                    rows[0],
                    of_client(clients, rows[0]),
                    len(rows),
                )

    def refilled(
        self, features: Float64[np.ndarray, "B f"], mean: Mapping[str, float]
    ) -> Float64[np.ndarray, "B f"]:
        """Features whose missing values are filled with other means. Only columns with an indicator
        change, since others do not tell where a value was missing.

        Args:
            features: complete features, before scaling.
            mean: the new value by column.
        """
        filled = features.copy()
        count = len(self.imputation.columns)
        for number, name in enumerate(self.imputation.indicated):
            column = self.imputation.columns.index(name)
            missing = features[:, count + number] > 0.5
            filled[missing, column] = mean[name]
        return filled

    def with_means(self, mean: Mapping[str, float]) -> TableEncoding:
        """The encoding that fills missing values of some columns with other means."""
        old = self.imputation
        values = zip(old.columns, old.mean, strict=True)
        means = tuple(mean.get(name, value) for name, value in values)
        return replace(self, imputation=replace(old, mean=means))

    def values(self) -> dict[str, Any]:
        """The encoding as values for JSON, from which ``of_values`` makes it again."""
        return {
            "columns": list(self.columns),
            "categories": [vocabulary.values() for vocabulary in self.vocabularies.values()],
            "missing": self.imputation.values(),
        }

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> TableEncoding:
        """The encoding with these ``values``. Raises KeyError, TypeError or ValueError if they are
        damaged."""
        vocabularies = [Vocabulary.of_values(one) for one in values["categories"]]
        return cls(
            columns=tuple(map(str, values["columns"])),
            vocabularies={one.column: one for one in vocabularies},
            imputation=Imputation.of_values(values["missing"]),
        )


def encoded(
    table: Any,
    columns: Sequence[str],
    vocabularies: Mapping[str, Vocabulary],
    place: Path | str,
    start: int = 0,
    clients: Any = None,
) -> Float64[np.ndarray, "B e"]:
    """Raw columns as numbers, NaN where a number is missing.

    Args:
        table: a DataFrame whose columns are named by text.
        columns: names of the raw columns.
        vocabularies: the vocabulary of each column of categories.
        place, start, clients: as for ``TableEncoding.apply``.
    """
    parts: list[np.ndarray] = [np.zeros((len(table), 0))]
    for name in columns:
        column = table[name]
        if getattr(column, "ndim", 1) != 1:
            raise DataError(f"{place}: expected columns with different names, got {name!r} twice")
        if name in vocabularies:
            parts.append(vocabularies[name].apply(category_names(column)).astype(np.float64))
        else:
            values = as_numbers(column, name=name, place=place, start=start, clients=clients)
            parts.append(values[:, None])
    return np.concatenate(parts, axis=1)


def encoded_names(
    columns: Sequence[str], vocabularies: Mapping[str, Vocabulary]
) -> tuple[str, ...]:
    """The names of the numbers that ``encoded`` returns."""
    names: list[str] = []
    for name in columns:
        names += vocabularies[name].names if name in vocabularies else [name]
    return tuple(names)
