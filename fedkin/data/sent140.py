"""Sentiment140: tweets by user, positive or negative (Go, Bhayani, Huang 2009), as in LEAF (Caldas et al. 2018)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data import partition as recipes
from fedkin.data.download import Source, find
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.files import Table, reading
from fedkin.data.partition_options import checked, positive
from fedkin.data.text import worded

FILE = "training.1600000.processed.noemoticon.csv"
COLUMNS = ("polarity", "id", "date", "query", "user", "text")
NEEDED = ("polarity", "user", "text")
SENT140 = Source(
    "sent140",
    {FILE: None},
    folders=("Sent140", "sent140", "sentiment140"),
    help="Unpack trainingandtestdata.zip of help.sentiment140.com there, or say path=, the place of the CSV file",
)


@checked
def sent140(
    *,
    path: str | Path | None = None,
    fraction: float | int = 0.3,
    least: int = 30,
    clients: int | None = None,
    train_fraction: float | int = 0.8,
    length: int = 25,
    pad: str = "end",
    glove: str | Path | None = None,
    most: int | None = None,
    skip_bad: bool = False,
    seed: int = 0,
) -> FederatedData:
    """Sentiment140, one client per user: x [M, length] word numbers, y 1 for a positive tweet and 0 for a negative one.

    Filtered in LEAF's order, that of ``-s niid --sf 0.3 -k 30 -tf 0.8 -t sample``: whole users are drawn at random
    until ``fraction`` of all samples is reached; those with fewer than ``least`` samples go; of each user's samples,
    int(``train_fraction`` n) drawn at random train (at least one), the others test. The file has all negative tweets
    first, so a split in its order would test on positive ones only. ``clients`` keeps the first so many users, in the
    order of the draw. ``length``, ``pad``, ``glove`` and ``most`` are those of ``fedkin.data.text.worded``.

    It differs from LEAF: the draws are our own, so that the published file (772 users, 40,783 samples) is met in kind
    and not bit for bit; the last user is kept whole, where LEAF cuts it; LEAF's code keeps users with *more* than
    k samples (``least=31``), and adds the 498 tweets of the separate test file, neutral ones as negative.

    ``path`` is the original CSV (latin-1, no header: polarity 0 or 4, id, date, query, user, text), else searched for
    as training.1600000.processed.noemoticon.csv; or a CSV in UTF-8 with a header that has polarity, user and text.
    ``skip_bad`` drops rows without a user or a text, which are refused otherwise; a text without a token, such as
    ":-)", stays, as padding only. Raises DataError, naming the file, for these rows, for labels other than 0 and 4, and
    where no user is left; ConfigError for options that cannot be.
    """
    import pandas as pd

    _check_options(fraction, least, clients)
    file = Path(path) if path is not None else find(SENT140) / FILE
    table = _read(file)
    _check_labels(table, file)
    table = _complete(table, file, skip_bad)
    labels = (table["polarity"] == "4").to_numpy(np.int64)
    codes, names = pd.factorize(table["user"])
    chosen, owned = _drawn(np.asarray(codes), fraction, least, Stream(seed, purpose="data/users"))
    chosen, owned = _first(chosen, owned, clients, least, file)
    mine = Ragged(np.arange(len(owned.rows)), owned.offsets)
    train, test = recipes.split(mine, Stream(seed, purpose="data/split"), train_fraction)
    texts = table["text"].to_numpy(object)[owned.rows].tolist()
    words = worded(texts, train.rows, length=length, glove=glove, pad=pad, most=most)
    return FederatedData(
        "sent140",
        words.x,
        labels[owned.rows],
        2,
        train,
        test,
        client_names=tuple(str(names[user]) for user in chosen),
        vocabulary=words.vocabulary,
        vectors=words.vectors,
    )


def _check_options(fraction: float | int, least: int, clients: int | None) -> None:
    if not 0 < fraction <= 1:
        raise ConfigError(f"fraction must be in (0, 1], got {fraction}")
    positive("least", least)
    if clients is not None:
        positive("clients", clients)


def _read(path: Path) -> Table:
    """Polarity, user and text of every row, all as text: "NA" and "null" are names and tweets, not gaps."""
    import pandas as pd

    with reading(path, "the CSV file of Sentiment140"):
        form = _form(path)  # all columns are read: told to use some, pandas would cut a row of too many fields
        table = pd.read_csv(path, dtype=str, keep_default_na=False, index_col=False, **form)
    return pd.DataFrame({name: table[name].fillna("") for name in NEEDED})  # NaN: a row that is cut off


def _form(path: Path) -> dict[str, Any]:
    """How pandas shall read the file, by its first row."""
    import pandas as pd

    first = pd.read_csv(path, header=None, nrows=1, dtype=str, encoding="utf-8-sig", encoding_errors="replace")
    head = first.iloc[0].astype(str).tolist()
    if set(NEEDED) <= set(head):
        return {"encoding": "utf-8-sig"}
    if len(head) == len(COLUMNS) and head[0].strip().isdigit():
        return {"encoding": "latin-1", "header": None, "names": COLUMNS}
    raise DataError(
        f"{path}: expected the columns {', '.join(COLUMNS)} without a header, or a header with {', '.join(NEEDED)}; "
        f"row 0 is {head[:8]}"
    )


def _complete(table: Table, path: Path, skip_bad: bool) -> Table:
    """The rows that have a user and a text; others are refused, or left out."""
    bad: Bool[np.ndarray, "M"] = np.zeros(len(table), bool)
    for name in ("user", "text"):
        empty = (table[name].str.strip() == "").to_numpy(bool)
        if empty.any() and not skip_bad:
            row = int(np.argmax(empty))
            raise DataError(
                f"{path}: {name} is empty in row {row} ({empty.sum()} such rows); correct it, or say skip_bad=True"
            )
        bad |= empty
    if bad.all():
        raise DataError(f"{path}: expected one tweet with its user per row, found none")
    return table.loc[~bad]


def _check_labels(table: Table, path: Path) -> None:
    wrong = ~table["polarity"].isin(["0", "4"]).to_numpy(bool)
    if wrong.any():
        row = int(np.argmax(wrong))
        found = str(table["polarity"].iloc[row])[:40]
        hint = "; neutral tweets (2) are no part of this set" if found == "2" else ""
        raise DataError(
            f"{path}: unknown label {found!r} in row {row} ({wrong.sum()} such rows); polarity must be 0 (negative) "
            f"or 4 (positive){hint}"
        )


def _drawn(
    codes: Int[np.ndarray, "M"], fraction: float | int, least: int, stream: Stream
) -> tuple[Int[np.ndarray, "N"], Ragged]:
    """Users in a random order until ``fraction`` of all rows is reached, less the small ones; and the rows of each."""
    sizes = np.bincount(codes)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    order = stream.rng().permutation(len(sizes))
    enough = int(np.searchsorted(np.cumsum(sizes[order]), int(fraction * len(codes))))
    chosen = order[: enough + 1]
    chosen = chosen[sizes[chosen] >= least]
    return chosen, Ragged(np.argsort(codes, kind="stable").astype(np.int64), offsets).taken(chosen)


def _first(
    chosen: Int[np.ndarray, "N"], owned: Ragged, clients: int | None, least: int, path: Path
) -> tuple[Int[np.ndarray, "n"], Ragged]:
    """The first ``clients`` of the users that the filters left; None keeps all."""
    if not len(chosen):
        raise DataError(f"{path}: no user is left with at least {least} samples; lower least, or raise fraction")
    if clients is None:
        return chosen, owned
    if clients > len(chosen):
        raise ConfigError(f"clients must be from 1 to {len(chosen)}, the users left by the filters; got {clients}")
    return chosen[:clients], owned.taken(np.arange(clients))
