"""Federated data from a table with a column of texts, for pretrained networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.storage import user_path
from fedkin.data.client_ids import client_ids
from fedkin.data.column_checks import check_columns
from fedkin.data.federated import FederatedData
from fedkin.data.file_samples import SPLIT
from fedkin.data.files import Table, read_table
from fedkin.data.partition_options import PartitionOptions, checked, own_partition
from fedkin.data.split_column import train_share
from fedkin.data.tokenizer import Tokenizer
from fedkin.data.user_samples import OwnSamples

_TRAIN = 0.8  # each client's share of training samples, if the table has no split


@checked
def texts(
    path: Any,
    *,
    text: str,
    label: str,
    tokenizer: Any,
    client: str | None = None,
    length: int | None = None,
    partition: str | None = None,
    clients: int | None = None,
    classes_per_client: int | None = None,
    alpha: float | int | None = None,
    min_samples: int | None = None,
    train_fraction: float | int = _TRAIN,
    label_names: Sequence[str] | None = None,
    seed: int = 0,
) -> FederatedData:
    """A federation of texts as token numbers, for ``fk.lora``.

    Args:
        path: a table with a row for each text: a file (.csv, .tsv, .parquet) or a DataFrame. A
            column ``split`` with ``train``, ``test`` and ``validation`` divides the samples.
        text: column of the texts.
        label: column of the labels.
        tokenizer: folder of a Hugging Face model, with ``tokenizer.json`` and ``config.json``; or a
            backbone of ``fk.models.from_transformers``.
        client: column with the client of each text. Give either this or a partition.
        length: number of tokens L of every text; longer texts are cut, and a warning says how many.
            None: enough for 95% of the texts, rounded up to a multiple of 8, and a warning only if
            more than 5% are cut.
        partition, clients, classes_per_client, alpha, min_samples: how to divide the texts over
            clients by their labels, as in ``fk.data.from_arrays``.
        train_fraction: each client's share of training samples, if there is no column ``split``.
        label_names: names of the classes 0, 1, ..; None for the text that occurs.
        seed: seed of partition and split.

    Returns:
        The federation: x are token numbers, int32 [M, L].

    Raises:
        DataError: a column is missing, or a text is empty or no text.
        ConfigError: ``client`` and ``partition`` are both given or both missing, or the length is
            above the tokenizer's.
    """
    options = own_partition(
        partition=partition,
        clients=clients,
        classes_per_client=classes_per_client,
        alpha=alpha,
        min_samples=min_samples,
    )
    _check_source(client, options)
    place, table = _table(path, client)
    split = SPLIT if SPLIT in table else None
    fraction = 1 if split is not None else train_fraction
    return text_federation(
        table,
        place,
        columns=_columns(text, label, client),
        split=split,
        reader=token_reader(tokenizer),
        length=length,
        label_names=label_names,
        options=options,
        fraction=fraction,
        seed=seed,
    )


@dataclass(frozen=True)
class FrameOfTexts:
    """The arguments of ``fk.data.from_pandas`` that apply to texts.

    Attributes:
        frame: a DataFrame.
        text, label, tokenizer, client, length, label_names: as for ``texts``.
        partition, num_clients, classes_per_client, alpha, min_samples, test, seed: as for
            ``from_pandas``.
        name: name of the data.
    """

    frame: Any
    text: str
    label: str
    tokenizer: Any
    client: str | None
    length: int | None
    partition: str | None
    num_clients: int | None
    classes_per_client: int | None
    alpha: float | int | None
    min_samples: int | None
    test: Any
    label_names: Sequence[str] | None
    name: str
    seed: int

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> FrameOfTexts:
        """Those of all arguments that apply to texts.

        Args:
            arguments: the arguments of ``from_pandas`` by name.

        Raises:
            ConfigError: another option is set, or the column of texts or the tokenizer is missing.
        """
        of_text = {name: arguments[name] for name in ("tokenizer", "length")}
        check_text(arguments["text"], of_text, arguments["features"])
        applying = {field.name: arguments[field.name] for field in fields(cls)}
        for name, value in arguments.items():
            if value is not None and name not in applying:
                raise ConfigError(f"{name} does not apply to texts; leave out {name}={value!r}")
        return cls(**applying)

    def federation(self) -> FederatedData:
        """The federation. Raises DataError and ConfigError as ``texts`` does."""
        options = own_partition(
            partition=self.partition,
            clients=self.num_clients,
            classes_per_client=self.classes_per_client,
            alpha=self.alpha,
            min_samples=self.min_samples,
        )
        _check_source(self.client, options)
        by_column = isinstance(self.test, str)
        return text_federation(
            self.frame,
            self.name,
            columns=_columns(self.text, self.label, self.client),
            split=self.test if by_column else None,
            reader=token_reader(self.tokenizer),
            length=self.length,
            label_names=self.label_names,
            options=options,
            fraction=1 if by_column else train_share(self.test),
            seed=self.seed,
        )


def _check_source(client: str | None, options: PartitionOptions | None) -> None:
    """Raise ConfigError unless either a column or a partition divides texts among clients."""
    if (client is None) == (options is None):
        raise ConfigError(
            "give either client (the column with the client of each text) or partition and "
            f"clients; got {'neither' if options is None else 'both'}"
        )


def _columns(text: str, label: str, client: str | None) -> dict[str, str]:
    """The columns of a table by their role; without a column of clients, that role is missing."""
    columns = {"text": text, "label": label}
    if client is not None:
        columns["client"] = client
    return columns


def text_federation(
    table: Table,
    place: Path | str,
    *,
    columns: dict[str, str],
    split: str | None,
    reader: Tokenizer,
    length: int | None,
    label_names: Sequence[str] | None,
    options: PartitionOptions | None,
    fraction: float | int,
    seed: int,
) -> FederatedData:
    """A federation of the texts in a table.

    Args:
        table: a DataFrame.
        place: its file, or the name of the data.
        columns: its columns by their role: text, label, and client if it has one.
        split: its column that says which samples are for tests; None without one.
        reader: the tokenizer.
        length, label_names, seed: as for ``texts``.
        options: the partition; None if a column has the clients.
        fraction: each client's share of training samples.

    Raises:
        DataError: a column is missing, or a text is empty or no text.
        ConfigError: the length is above the tokenizer's.
    """
    known = list(columns.values())
    check_columns(table, known if split is None else [*known, split], place)
    text = columns["text"]
    client = columns.get("client")
    owners = None if client is None else client_ids(table[client].to_numpy(), place, client)
    samples = OwnSamples(
        place=place,
        title=place.stem if isinstance(place, Path) else place,
        x=reader.tokens(checked_texts(table[text], place, text), length, place),
        labels=table[columns["label"]].to_numpy(),
        owners=owners,
        split=None if split is None else table[split].to_numpy(),
        label_names=None if label_names is None else tuple(label_names),
        integers=True,
        columns=columns,
    )
    return replace(samples.federation(options, fraction, seed), tokenizer=reader.digest)


def token_reader(tokenizer: Any) -> Tokenizer:
    """The tokenizer of a backbone, or in a folder of a Hugging Face model."""
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    own = getattr(tokenizer, "tokenizer", None)
    return own if isinstance(own, Tokenizer) else Tokenizer.from_folder(tokenizer)


def _table(path: Any, client: str | None) -> tuple[Path | str, Table]:
    """The name of the source in messages, and the table."""
    if hasattr(path, "columns"):
        return "frame", path
    file = user_path(path)
    return file, read_table(file, client)


def check_text(text: str | None, of_text: dict[str, Any], features: Any) -> None:
    """Raise ConfigError for options of texts without a column of texts, or the other way round.

    Args:
        text: the column of texts; None without one.
        of_text: options of texts by name, among them ``tokenizer``.
        features: the columns of features, if the user names them.
    """
    if text is None:
        for name, value in of_text.items():
            if value is not None:
                raise ConfigError(f"{name} applies to texts; name their column: text='remark'")
        return
    if features is not None:
        raise ConfigError(
            f"text={text!r} is the only column that is read; leave out features={features!r}"
        )
    if of_text["tokenizer"] is None:
        raise ConfigError(
            "text needs tokenizer=: a local folder of a Hugging Face model, or a backbone of "
            "fk.models.from_transformers"
        )


def checked_texts(column: Any, place: Path | str, name: str) -> list[str]:
    """The texts of a column.

    Args:
        column: a column of a DataFrame.
        place: file or name with which error messages begin.
        name: name of the column.

    Raises:
        DataError: an entry is missing or no text.
    """
    found = column.tolist()
    for row, entry in enumerate(found):
        if not isinstance(entry, str) or not entry.strip():
            raise DataError(
                f"{place}: the text in row {row} of column {name!r} is {entry!r}; leave out rows "
                "without a text"
            )
    return found
