"""Computes the scaling of a table's columns from all clients' training samples, and warns of
columns that harm training.

Shapes: M samples, d columns.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int

from fedkin.core.object_repr import listed, shell_command
from fedkin.data.column_statistics import (
    ColumnStatistics,
    Converted,
    column_statistics,
    quantiles,
    taken_blocks,
)
from fedkin.data.features import Features
from fedkin.data.fit_encoding import EncodingRules, fitted_encoding
from fedkin.data.missing_values import imputation, present_sums
from fedkin.data.patient_columns import with_columns
from fedkin.data.ragged import Ragged
from fedkin.data.raw_tables import EncodedTable, RawTable
from fedkin.data.table_encoding import TableEncoding
from fedkin.data.table_transform import (
    GIVEN,
    NONE,
    RAW,
    ROBUST,
    STANDARD,
    TableTransform,
    given_transform,
)

# Scales that differ by more than this factor are worth a warning.
LARGEST_RATIO = 100
# In a smaller table the whole numbers of a column often differ by chance.
_IDENTIFIED = 50
_SHOWN = 8  # number of columns that a warning names
_log = logging.getLogger("fedkin")


@dataclass(frozen=True)
class TableScaling:
    """How to find the transform of a table's columns.

    Attributes:
        kind: ``standard``, ``robust``, ``none``, or ``raw`` for values in float64.
        statistics: given statistics; None to compute them.
        renamed: new name of each renamed column, by its name in the file.
        rules: how columns of categories get features.
    """

    kind: str
    statistics: Mapping[str, Any] | TableTransform | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    rules: EncodingRules = field(default_factory=EncodingRules)

    def encodes(self, is_complete: bool) -> bool:
        """Whether a table needs an encoding before its columns are scaled. With given statistics,
        only a given encoding is used.

        Args:
            is_complete: whether all columns are numbers without missing values.
        """
        if self.statistics is not None:
            return getattr(self.statistics, "encoding", None) is not None
        return not is_complete or bool(self.rules.categories)

    def encoded_table(
        self, table: RawTable, train: Ragged, client_names: Sequence[str] | None
    ) -> EncodedTable:
        """A raw table as complete numbers, by the given encoding or by one of the training samples.

        Args:
            table: the raw columns.
            train: the training samples of each client.
            client_names: names of the clients, for messages; None: their numbers.
        """
        if isinstance(self.statistics, TableTransform) and self.statistics.encoding is not None:
            return EncodedTable(table, self.statistics.encoding)
        return EncodedTable(table, fitted_encoding(table, train, self.rules, client_names))

    def transform_of(
        self, x: Features, train: Int[np.ndarray, "n"], columns: Sequence[str], place: Path | str
    ) -> TableTransform | None:
        """The transform of a table that may be encoded, with its encoding; None if the table stays
        as it is. Arguments as of ``transform``."""
        if not isinstance(x, EncodedTable):
            return self.transform(x, train, columns, place)
        found = self.transform(x, train, x.encoding.names, place, sources=x.encoding.sources)
        if found is None:
            found = TableTransform.identity(x.encoding.names, self.renamed)
            if self.statistics is not None:
                found = found.as_given()
        return _with_encoding(found, x.encoding)

    def transform(
        self,
        x: Features,
        train: Int[np.ndarray, "n"],
        columns: Sequence[str],
        place: Path | str,
        sources: Sequence[str] | None = None,
    ) -> TableTransform | None:
        """The transform of the columns; None if the table stays as it is.

        Statistics are computed from training samples only.

        Args:
            x: raw features [M, d] of all samples.
            train: the training samples of all clients, as rows of x.
            columns: names of the columns.
            place: file or name with which messages begin.
            sources: the column of the file from which each column was made, for warnings; None: the
                columns are those of the file.
        """
        if isinstance(self.statistics, TableTransform):
            if self.statistics.kind == NONE:
                # The caller keeps an encoding.
                return None
            own = self.statistics.of_columns(columns, place)
            if own.kind != RAW:
                return own.as_given()
            # Whether a column is constant is known only to all sites together.
            _warn_of_identifiers(x, _is_taken(x, train), columns, place)
            return _renaming(own, self.renamed)
        if self.statistics is not None:
            given = given_transform(self.statistics, columns, place)
            return _renaming(given, self.renamed)
        if self.kind == RAW:
            _warn_of_identifiers(x, _is_taken(x, train), columns, place)
            raw = replace(TableTransform.identity(columns), kind=RAW)
            return _renaming(raw, self.renamed)
        if not len(train):
            # The check of the federation names the client without training samples.
            return None
        taken = _is_taken(x, train)
        facts = column_statistics(x, taken)
        if not np.isfinite(facts.mean).all():
            # The check of all features names the row that is not finite.
            return None
        warn_of_columns(
            x, taken, facts=facts, columns=sources or columns, kind=self.kind, place=place
        )
        if self.kind == NONE:
            return TableTransform.identity(columns, self.renamed) if self.renamed else None
        fitted = _fitted(self.kind, x, taken=taken, columns=columns, facts=facts)
        return _renaming(fitted, self.renamed)


def raw_statistics(
    x: Any, train: Int[np.ndarray, "n"], transform: TableTransform | None
) -> ColumnStatistics:
    """Statistics of a table's columns over the training samples, before scaling.

    Args:
        x: features [M, d] of a federation.
        train: the training samples of all clients, as rows of x.
        transform: has scaled x; None if x are the numbers of the table.
    """
    raw = x if transform is None else Converted(x, transform.undo)
    facts = column_statistics(raw, _is_taken(x, train))
    if transform is None or transform.kind != STANDARD:
        return facts
    # The transform has the statistics of the file's numbers, which float32 has rounded. Features
    # that are 0 or 1 are not scaled, so it has no statistics of them.
    binary = np.zeros(len(facts.mean), bool)
    if transform.encoding is not None:
        binary = transform.encoding.is_binary
    deviation = np.where(facts.constant, 0, transform.scale)
    return facts._replace(
        mean=np.where(binary, facts.mean, transform.mean),
        deviation=np.where(binary, facts.deviation, deviation),
    )


def _is_taken(x: Any, rows: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "M"]:
    """Whether each sample is one of these rows."""
    taken = np.zeros(x.shape[0], bool)
    taken[rows] = True
    return taken


def scales_of(deviation: Float64[np.ndarray, "d"]) -> Float64[np.ndarray, "d"]:
    """The scale of each column: its standard deviation, or 1 for a constant column."""
    return np.where(deviation == 0, 1, deviation)


class Scaled(NamedTuple):
    """Features and the transform that has scaled them."""

    x: Any
    transform: TableTransform | None


def rescaled(x: Any, train: Int[np.ndarray, "n"], transform: TableTransform | None) -> Scaled:
    """Features of a table, scaled by its present training samples, after some of them have become
    validation samples. Given statistics, raw values and risk sets do not change.

    Args:
        x: features [M, d] that the transform has scaled.
        train: the training samples of all clients, as rows of x.
        transform: the transform of x; None if x are the numbers of the table.
    """
    if transform is None or not transform.released or transform.kind == RAW or x.ndim == 3:
        return Scaled(x, transform)
    raw: Any = Converted(x, transform.undo)
    taken = _is_taken(x, train)
    if transform.encoding is not None:
        return _encoded_again(raw, taken, transform, transform.encoding)
    facts = column_statistics(raw, taken)
    fitted = _fitted(transform.kind, raw, taken=taken, columns=transform.columns, facts=facts)
    after = _renaming(fitted, transform.renamed)
    return Scaled(converted(x, transform, after), after)


def _encoded_again(
    raw: Converted, taken: Bool[np.ndarray, "M"], before: TableTransform, encoding: TableEncoding
) -> Scaled:
    """Features of an encoded table, filled and scaled by the taken samples. Vocabularies and
    indicators stay, and so do the means of columns without an indicator.

    Args:
        raw: features before scaling.
        taken: which samples count.
        before: the transform of the features until now.
        encoding: its encoding.
    """
    indicated = encoding.imputation.indicated
    count = len(encoding.imputation.columns)
    places = [encoding.imputation.columns.index(name) for name in indicated]
    parts = [np.zeros((0, len(places)))]
    for block in taken_blocks(raw, taken):
        missing = block[:, count:] > 0.5
        parts.append(np.where(missing, np.nan, block[:, places]))
    means = imputation(present_sums(np.concatenate(parts)), indicated).mean
    encoding = encoding.with_means(dict(zip(indicated, means, strict=True)))
    by_column = dict(zip(indicated, means, strict=True))
    filled = encoding.refilled(raw[slice(None)], by_column)
    after = TableTransform.identity(before.columns, before.renamed)
    if before.kind != NONE:
        facts = column_statistics(filled, taken)
        after = _fitted(before.kind, filled, taken=taken, columns=before.columns, facts=facts)
        after = _renaming(after, before.renamed)
    after = _with_encoding(after, encoding)
    return Scaled(after.apply(filled), after)


def _with_encoding(transform: TableTransform, encoding: TableEncoding) -> TableTransform:
    """A transform with an encoding. Features that are 0 or 1 are not scaled: in units of its
    standard deviation, a rare category would be a large number."""
    if transform.kind == GIVEN:
        return replace(transform, encoding=encoding)
    binary = encoding.is_binary
    mean = np.where(binary, 0.0, transform.mean)
    scale = np.where(binary, 1.0, transform.scale)
    return replace(
        transform, mean=tuple(mean.tolist()), scale=tuple(scale.tolist()), encoding=encoding
    )


def converted(x: Any, before: TableTransform | None, after: TableTransform | None) -> Any:
    """Features that one transform has scaled, scaled by another one instead. They are unchanged if
    both transforms change values in the same way.

    Args:
        x: features [M, d], or risk sets [M, m, d + 1].
        before: the transform of x; None for raw values.
        after: the requested transform; None for raw values.
    """
    if before == after or (before is not None and before.equals(after)):
        return x
    if x.ndim == 3:
        return with_columns(x, lambda columns: converted(columns, before, after))
    raw = x if before is None else before.undo(x)
    return np.asarray(raw, np.float32) if after is None else after.apply(raw)


def with_transform(data: Any, transform: TableTransform) -> Any:
    """Federated data whose table is scaled by another transform.

    Args:
        data: the data; without names, their columns are in the transform's order.
        transform: the requested transform.
    """
    own = transform
    if data.feature_names is not None:
        own = transform.of_columns(data.feature_names, data.name)
    return replace(data, x=converted(data.x, data.transform, own), transform=own)


def _renaming(transform: TableTransform, renamed: Mapping[str, str]) -> TableTransform:
    """The transform, which also renames columns."""
    return replace(transform, renamed=dict(renamed))


def _fitted(
    kind: str,
    x: Features,
    taken: Bool[np.ndarray, "M"],
    columns: Sequence[str],
    facts: ColumnStatistics,
) -> TableTransform:
    """The transform whose statistics are computed from the taken samples.

    A column whose scale would be 0 has scale 1 if it is constant. If more than half of its values
    are equal, its interquartile range may be 0; its scale is then the standard deviation.
    """
    middle = facts.mean
    scale = facts.deviation
    if kind == ROBUST:
        lower, middle, upper = quantiles(x, taken, (0.25, 0.5, 0.75), facts)
        spread = upper - lower
        # Quantiles are exact to this share of the range.
        is_zero = spread <= 1e-9 * (facts.high - facts.low)
        scale = np.where(is_zero, facts.deviation, spread)
    scale = scales_of(scale)
    return TableTransform(
        columns=tuple(map(str, columns)),
        kind=kind,
        mean=tuple(middle.tolist()),
        scale=tuple(scale.tolist()),
    )


def warn_of_columns(
    x: Features,
    taken: Bool[np.ndarray, "M"],
    facts: ColumnStatistics,
    columns: Sequence[str],
    kind: str,
    place: Path | str,
) -> None:
    """Warn of columns that are constant or identify samples, and of unscaled columns whose standard
    deviations differ by more than a factor of 100.

    Args:
        x: raw features of all samples.
        taken: which of them are training samples.
        facts: statistics of the columns over the training samples.
        columns: names of the columns.
        kind: how the columns are scaled.
        place: file or name with which warnings begin.
    """
    if facts.count > 1 and facts.constant.any():
        constant = [name for name, same in zip(columns, facts.constant, strict=True) if same]
        _log.warning(
            "%s: %s the same value in all training samples, so nothing can be learned from it; "
            "leave it out: data.drop=%s",
            place,
            _columns_have(constant),
            _drop(constant),
        )
    _warn_of_identifiers(x, taken, columns, place=place, facts=facts)
    if kind == NONE:
        _warn_of_scales(facts.deviation, columns, place)


def _warn_of_identifiers(
    x: Features,
    taken: Bool[np.ndarray, "M"],
    columns: Sequence[str],
    place: Path | str,
    facts: ColumnStatistics | None = None,
) -> None:
    """Warn of columns that identify samples. ``facts`` are statistics of the columns over the taken
    samples; None to compute them."""
    if not taken.any():
        return
    identifiers = _identifiers(x, taken, facts or column_statistics(x, taken), columns)
    if identifiers:
        _log.warning(
            "%s: %s a different whole number in every training sample, as an identifier has, and "
            "may mislead every model; leave it out: data.drop=%s",
            place,
            _columns_have(identifiers),
            _drop(identifiers),
        )


def _warn_of_scales(
    deviation: Float64[np.ndarray, "d"], columns: Sequence[str], place: Path | str
) -> None:
    """Warn if the standard deviations of columns that are not scaled differ by more than a factor
    of 100."""
    varying = np.flatnonzero(deviation > 0)
    if len(varying) < 2:
        return
    largest = int(varying[deviation[varying].argmax()])
    smallest = int(varying[deviation[varying].argmin()])
    ratio = deviation[largest] / deviation[smallest]
    if ratio > LARGEST_RATIO:
        _log.warning(
            "%s: columns are not scaled, and the standard deviation of %s (%.3g) is %.3g times "
            "that in %s (%.3g), so %s dominates distances and gradients; scale all columns: "
            "data.scale=standard",
            place,
            columns[largest],
            deviation[largest],
            ratio,
            columns[smallest],
            deviation[smallest],
            columns[largest],
        )


def _identifiers(
    x: Features, taken: Bool[np.ndarray, "M"], facts: ColumnStatistics, columns: Sequence[str]
) -> list[str]:
    """The columns of whole numbers that differ in all training samples."""
    if facts.count < _IDENTIFIED:
        return []
    # Different whole numbers need a range of at least their count.
    wide = facts.whole & (facts.high - facts.low >= facts.count - 1)
    candidates = np.flatnonzero(wide)
    if not len(candidates):
        return []
    values = np.concatenate([block[:, candidates] for block in taken_blocks(x, taken)])
    return [
        str(columns[int(column)])
        for column, entries in zip(candidates, values.T, strict=True)
        if len(np.unique(entries)) == len(entries)
    ]


def _columns_have(names: Sequence[str]) -> str:
    """The beginning of a sentence about one or several columns."""
    if len(names) == 1:
        return f"column {names[0]} has"
    return f"each of the columns {listed(names)} has"


def _drop(names: Sequence[str]) -> str:
    """The value of the option ``drop`` that leaves columns out, as typed in a shell. It is cut off
    if there are many."""
    if len(names) == 1:
        return shell_command(names[0])
    shown = [json.dumps(name, ensure_ascii=False) for name in names[:_SHOWN]]
    more = [] if len(names) <= _SHOWN else ["..."]
    return f"'[{', '.join([*shown, *more])}]'"
