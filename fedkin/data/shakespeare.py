"""Next characters in Shakespeare's plays, by speaking role (McMahan et al. 2017; LEAF, Caldas et
al. 2018)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, UInt

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.core.storage import user_path
from fedkin.data.about import AboutData, named
from fedkin.data.download import Source, fetch
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.files import reading
from fedkin.data.partition_options import checked, positive

FILE = "shakespeare_roles.json.gz"
ROLES = Source(
    "shakespeare",
    {FILE: None},
    folders=("Shakespeare", "shakespeare"),
    help="No published file has this form: help(fedkin.data.shakespeare) describes the layout; "
    "set FEDKIN_DATA to the folder that has Shakespeare/ in it",
)


@named(
    AboutData(
        clients=809,
        samples="808,705",
        content="the next character, by speaking role; windows of 80, every fifth",
        source=ROLES,
        overlapping=True,  # windows of a role
    )
)
@checked
def shakespeare(
    *,
    path: str | Path | None = None,
    clients: int | None = None,
    length: int = 80,
    stride: int = 5,
    train_fraction: float | int = 0.8,
    least: int = 2,
    seed: int = 0,
) -> FederatedData:
    """The plays of Shakespeare, one client per speaking role: x [M, length] characters, y the one
    after them.

    x and y are numbers of the characters in ``vocabulary``: those of the whole file, sorted; C is
    their count. A role's lines are joined with a space (LEAF, too, has no line breaks).

    The split is in time: the first windows of a role are for training, and those that start after
    the last training label are for testing, so no window starts at the ``length`` characters in
    between. (LEAF leaves out 79 windows of 80 characters, so that its last training label is the
    first test character.)

    Args:
        path: a JSON file (.json or .json.gz), ``{"users": ["play/ROLE", ..], "lines": {"play/ROLE":
            [line, ..]}}``; None to search for Shakespeare/shakespeare_roles.json.gz.
        clients: number of roles, drawn at random and kept in the order of the file; None for all.
        length: characters of a window.
        stride: distance between the starts of windows. LEAF's is 1: 400 MB for all roles, where 5
            takes 80 MB.
        train_fraction: share of a role's windows that train, at least one.
        least: windows that a role must have, training and test together, with one of each.
        seed: of the draw of roles.

    Raises:
        DataError: a file that is missing or of another layout, or no role long enough; the file is
            named.
        ConfigError: invalid options.
    """
    for name, value in {"length": length, "stride": stride, "least": least}.items():
        positive(name, value)
    if not 0 < train_fraction < 1:
        raise ConfigError(f"train_fraction must be between 0 and 1, got {train_fraction}")
    file = user_path(path) if path is not None else fetch(ROLES) / FILE
    users, texts = _roles(file)
    vocabulary, text = _encoded("".join(texts))
    starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    windows = [_windows(len(text), length, stride, train_fraction) for text in texts]
    eligible = [
        u
        for u, parts in enumerate(windows)
        if all(map(len, parts)) and sum(map(len, parts)) >= least
    ]
    roles = _draw_roles(eligible=eligible, clients=clients, path=file, length=length, seed=seed)
    first = [
        part + starts[u] for u in roles for part in windows[u]
    ]  # training and test of each role, alternating
    train, test = _alternating([len(part) for part in first])
    begin = np.concatenate(first)
    x = np.lib.stride_tricks.sliding_window_view(text, length)[begin]
    names = tuple(users[u] for u in roles)
    y = text[begin + length].astype(np.int64)
    return FederatedData(
        name="shakespeare",
        x=x,
        y=y,
        classes=len(vocabulary),
        train=train,
        test=test,
        client_names=names,
        vocabulary=vocabulary,
    )


def _roles(path: Path) -> tuple[list[str], list[str]]:
    """Names and texts of all roles, in the order of ``users``."""
    content = _json(path)
    users = content.get("users")
    lines = content.get("lines")
    if not isinstance(users, list) or not isinstance(lines, dict) or not users:
        raise DataError(
            f"{path}: expected 'users', a list of roles, and 'lines' of each; found "
            f"{sorted(content)[:12]}"
        )
    names = [str(user) for user in users]
    if len(set(names)) < len(names):
        raise DataError(f"{path}: role {max(names, key=names.count)!r} occurs twice among 'users'")
    unlisted = sorted(lines.keys() - set(names))
    if unlisted:
        raise DataError(f"{path}: role {unlisted[0]!r} has lines but is not among 'users'")
    for name in names:
        own = lines.get(name)
        if not isinstance(own, list) or not all(isinstance(line, str) for line in own):
            raise DataError(
                f"{path}: expected 'lines' of role {name!r} as a list of texts, got {str(own)[:40]}"
            )
    return names, [" ".join(lines[name]) for name in names]


def _json(path: Path) -> dict[str, Any]:
    with reading(path, "a JSON file"):
        content = json.loads(
            gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        )
    if not isinstance(content, dict):
        raise DataError(
            f"{path}: expected a JSON object with users and lines, got a {type(content).__name__}"
        )
    return content


def _encoded(text: str) -> tuple[tuple[str, ...], UInt[np.ndarray, "s"]]:
    """The characters that occur, and the text as their numbers, in the smallest integer type."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    symbols, numbers = np.unique(points, return_inverse=True)
    return tuple(chr(point) for point in symbols), numbers.astype(
        np.min_scalar_type(max(len(symbols) - 1, 0))
    )


def _windows(
    size: int, length: int, stride: int, train_fraction: float | int
) -> tuple[Int[np.ndarray, "a"], Int[np.ndarray, "b"]]:
    """Starts of the training and the test windows of a text of ``size`` characters; none where it
    is too short."""
    begin = np.arange(0, max(size - length, 0), stride)
    train = begin[: max(1, int(train_fraction * len(begin)))]
    last_label = train[-1] + length if len(train) else 0  # its position
    return train, begin[begin > last_label]


def _draw_roles(
    eligible: list[int], clients: int | None, path: Path, length: int, seed: int
) -> list[int]:
    if not eligible:
        raise DataError(
            f"{path}: no role is long enough for windows of {length} characters; lower length or "
            "least"
        )
    if clients is None:
        return eligible
    if not 1 <= clients <= len(eligible):
        raise ConfigError(
            f"clients must be from 1 to {len(eligible)}, the roles that are long enough; got "
            f"{clients}"
        )
    order = Stream(seed, purpose="data/roles").rng().permutation(len(eligible))
    return [eligible[i] for i in sorted(order[:clients])]


def _alternating(sizes: list[int]) -> tuple[Ragged, Ragged]:
    """Indices of consecutive rows: training of client 0, test of client 0, training of client 1,
    ..."""
    bounds = np.cumsum([0, *sizes])
    parts = [np.arange(low, high) for low, high in zip(bounds[:-1], bounds[1:], strict=True)]
    return Ragged.of(parts[::2]), Ragged.of(parts[1::2])
