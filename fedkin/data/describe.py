"""Statistics of a federation: the samples and labels of its clients, as a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Int

from fedkin.core.display import listed
from fedkin.data.federated import FederatedData


def table(data: FederatedData) -> pd.DataFrame:
    """Statistics of a federation: one row per quantity (its index), a column per split: train,
    test, and validation where there is one."""
    columns = {split: _statistics(data, split) for split in data.splits}
    return pd.DataFrame(columns).rename_axis(data.name)


def _statistics(data: FederatedData, split: str) -> dict[str, str]:
    sizes = data.part(split).sizes
    counts = data.label_counts(split)
    by_class = counts.sum(axis=0)
    statistics = {
        "clients": f"{data.clients:,}",
        "clients without samples": f"{int((sizes == 0).sum()):,}",
        "samples": f"{int(sizes.sum()):,}",
        "samples owned more than once": f"{int(sizes.sum()) - len(np.unique(data.part(split).rows)):,}",
        "samples per client, min / median / mean / max": _spread(sizes, mean=True),
        "classes": f"{int((by_class > 0).sum())} of {data.classes}",
        **({} if data.label_names is None else {"labels": listed(data.label_names)}),
        "classes per client, min / median / max": _spread((counts > 0).sum(axis=1)),
        "samples per class, min / median / max": _spread(by_class),
        **(_text_statistics(data, data.vocabulary, split) if data.vocabulary else _features(data)),
    }
    if data.true_clusters is not None:
        statistics["clients per true cluster"] = ", ".join(
            map(str, np.bincount(data.true_clusters))
        )
    return statistics


def _features(data: FederatedData) -> dict[str, str]:
    return {"features": " x ".join(map(str, data.x.shape[1:]))}


def _text_statistics(
    data: FederatedData, vocabulary: tuple[str, ...], split: str
) -> dict[str, str]:
    """Statistics of text."""
    unit = "words" if max(map(len, vocabulary), default=0) > 1 else "characters"
    statistics = {f"length of a sample, in {unit}": f"{data.x.shape[1]:,}"}
    if vocabulary[0] == "":  # padding, and words that are not in the vocabulary
        known = np.count_nonzero(data.x[np.unique(data.part(split).rows)], axis=1)
        statistics["known words of a sample, min / median / mean / max"] = _spread(known, mean=True)
    statistics[f"{unit} in the vocabulary"] = f"{len(vocabulary) - (vocabulary[0] == ''):,}"
    statistics["word vectors"] = (
        "none" if data.vectors is None else f"{data.vectors.shape[1]:,} numbers each"
    )
    return statistics


def _spread(values: Int[np.ndarray, "_"], mean: bool = False) -> str:
    numbers = [values.min(), np.median(values), *([values.mean()] if mean else []), values.max()]
    return " / ".join(f"{number:,.1f}".removesuffix(".0") for number in numbers)
