"""Sentiment140: positive and negative tweets by user (Go, Bhayani, Huang 2009), as in LEAF (Caldas
et al. 2018)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.core.storage import user_path
from fedkin.data import partition
from fedkin.data.about import AboutData, named
from fedkin.data.download import Source, fetch
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.files import Table, reading
from fedkin.data.partition_options import checked, positive
from fedkin.data.text import encode_texts

FILE = "training.1600000.processed.noemoticon.csv"
COLUMNS = ("polarity", "id", "date", "query", "user", "text")
NEEDED = ("polarity", "user", "text")
SENT140 = Source(
    "sent140",
    {FILE: None},
    folders=("Sent140", "sent140", "sentiment140"),
    help="Unpack trainingandtestdata.zip of help.sentiment140.com there, "
    "or give the path of the CSV file (path=)",
)


@named(
    AboutData(
        clients=772,
        samples="40,783",
        content="tweets, positive or negative, by user; LEAF's draw, others differ a little",
        source=SENT140,
    )
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
    """Sentiment140, one client per user: x [M, length] word indices, y 1 for a positive tweet.

    Users are selected by the same steps as in LEAF with the options ``-s niid --sf 0.3 -k 30 -tf
    0.8 -t sample``. Whole users are drawn at random until ``fraction`` of all samples is reached.
    Users with fewer than ``least`` samples are dropped. The samples of each user are split at
    random, since all negative tweets come first in the file.

    Differences from LEAF: random numbers differ, so the published file (772 users, 40,783 samples)
    is matched in distribution but not bit for bit. The last user is kept whole, while LEAF
    truncates it. LEAF's code keeps users with *more* than k samples (``least=31``), and adds the
    498 tweets of the separate test file, neutral ones as negative.

    Args:
        path: the original CSV (latin-1, no header: polarity 0 or 4, id, date, query, user, text),
            or a CSV in UTF-8 with a header that has polarity, user and text; None to search for
            training.1600000.processed.noemoticon.csv.
        fraction: share of all samples to draw.
        least: smallest number of samples per user.
        clients: number of users to keep, in the order of the draw; None for all.
        train_fraction: each user's share of training samples.
        length: number of tokens of a text.
        pad: where short texts are padded, "end" or "front".
        glove: file of word vectors, whose words are the vocabulary; None for the words of the
            training texts.
        most: size of the vocabulary without ``glove``; None for all words.
        skip_bad: whether to drop tweets without a user or a text; otherwise they raise an error. A
            text without tokens, such as ":-)", is kept as padding.
        seed: seed of users and split.

    Raises:
        DataError: a row has no user or no text (without ``skip_bad``), a label is neither 0 nor 4,
            or no user has enough samples; the message names the file.
        ConfigError: options are invalid.
    """
    import pandas as pd

    _check_options(fraction, least, clients)
    file = user_path(path) if path is not None else fetch(SENT140) / FILE
    table = _read(file)
    _check_labels(table, file)
    table = _complete(table, file, skip_bad)
    labels = (table["polarity"] == "4").to_numpy(np.int64)
    codes, names = pd.factorize(table["user"])
    stream = Stream(seed, purpose="data/users")
    users, owned = _sample_users(np.asarray(codes), fraction, least, stream)
    users, owned = _first_users(users=users, owned=owned, clients=clients, least=least, path=file)
    rows = Ragged.consecutive(owned.sizes)
    train, test = partition.split_train_test(
        rows, Stream(seed, purpose="data/split"), train_fraction
    )
    texts = table["text"].to_numpy(object)[owned.rows].tolist()
    words = encode_texts(texts, train.rows, length=length, glove=glove, pad=pad, most=most)
    return FederatedData(
        name="sent140",
        x=words.x,
        y=labels[owned.rows],
        classes=2,
        train=train,
        test=test,
        client_names=tuple(str(names[user]) for user in users),
        vocabulary=words.vocabulary,
        vectors=words.vectors,
    )


def _check_options(fraction: float | int, least: int, clients: int | None) -> None:
    """Raise ConfigError for invalid options of ``sent140``."""
    if not 0 < fraction <= 1:
        raise ConfigError(f"fraction must be in (0, 1], got {fraction}")
    positive("least", least)
    if clients is not None:
        positive("clients", clients)


def _read(path: Path) -> Table:
    """Read polarity, user and text of every tweet, all as text. "NA" and "null" stay text, since
    they may be names or tweets."""
    import pandas as pd

    with reading(path, "the CSV file of Sentiment140"):
        form = _form(path)
        # All columns are read: with usecols, pandas would cut a row with too many fields.
        table = pd.read_csv(path, dtype=str, keep_default_na=False, index_col=False, **form)
    # A row with too few fields has NaN.
    return pd.DataFrame({name: table[name].fillna("") for name in NEEDED})


def _form(path: Path) -> dict[str, Any]:
    """The options with which pandas must read this CSV file, determined by its first row."""
    import pandas as pd

    first = pd.read_csv(
        path, header=None, nrows=1, dtype=str, encoding="utf-8-sig", encoding_errors="replace"
    )
    head = first.iloc[0].astype(str).tolist()
    if set(NEEDED) <= set(head):
        return {"encoding": "utf-8-sig"}
    if len(head) == len(COLUMNS) and head[0].strip().isdigit():
        return {"encoding": "latin-1", "header": None, "names": COLUMNS}
    raise DataError(
        f"{path}: expected the columns {', '.join(COLUMNS)} without a header, or a header with "
        f"{', '.join(NEEDED)}; row 0 is {head[:8]}"
    )


def _complete(table: Table, path: Path, skip_bad: bool) -> Table:
    """The rows (tweets) that have a user and a text. Other rows are refused, or dropped."""
    bad: Bool[np.ndarray, "M"] = np.zeros(len(table), bool)
    for name in ("user", "text"):
        empty = (table[name].str.strip() == "").to_numpy(bool)
        if empty.any() and not skip_bad:
            row = int(np.argmax(empty))
            raise DataError(
                f"{path}: {name} is empty in row {row} ({empty.sum()} such rows); correct it, or "
                "set skip_bad=True"
            )
        bad |= empty
    if bad.all():
        raise DataError(f"{path}: expected one tweet with its user per row, found none")
    return table.loc[~bad]


def _check_labels(table: Table, path: Path) -> None:
    """Raise DataError for labels other than 0 and 4."""
    wrong = ~table["polarity"].isin(["0", "4"]).to_numpy(bool)
    if wrong.any():
        row = int(np.argmax(wrong))
        label = str(table["polarity"].iloc[row])[:40]
        hint = "; neutral tweets (2) are not in this set" if label == "2" else ""
        raise DataError(
            f"{path}: unknown label {label!r} in row {row} ({wrong.sum()} such rows); polarity "
            f"must be 0 (negative) or 4 (positive){hint}"
        )


def _sample_users(
    codes: Int[np.ndarray, "M"], fraction: float | int, least: int, stream: Stream
) -> tuple[Int[np.ndarray, "N"], Ragged]:
    """Draw random users until they have the share ``fraction`` of all rows (tweets), then drop
    users with few rows. Returns the users and the rows of each."""
    sizes = np.bincount(codes)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    order = stream.rng().permutation(len(sizes))
    enough = int(np.searchsorted(np.cumsum(sizes[order]), int(fraction * len(codes))))
    # With the user at which the share is reached.
    users = order[: enough + 1]
    users = users[sizes[users] >= least]
    # The rows of all users, user after user.
    rows = np.argsort(codes, kind="stable").astype(np.int64)
    return users, Ragged(rows, offsets).select(users)


def _first_users(
    users: Int[np.ndarray, "N"], owned: Ragged, clients: int | None, least: int, path: Path
) -> tuple[Int[np.ndarray, "n"], Ragged]:
    """The first ``clients`` of the users that were drawn; all of them for None."""
    if not len(users):
        raise DataError(
            f"{path}: no user is left with at least {least} samples; lower least, or raise fraction"
        )
    if clients is None:
        return users, owned
    if clients > len(users):
        raise ConfigError(
            f"clients must be from 1 to {len(users)}, the number of users after filtering; got "
            f"{clients}"
        )
    return users[:clients], owned.select(np.arange(clients))
