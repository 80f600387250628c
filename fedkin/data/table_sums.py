"""Sums over the columns of sites' tables, from which all sites encode and scale their tables in the
same way.

Each site writes a file with the sums of its training samples (``table_sums``). Whoever has the
files of all sites joins them (``joined``). The result is the transform that a federation would fit
on all tables in one place, up to rounding. Nothing but the file leaves a site.

Sums of few samples say much about each: those of a client with one training sample are its row
(``TableSums.small_clients``). The names of categories are data, too. A site can keep the names of
rare ones (``TableSums.without_rare_names``); they are then infrequent for all sites.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from fedkin.core.columns import columns_of_split
from fedkin.core.errors import ConfigError, DataError
from fedkin.core.object_repr import listed
from fedkin.core.storage import write_atomic
from fedkin.data.federated import FederatedData
from fedkin.data.fit_encoding import EncodingRules, check_feature_names, vocabulary_of
from fedkin.data.missing_values import PresentSums, imputation
from fedkin.data.partition_options import positive
from fedkin.data.table_encoding import TableEncoding, encoded_names
from fedkin.data.table_scaling import scales_of
from fedkin.data.table_transform import RAW, STANDARD, TableTransform
from fedkin.measures.moments import Moments, above_rounding
from fedkin.task_types.forecast import Forecast

_VERSION = 1
# The sums of fewer training samples say much about each of them.
LEAST_SAMPLES = 6
_ALL_SITES = "the tables of all sites"  # with which messages begin


@dataclass(frozen=True)
class NumberSums:
    """The present values of a column of numbers.

    Attributes:
        present: number of values.
        mean: their mean; 0 without values.
        squares: sum of their squared differences from this mean.
    """

    present: int
    mean: float
    squares: float


@dataclass(frozen=True)
class ClientColumns:
    """The columns of one client's training samples.

    Attributes:
        samples: number of training samples.
        numbers: sums of each column of numbers, by name.
        categories: number of samples in each category, for each column of categories by name.
        unnamed: number of samples in categories whose names the site keeps, by column.
    """

    samples: int
    numbers: Mapping[str, NumberSums]
    categories: Mapping[str, Mapping[str, int]]
    unnamed: Mapping[str, int]

    def counts(self, column: str) -> Counter[str | None]:
        """The samples of a column of categories; None counts missing values."""
        named = self.categories.get(column, {})
        known = sum(named.values()) + self.unnamed.get(column, 0)
        missing = self.samples - known
        return Counter({**named, None: missing} if missing else named)


class ColumnFacts(NamedTuple):
    """A line about a column: its name, whether it has numbers or categories, the number of missing
    values, and what a file of sums says about it."""

    column: str
    kind: str
    missing: int
    content: str


@dataclass(frozen=True)
class TableSums:
    """What a site tells about the columns of its table.

    Attributes:
        columns: names of the raw columns, after renaming.
        renamed: new name of each renamed column, by its name in the file.
        clients: the columns of each client of the site.
    """

    columns: tuple[str, ...]
    renamed: Mapping[str, str]
    clients: tuple[ClientColumns, ...]

    def without_rare_names(self, least: int) -> TableSums:
        """The sums without the names of categories that the site has in fewer than ``least``
        training samples. These samples are counted together. Raises ConfigError if that number is
        below 1."""
        positive("least", least)
        total: dict[str, Counter[str]] = {}
        for client in self.clients:
            for column, named in client.categories.items():
                total.setdefault(column, Counter()).update(named)
        frequent = {
            column: {name for name, count in counts.items() if count >= least}
            for column, counts in total.items()
        }
        return replace(
            self, clients=tuple(_named_only(client, frequent) for client in self.clients)
        )

    @property
    def small_clients(self) -> int:
        """Number of clients with so few training samples that the sums say much about each."""
        return sum(0 < client.samples < LEAST_SAMPLES for client in self.clients)

    def facts(self) -> list[ColumnFacts]:
        """What the sums tell about each column of all clients together, in words."""
        samples = sum(client.samples for client in self.clients)
        return [self._facts_of(column, samples) for column in self.columns]

    def _facts_of(self, column: str, samples: int) -> ColumnFacts:
        """What the sums tell about a column."""
        if not any(column in client.categories for client in self.clients):
            sums = _pooled([client.numbers[column] for client in self.clients])
            words = "no value"
            if sums.present:
                deviation = float(np.sqrt(sums.squares / sums.present))
                words = f"mean {sums.mean:.5g}, standard deviation {deviation:.5g}"
            return ColumnFacts(column, "numbers", samples - sums.present, words)
        total: Counter[str | None] = Counter()
        for client in self.clients:
            total.update(client.counts(column))
        missing = total.pop(None, 0)
        parts = [f"{name} ({count})" for name, count in total.most_common()]
        unnamed = sum(client.unnamed.get(column, 0) for client in self.clients)
        if unnamed:
            parts.append(f"without a name ({unnamed})")
        return ColumnFacts(column, "categories", missing, ", ".join(parts))

    def save(self, path: Path) -> None:
        """Write the sums into a JSON file."""
        clients = [
            {
                "samples": client.samples,
                "numbers": {name: vars(sums) for name, sums in client.numbers.items()},
                "categories": {name: dict(named) for name, named in client.categories.items()},
                "unnamed": dict(client.unnamed),
            }
            for client in self.clients
        ]
        values = {
            "table_sums": _VERSION,
            "columns": list(self.columns),
            "renamed": dict(self.renamed),
            "clients": clients,
        }
        write_atomic(path, json.dumps(values, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> TableSums:
        """The sums in a file that ``save`` has written.

        Raises:
            ConfigError: the file cannot be read, or holds no sums.
        """
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values["table_sums"] != _VERSION:
                raise ValueError(f"version {values['table_sums']} is unknown")
            columns = tuple(map(str, values["columns"]))
            return cls(
                columns=columns,
                renamed={str(old): str(new) for old, new in values["renamed"].items()},
                clients=tuple(_client_of(client, columns) for client in values["clients"]),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{path}: expected the sums of a table ({error}); write them with `fedkin data "
                "sums TABLE.csv --out sums.json`"
            ) from error


def _client_of(values: Mapping[str, Any], columns: Sequence[str]) -> ClientColumns:
    """A client's columns, from values of a file. Raises ValueError for missing or impossible
    sums."""
    samples = int(values["samples"])
    numbers = {
        str(name): NumberSums(int(sums["present"]), float(sums["mean"]), float(sums["squares"]))
        for name, sums in values["numbers"].items()
    }
    categories = {
        str(name): {str(category): int(count) for category, count in named.items()}
        for name, named in values["categories"].items()
    }
    unnamed = {str(name): int(count) for name, count in values["unnamed"].items()}
    found = ClientColumns(samples, numbers=numbers, categories=categories, unnamed=unnamed)
    if sorted([*numbers, *categories]) != sorted(columns):
        raise ValueError("a client has the sums of other columns")
    for name, sums in numbers.items():
        is_finite = np.isfinite([sums.mean, sums.squares]).all()
        if not is_finite or sums.squares < 0 or not 0 <= sums.present <= samples:
            raise ValueError(f"the sums of column {name!r} are impossible")
    for name, named in categories.items():
        if min([*named.values(), found.counts(name)[None]]) < 0:
            raise ValueError(f"the counts of column {name!r} are impossible")
    return found


def _named_only(client: ClientColumns, frequent: Mapping[str, set[str]]) -> ClientColumns:
    """A client's columns without the names of other categories than the frequent ones."""
    categories = {
        column: {name: count for name, count in named.items() if name in frequent[column]}
        for column, named in client.categories.items()
    }
    unnamed = {
        column: client.unnamed.get(column, 0)
        + sum(named.values())
        - sum(categories[column].values())
        for column, named in client.categories.items()
    }
    return replace(client, categories=categories, unnamed=unnamed)


def table_sums(data: FederatedData) -> TableSums:
    """The sums of a site's table.

    Args:
        data: the site's data with all that its table has: read with ``scale_from = FOR_SUMS``
            (``fedkin.data.table_options``).

    Raises:
        DataError: the data are no table.
        ConfigError: the data are a forecast that is divided by no given date.
    """
    transform = data.transform
    if transform is None or transform.kind != RAW:
        raise DataError(
            f"{data.name}: sums of columns need a table (.csv or .parquet), whose columns have "
            "names"
        )
    if isinstance(data.task_type, Forecast) and not data.task_type.test_from:
        raise ConfigError(
            f"{data.name}: the sums are of training samples, and those of a forecast must end at "
            "one date at all sites; name it: test_from = '2019-01'"
        )
    return TableSums(
        columns=transform.inputs,
        renamed=transform.renamed,
        clients=tuple(
            _sums_of(columns_of_split(data, client, "train"), transform)
            for client in range(data.clients)
        ),
    )


def _sums_of(x: Float64[np.ndarray, "s f"], transform: TableTransform) -> ClientColumns:
    """The columns of a client, from features that hold all that the table has."""
    encoding = transform.encoding
    vocabularies = {} if encoding is None else encoding.vocabularies
    numbers: dict[str, NumberSums] = {}
    categories: dict[str, dict[str, int]] = {}
    indicators: dict[str, int] = {}
    if encoding is not None:
        first = len(encoding.imputation.columns)
        indicators = {name: first + k for k, name in enumerate(encoding.imputation.indicated)}
    place = 0
    for column in transform.inputs:
        if column in vocabularies:
            found = vocabularies[column]
            counts = x[:, place : place + len(found.categories)].sum(axis=0)
            categories[column] = {
                category: int(count)
                for category, count in zip(found.categories, counts, strict=True)
                if count
            }
            place += len(found.names)
            continue
        values = x[:, place]
        if column in indicators:
            values = values[x[:, indicators[column]] < 0.5]
        numbers[column] = _number_sums(values)
        place += 1
    return ClientColumns(
        samples=len(x),
        numbers=numbers,
        categories=categories,
        unnamed=dict.fromkeys(categories, 0),
    )


def _number_sums(values: Float64[np.ndarray, "s"]) -> NumberSums:
    """The sums of present values."""
    if not len(values):
        return NumberSums(0, 0.0, 0.0)
    mean = float(values.mean())
    return NumberSums(len(values), mean, float(((values - mean) ** 2).sum()))


def joined(
    sites: Sequence[TableSums],
    rules: EncodingRules | None = None,
    site_names: Sequence[str] | None = None,
) -> TableTransform:
    """The transform of all sites' tables: their shared categories, the means that fill missing
    values, and the scaling by mean and standard deviation.

    Args:
        sites: the sums of each site.
        rules: which categories get a feature; None for the defaults.
        site_names: names of the sites in messages, such as their files; None for site 1, site 2, ..

    Raises:
        ConfigError: sites have different columns, or a column has numbers at one site and text at
            another.
        DataError: a column has no value at any site, or too many categories, or the features of
            two columns have one name.
    """
    if not sites:
        raise ConfigError("expected the sums of at least one site")
    rules = EncodingRules() if rules is None else rules
    columns = sites[0].columns
    if site_names is None:
        site_names = [f"site {number}" for number in range(1, len(sites) + 1)]
    for name, site in zip(site_names, sites, strict=True):
        if site.columns != columns:
            raise ConfigError(
                f"the tables of {site_names[0]} and {name} have different columns: "
                f"{listed(columns)}; and {listed(site.columns)}. Name the columns that all have, "
                "in one order: features=a,b"
            )
    clients = [client for site in sites for client in site.clients]
    encoded_columns = _category_columns(clients, columns)
    vocabularies = {
        name: vocabulary_of(
            [client.counts(name) for client in clients],
            name,
            rules=rules,
            place=_ALL_SITES,
            unnamed=sum(client.unnamed.get(name, 0) for client in clients),
        )
        for name in encoded_columns
    }
    names = encoded_names(columns, vocabularies)
    numbers = [name for name in columns if name not in vocabularies]
    pooled = {name: _pooled([client.numbers[name] for client in clients]) for name in numbers}
    samples = sum(client.samples for client in clients)
    filling = imputation(_present(pooled, names, samples), names)
    encoding = TableEncoding(columns, vocabularies, filling)
    check_feature_names(encoding, _ALL_SITES)
    mean = np.array([pooled[name].mean if name in pooled else 0.0 for name in names])
    squares = np.array([pooled[name].squares if name in pooled else 0.0 for name in names])
    # Missing values become the mean, so they add nothing to the squares.
    scale = scales_of(above_rounding(mean, np.sqrt(squares / samples)))
    indicators = len(filling.indicated)
    return TableTransform(
        columns=encoding.names,
        kind=STANDARD,
        mean=(*mean.tolist(), *[0.0] * indicators),
        scale=(*scale.tolist(), *[1.0] * indicators),
        renamed=_renamed(sites),
        encoding=encoding,
    )


def _category_columns(clients: Sequence[ClientColumns], columns: Sequence[str]) -> list[str]:
    """The columns of categories, in the order of the table. Raises ConfigError for a column that
    has numbers at another site."""
    found = []
    for name in columns:
        if not any(name in client.categories for client in clients):
            continue
        if any(client.numbers[name].present for client in clients if name in client.numbers):
            raise ConfigError(
                f"column {name!r} has text at one site and numbers at another; name it in "
                f"categories at every site: categories={name}"
            )
        found.append(name)
    return found


def _renamed(sites: Sequence[TableSums]) -> dict[str, str]:
    """The new names that any site gives to columns of its file; the first site's if two differ."""
    renamed: dict[str, str] = {}
    for site in reversed(sites):
        renamed |= site.renamed
    return renamed


def _pooled(parts: Sequence[NumberSums]) -> NumberSums:
    """The sums of several clients together."""
    of_clients = Moments(
        count=np.array([part.present for part in parts]),
        mean=np.array([part.mean for part in parts]),
        squares=np.array([part.squares for part in parts]),
    )
    pooled = of_clients.pooled()
    return NumberSums(
        present=int(pooled.count[0]), mean=float(pooled.mean[0]), squares=float(pooled.squares[0])
    )


def _present(pooled: Mapping[str, NumberSums], names: Sequence[str], samples: int) -> PresentSums:
    """The sums of present values over the encoded columns. A column of a category has no missing
    value."""
    present = [pooled[name].present if name in pooled else samples for name in names]
    total = [pooled[name].present * pooled[name].mean if name in pooled else 0.0 for name in names]
    return PresentSums(
        samples=np.array([samples]), present=np.array([present]), total=np.array([total])
    )
