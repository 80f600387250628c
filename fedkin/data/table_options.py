"""The options of tables: columns that are left out, renamed and scaled."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.core.plain import plain_lists
from fedkin.core.storage import user_path
from fedkin.data.column_lists import column_list
from fedkin.data.fit_encoding import EncodingRules
from fedkin.data.partition_options import positive
from fedkin.data.table_scaling import TableScaling
from fedkin.data.table_transform import (
    NONE,
    RAW,
    RAW_VALUES,
    SCALES,
    STANDARD,
    TABLE_OPTIONS,
    TableTransform,
)

# The value of ``scale_from`` with which a table is read as it is, for ``table_sums``.
FOR_SUMS = {"kind": "sums"}


@dataclass(frozen=True)
class TableOptions:
    """What happens to the columns of a table when it is read.

    Attributes:
        scale: ``standard``, ``robust`` or ``none``.
        statistics: ``mean`` and ``scale`` of each column, if they are given; or a whole transform.
        drop: columns that are left out, by their new names.
        renamed: new name of each renamed column, by its name in the file.
        rules: how columns of categories get features.
    """

    scale: str = STANDARD
    statistics: Mapping[str, Any] | TableTransform | None = None
    drop: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    rules: EncodingRules = field(default_factory=EncodingRules)

    @classmethod
    def of(
        cls,
        scale: str | None = None,
        scale_from: Any = None,
        drop: Any = None,
        rename: Any = None,
        *,
        categories: Any = None,
        min_frequency: int | None = None,
        min_clients: int | None = None,
    ) -> TableOptions:
        """The options as the user gives them.

        Args:
            scale: one of ``SCALES``; None for ``standard``.
            scale_from: statistics by column, or the path of a JSON or TOML file with them;
                ``FOR_SUMS`` to read all values for ``table_sums``.
            drop: a column, or a list of columns.
            rename: new names by old names.
            categories: a column of numbers that are categories, or a list of such columns.
            min_frequency, min_clients: smallest numbers of training samples and of clients of a
                category with a feature; None for the defaults.

        Raises:
            ConfigError: an option has an invalid value, or options contradict each other.
        """
        if scale is not None and scale not in SCALES:
            raise ConfigError(
                f"{unknown('value of scale', str(scale), SCALES)}; for example scale = 'robust'"
            )
        if scale is not None and scale_from is not None:
            raise ConfigError(
                f"scale = {scale!r} computes statistics, or uses none, but scale_from gives them; "
                "leave one of the two out"
            )
        rules = _rules(categories, min_frequency, min_clients)
        if scale_from == FOR_SUMS:
            scale = RAW
            scale_from = None
            rules = replace(rules, min_frequency=1, min_clients=1, keeps_all=True)
        return cls(
            scale=STANDARD if scale is None else scale,
            statistics=_statistics(scale_from),
            drop=tuple(map(str, column_list("drop", drop, "['row_id']"))),
            renamed=_renamed(rename),
            rules=rules,
        )

    def file_name(self, name: str) -> str:
        """The name of a column in the file, from its name after renaming."""
        return {new: old for old, new in self.renamed.items()}.get(name, name)

    def rename(self, table: Any, place: Path | str) -> Any:
        """A DataFrame with renamed columns.

        Args:
            table: the DataFrame; it needs no rows.
            place: file or name with which messages begin.

        Raises:
            DataError: a column does not exist, or there is one with its new name already.
        """
        if not self.renamed:
            return table
        names = [str(name) for name in table.columns]
        for old in self.renamed:
            if old not in names:
                raise DataError(f"{place}: rename: {unknown('column', old, names)}")
        new_names = [self.renamed.get(name, name) for name in names]
        for old, new in self.renamed.items():
            if new_names.count(new) > 1:
                raise DataError(
                    f"{place}: rename: {old!r} cannot become {new!r}, because there is a column "
                    f'{new!r} already; choose another name: rename = {{{old} = "{new}_2"}}'
                )
        new = {name: self.renamed.get(str(name), name) for name in table.columns}
        return table.rename(columns=new)

    def dropped(self, table: Any, used: Sequence[Any], place: Path | str) -> tuple[Any, ...]:
        """The columns that are left out, as the table names them.

        Args:
            table: a DataFrame with renamed columns; it needs no rows.
            used: columns with another role; None for a role that no column has.
            place: file or name with which messages begin.

        Raises:
            DataError: a column does not exist.
            ConfigError: a column is needed as label, client, split or feature.
        """
        by_text = {str(name): name for name in table.columns}
        used_names = {str(name) for name in used if name is not None}
        for name in self.drop:
            if name not in by_text:
                raise DataError(f"{place}: drop: {unknown('column', name, by_text)}")
            if name in used_names:
                raise ConfigError(
                    f"{place}: drop: column {name!r} is named as the label, the client, the split "
                    "or a feature, too; leave it out of one of the two options"
                )
        return tuple(by_text[name] for name in self.drop)

    def scaling(self) -> TableScaling:
        """How the feature columns are scaled."""
        return TableScaling(self.scale, self.statistics, self.renamed, self.rules)


def refuse_table_options(what: str, place: Path | str, options: Mapping[str, Any]) -> None:
    """Raise ConfigError for options of tables if the data are no table.

    Args:
        what: the kind of the data, for the message.
        place: file or name with which the message begins.
        options: values of the options; None if not given.
    """
    for name in TABLE_OPTIONS:
        value = options.get(name)
        if value is None or (name == "scale" and value == NONE):
            continue
        raise ConfigError(
            f"{place}: {name} = {value!r} applies to the columns of a table (.csv, .parquet or a "
            f"DataFrame), but this is {what}; leave it out, and prepare the values beforehand: "
            "x = (x - x.mean(axis=0)) / x.std(axis=0)"
        )


def _statistics(given: Any) -> Mapping[str, Any] | TableTransform | None:
    """Statistics for scaling, from a table of numbers or from a file."""
    if given is None or isinstance(given, TableTransform):
        return given
    if isinstance(given, (str, Path)):
        path = user_path(given)
        return whole_transform(read_statistics(path), path)
    if isinstance(given, Mapping) and given.get("kind") == RAW:
        return RAW_VALUES
    if isinstance(given, Mapping):
        return whole_transform(
            {name: plain_lists(value) for name, value in given.items()}, "scale_from"
        )
    raise ConfigError(
        "scale_from must be the path of a file, or numbers by column, such as scale_from = "
        f"{{mean = {{age = 50.0}}, scale = {{age = 12.0}}}}, got {given!r}"
    )


def whole_transform(values: Mapping[str, Any], place: Any) -> Mapping[str, Any] | TableTransform:
    """Statistics as a transform if they have the encoding of a table, such as those of a run folder
    or of `fedkin data join`; otherwise as they are.

    Args:
        values: the statistics.
        place: file or name with which the message begins.

    Raises:
        ConfigError: the encoding is damaged.
    """
    if "encoding" not in values:
        return values
    try:
        return TableTransform.of_values(values)
    except ValueError as error:
        raise ConfigError(
            f"{place}: the encoding of the columns is damaged ({error}); copy transform.json of "
            "the run's folder again"
        ) from error


def _rules(categories: Any, min_frequency: Any, min_clients: Any) -> EncodingRules:
    """How columns of categories get features."""
    for name, value in (("min_frequency", min_frequency), ("min_clients", min_clients)):
        if value is not None:
            positive(name, value)
    default = EncodingRules()
    return EncodingRules(
        categories=tuple(map(str, column_list("categories", categories, "['month']"))),
        min_frequency=default.min_frequency if min_frequency is None else min_frequency,
        min_clients=default.min_clients if min_clients is None else min_clients,
    )


def read_statistics(path: Path) -> Mapping[str, Any]:
    """The statistics in a JSON or TOML file, such as ``transform.json`` of a run folder."""
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        if not isinstance(values, dict):
            raise ValueError("it holds no table of values")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"scale_from: {path} cannot be read ({error}); name a JSON or TOML file with mean and "
            "scale of each column, such as runs/one/transform.json"
        ) from error
    return values


def _renamed(given: Any) -> dict[str, str]:
    """The new names of columns, by their old names."""
    if given is None:
        return {}
    is_table = isinstance(given, Mapping) and all(isinstance(new, str) for new in given.values())
    if not is_table:
        raise ConfigError(
            f"rename must be new names by old names, such as {{years = 'age'}}, got {given!r}"
        )
    return {str(old): new for old, new in given.items()}
