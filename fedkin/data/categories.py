"""Columns of text as features: a column of 0 and 1 for each category of a shared vocabulary, and
one for all infrequent categories.

Clients send the number of their training samples in each category. The vocabulary is decided once,
from the counts of all clients. The result is scikit-learn's ``OneHotEncoder(min_frequency=...,
handle_unknown="infrequent_if_exist")`` of the pooled table.

The names of categories are data: a name with a count of 1 may name a person. ``min_frequency`` and
``min_clients`` keep such names out of the vocabulary.

Shapes: M samples, C columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32

from fedkin.core.errors import DataError
from fedkin.core.object_repr import listed
from fedkin.data.missing_values import LEAST_MISSING
from fedkin.data.partition_options import positive

MOST_CATEGORIES = 50


@dataclass(frozen=True)
class Vocabulary:
    """The categories of a column that have features. It travels with the model, as
    ``TableTransform`` does.

    Attributes:
        column: name of the column.
        categories: names of the categories, in ascending order.
        infrequent: whether there is a feature for all other categories, seen in training or not.
            Without it, an unknown category is a row of zeros.
        missing: whether there is a feature for missing values. Without it, a missing value is a
            row of zeros.
    """

    column: str
    categories: tuple[str, ...]
    infrequent: bool = False
    missing: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features, such as ``origin_JFK`` and ``origin_infrequent``."""
        names = [f"{self.column}_{category}" for category in self.categories]
        for extra in ("infrequent", "missing"):
            if getattr(self, extra):
                name = f"{self.column}_{extra}"
                # A category may have this name.
                while name in names:
                    name += "_"
                names.append(name)
        return tuple(names)

    def apply(self, values: Iterable[Any]) -> Float32[np.ndarray, "M C"]:
        """The features of samples.

        Args:
            values: category of each sample; None or NaN where it is missing.
        """
        place = {category: number for number, category in enumerate(self.categories)}
        others = len(self.categories) if self.infrequent else -1
        missing = len(self.names) - 1 if self.missing else -1
        texts = [_text(value) for value in values]
        columns = np.array(
            [missing if text is None else place.get(text, others) for text in texts], np.int64
        )
        features = np.zeros((len(columns), len(self.names)), np.float32)
        known = np.flatnonzero(columns >= 0)
        features[known, columns[known]] = 1
        return features

    def values(self) -> dict[str, Any]:
        """The vocabulary as values for JSON, from which ``of_values`` makes it again."""
        return {
            "column": self.column,
            "categories": list(self.categories),
            "infrequent": self.infrequent,
            "missing": self.missing,
        }

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> Vocabulary:
        """The vocabulary with these ``values``."""
        return cls(
            column=str(values["column"]),
            categories=tuple(map(str, values["categories"])),
            infrequent=bool(values["infrequent"]),
            missing=bool(values["missing"]),
        )


def category_counts(values: Iterable[Any]) -> Counter[str | None]:
    """Number of a client's training samples in each category; None counts missing values.

    Args:
        values: category of each sample; None or NaN where it is missing.
    """
    return Counter(_text(value) for value in values)


def vocabulary(
    counts: Sequence[Mapping[str | None, int]],
    column: str,
    *,
    min_frequency: int = 1,
    min_clients: int = 1,
    most: int = MOST_CATEGORIES,
    least_missing: float = LEAST_MISSING,
    unnamed: int = 0,
) -> Vocabulary:
    """The shared vocabulary of a column, from the counts of all clients.

    Args:
        counts: number of samples in each category, for each client (``category_counts``).
        column: name of the column.
        min_frequency: smallest pooled number of samples of a category with a feature.
        min_clients: smallest number of clients that have a category with a feature.
        most: largest number of categories with a feature.
        least_missing: missing values get a feature if a larger share of the pooled samples misses.
        unnamed: number of samples in categories whose names are not known; they are infrequent.

    Raises:
        DataError: no sample has a category, or there are more than ``most``.
        ConfigError: a smallest number is below 1.
    """
    for name, value in (("min_frequency", min_frequency), ("min_clients", min_clients)):
        positive(name, value)
    total: Counter[str | None] = Counter()
    clients: Counter[str | None] = Counter()
    for part in counts:
        total.update(part)
        clients.update(name for name, samples in part.items() if samples)
    samples = sum(total.values()) + unnamed
    missing = total.pop(None, 0)
    seen = [name for name, count in total.items() if name is not None and count]
    if not seen:
        raise DataError(
            f"column {column!r} has no value in any training sample; leave it out, such as with "
            f"drop = [{column!r}]"
        )
    frequent = sorted(
        name for name in seen if total[name] >= min_frequency and clients[name] >= min_clients
    )
    if len(frequent) > most:
        raise DataError(
            f"column {column!r} has {len(frequent)} categories, more than {most}, such as "
            f"{listed(frequent[:3])}. If it is an identifier, leave it out with drop = "
            f"[{column!r}]; otherwise raise min_frequency, so that rare ones share a feature"
        )
    return Vocabulary(
        column=column,
        categories=tuple(frequent),
        infrequent=len(frequent) < len(seen) or unnamed > 0,
        missing=missing > least_missing * samples,
    )


def _text(value: Any) -> str | None:
    """The name of a category; None for a missing value (None, NaN, pandas.NA)."""
    # Comparing pandas.NA with itself gives no boolean.
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return None
    return str(value)
