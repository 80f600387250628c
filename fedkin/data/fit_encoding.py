"""Decides how the raw columns of a table become features, from sums and counts of all clients'
training samples."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import DataError, unknown
from fedkin.core.object_repr import client_list, count, listed
from fedkin.data.array_checks import row_blocks
from fedkin.data.categories import MOST_CATEGORIES, Vocabulary, category_counts, vocabulary
from fedkin.data.column_kinds import CATEGORY, category_names, kind_of
from fedkin.data.missing_values import (
    LEAST_MISSING,
    PresentSums,
    absent_columns,
    imputation,
)
from fedkin.data.ragged import Ragged
from fedkin.data.raw_tables import CELL_BYTES, RawTable
from fedkin.data.table_encoding import TableEncoding, encoded, encoded_names

_log = logging.getLogger("fedkin")
Counts = list[Counter[str | None]]  # of the categories of a column, for each client


@dataclass(frozen=True)
class EncodingRules:
    """How columns of categories get features.

    Attributes:
        categories: columns of numbers that are categories; columns of text always are.
        min_frequency: a category with fewer training samples is infrequent.
        min_clients: a category that fewer clients have is infrequent.
        keeps_all: whether every category, and every column that misses a value or has none, is
            kept, so that sums of the features are those of the table.
    """

    categories: tuple[str, ...] = ()
    min_frequency: int = 10
    min_clients: int = 2
    keeps_all: bool = False

    @property
    def least_missing(self) -> float:
        """A column gets an indicator if a larger share of its training values is missing."""
        return 0.0 if self.keeps_all else LEAST_MISSING


def fitted_encoding(
    table: RawTable,
    train: Ragged,
    rules: EncodingRules,
    client_names: Sequence[str] | None = None,
) -> TableEncoding:
    """The encoding of a table.

    Args:
        table: the raw columns.
        train: the training samples of each client, as rows of the table.
        rules: how columns of categories get features.
        client_names: names of the clients, for messages; None: their numbers.

    Raises:
        DataError: a column holds dates, has no value, or has too many categories, or the features
            of two columns have one name; the message names the column and the cure.
    """
    place = table.place
    if not len(train.rows):
        raise DataError(f"{place}: no client has a training sample")
    columns = [str(name) for name in table.features]
    for name in rules.categories:
        if name not in columns:
            raise DataError(f"{place}: categories: {unknown('column', name, columns)}")
    owner = train.owner_of_rows(table.shape[0])
    vocabularies = {
        name: vocabulary_of(counts, name, rules=rules, place=place)
        for name, counts in _category_counts(table, owner, len(train), rules).items()
    }
    names = encoded_names(columns, vocabularies)
    sums = _present_sums(table, owner, clients=len(train), vocabularies=vocabularies)
    try:
        filling = imputation(sums, names, rules.least_missing, allow_empty=rules.keeps_all)
    except DataError as error:
        raise DataError(f"{place}: {error}") from error
    for name, clients in absent_columns(sums, names).items():
        _log.warning(
            "%s: column %s is missing in all training rows of %d %s (%s), which get the mean of "
            "the others; its indicator acts as an intercept of these clients",
            place,
            name,
            len(clients),
            "client" if len(clients) == 1 else "clients",
            client_list(clients, client_names),
        )
    encoding = TableEncoding(tuple(columns), vocabularies, filling)
    check_feature_names(encoding, place)
    return encoding


def check_feature_names(encoding: TableEncoding, place: Path | str) -> None:
    """Raise DataError if the features of two columns have one name, such as those of category b_c
    of column a, and of category c of column a_b.

    Args:
        encoding: the encoding of a table.
        place: file or name with which the message begins.
    """
    columns: dict[str, str] = {}
    for feature, column in zip(encoding.names, encoding.sources, strict=True):
        other = columns.setdefault(feature, column)
        if other == column:
            continue
        raise DataError(
            f"{place}: columns {other!r} and {column!r} would both have a feature named "
            f"{feature!r} (a category is named COLUMN_CATEGORY, a missing value COLUMN_missing); "
            f'rename one of them: rename = {{{json.dumps(column)} = "other"}}'
        )


def _category_counts(
    table: RawTable, owner: Int[np.ndarray, "M"], clients: int, rules: EncodingRules
) -> dict[str, Counts]:
    """The categories of each column that has some, with the number of training samples of each
    client."""
    found: dict[str, Counts] = {}
    for name in _columns_of_categories(table, rules):
        found[name] = [Counter() for _ in range(clients)]
    if not found:
        return found
    for rows in row_blocks(table.shape[0], table.shape[1] * CELL_BYTES):
        frame: Any = table.frame(rows)
        owners = owner[rows]
        for name, column in frame.items():
            if str(name) not in found:
                continue
            names = np.array(category_names(column), object)
            for client in np.unique(owners[owners >= 0]):
                found[str(name)][client].update(category_counts(names[owners == client]))
    return found


def _columns_of_categories(table: RawTable, rules: EncodingRules) -> list[str]:
    """The columns that are categories, in the order of the table.

    All blocks are read before samples are counted, since a column may have empty cells or numbers
    in its first blocks, and text in a later one.
    """
    categories = set(rules.categories)
    for rows in row_blocks(table.shape[0], table.shape[1] * CELL_BYTES):
        frame: Any = table.frame(rows)
        for name, column in frame.items():
            if kind_of(column, str(name), table.place, rows.start) == CATEGORY:
                categories.add(str(name))
    return [str(name) for name in table.features if str(name) in categories]


def vocabulary_of(
    counts: Counts, column: str, *, rules: EncodingRules, place: Path | str, unnamed: int = 0
) -> Vocabulary:
    """The vocabulary of a column.

    Args:
        counts: the categories of the column, with the number of training samples of each client.
        column: name of the column.
        rules: which categories get a feature.
        place: file or name with which messages begin.
        unnamed: number of samples in categories whose names are not known.

    Raises:
        DataError: the column identifies samples or clients, has too many categories, or only ones
            whose names are not known.
    """
    total = sum(counts, Counter())
    total.pop(None, None)
    samples = sum(total.values())
    cure = f"leave it out: data.drop={column}"
    if len(total) > MOST_CATEGORIES and len(total) > samples / 2:
        raise DataError(
            f"{place}: column {column!r} has {len(total):,} categories in {samples:,} training "
            f"samples, such as {listed(sorted(map(str, total))[:3])}, so it looks like an "
            f"identifier or free text; {cure}"
        )
    if unnamed and not total:
        raise DataError(
            f"{place}: column {column!r} has {unnamed:,} training samples in categories, but no "
            "site has named one of them; write the sums again with a lower --least, or "
            f"{cure}"
        )
    # With one client, no category can be in two.
    min_clients = min(rules.min_clients, sum(bool(part) for part in counts) or 1)
    try:
        found = vocabulary(
            counts,
            column,
            min_frequency=rules.min_frequency,
            min_clients=min_clients,
            most=max(MOST_CATEGORIES, len(total)) if rules.keeps_all else MOST_CATEGORIES,
            least_missing=rules.least_missing,
            unnamed=unnamed,
        )
    except DataError as error:
        raise DataError(f"{place}: {error}") from error
    if not found.categories:
        raise DataError(
            f"{place}: column {column!r} has {count(len(total), 'category', 'categories')}, such "
            f"as {listed(sorted(map(str, total))[:3])}, but none with {rules.min_frequency} "
            f"training samples in {count(min_clients, 'client')}; if it identifies samples or "
            f"clients, {cure}; otherwise lower data.min_frequency or data.min_clients"
        )
    return found


def _present_sums(
    table: RawTable,
    owner: Int[np.ndarray, "M"],
    clients: int,
    vocabularies: Mapping[str, Vocabulary],
) -> PresentSums:
    """The sums of each client's training samples over the encoded columns."""
    columns = [str(name) for name in table.features]
    width = len(encoded_names(columns, vocabularies))
    samples = np.bincount(owner[owner >= 0], minlength=clients)
    present = np.zeros((clients, width), np.int64)
    total = np.zeros((clients, width))
    for rows in row_blocks(table.shape[0], table.shape[1] * CELL_BYTES):
        frame: Any = table.frame(rows)
        numbers = encoded(
            frame.set_axis(columns, axis=1),
            columns,
            vocabularies,
            place=table.place,
            start=rows.start,
            clients=table.clients,
        )
        owners = owner[rows]
        mine = owners >= 0
        missing = np.isnan(numbers[mine])
        np.add.at(present, owners[mine], ~missing)
        np.add.at(total, owners[mine], np.where(missing, 0.0, numbers[mine]))
    return PresentSums(samples=samples, present=present, total=total)
