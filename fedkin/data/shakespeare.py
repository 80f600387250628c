"""Shakespeare's speaking roles: which character comes next (McMahan et al. 2017; LEAF, Caldas et al. 2018)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, UInt

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data.download import Source, find
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.files import reading
from fedkin.data.partition_options import checked, positive

FILE = "shakespeare_roles.json.gz"
ROLES = Source(
    "shakespeare",
    {FILE: None},
    folders=("Shakespeare", "shakespeare"),
    help="No published file has this form: help(fedkin.data.shakespeare) tells the layout; "
    "set FEDKIN_DATA to the folder that has Shakespeare/ in it",
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
    """The plays of Shakespeare, one client per speaking role: x [M, length] characters, y the one after them.

    x and y are numbers of the characters in ``vocabulary``: those of the whole file, sorted; C is their count. A
    role's lines are joined with a blank (LEAF, too, has no line breaks). A window begins at every ``stride``-th
    character. LEAF's windows begin at every one: ``stride=1`` gives them, 400 MB for all roles, where 5 takes 80 MB.

    The split is in time: the first int(``train_fraction`` n) of a role's n windows train (at least one), and those
    test that begin after the last character that training has seen, so ``length`` characters in between begin no
    window. (LEAF leaves out 79 windows of 80 characters, so that the last training label is the first test
    character.) Roles without a training and a test window, or with fewer than ``least`` windows of both, are left out.
    ``clients`` draws so many of the others at random by ``seed``, and keeps them in the order of the file.

    ``path`` is a JSON file (.json or .json.gz): ``{"users": ["play/ROLE", ..], "lines": {"play/ROLE": [line, ..]}}``,
    else searched for as Shakespeare/shakespeare_roles.json.gz. Raises DataError, naming the file, where it is missing
    or of another layout, and where no role is long enough; ConfigError for options that cannot be.
    """
    for name, value in {"length": length, "stride": stride, "least": least}.items():
        positive(name, value)
    if not 0 < train_fraction < 1:
        raise ConfigError(f"train_fraction must be between 0 and 1, got {train_fraction}")
    file = Path(path) if path is not None else find(ROLES) / FILE
    users, texts = _roles(file)
    vocabulary, text = _encoded("".join(texts))
    starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    windows = [_windows(len(text), length, stride, train_fraction) for text in texts]
    fit = [u for u, parts in enumerate(windows) if all(map(len, parts)) and sum(map(len, parts)) >= least]
    kept = _some(fit, clients, file, length, seed)
    first = [part + starts[u] for u in kept for part in windows[u]]  # training and test of each role, by turns
    train, test = _by_turns([len(part) for part in first])
    begin = np.concatenate(first)
    x = np.lib.stride_tricks.sliding_window_view(text, length)[begin]
    names = tuple(users[u] for u in kept)
    y = text[begin + length].astype(np.int64)
    return FederatedData("shakespeare", x, y, len(vocabulary), train, test, client_names=names, vocabulary=vocabulary)


def _roles(path: Path) -> tuple[list[str], list[str]]:
    """Names and texts of all roles, in the order of ``users``."""
    content = _json(path)
    users, lines = content.get("users"), content.get("lines")
    if not isinstance(users, list) or not isinstance(lines, dict) or not users:
        raise DataError(f"{path}: expected 'users', a list of roles, and 'lines' of each; found {sorted(content)[:12]}")
    names = [str(user) for user in users]
    if len(set(names)) < len(names):
        raise DataError(f"{path}: role {max(names, key=names.count)!r} occurs twice among 'users'")
    unlisted = sorted(lines.keys() - set(names))
    if unlisted:
        raise DataError(f"{path}: role {unlisted[0]!r} has lines but is not among 'users'")
    for name in names:
        mine = lines.get(name)
        if not isinstance(mine, list) or not all(isinstance(line, str) for line in mine):
            raise DataError(f"{path}: expected 'lines' of role {name!r} as a list of texts, got {str(mine)[:40]}")
    return names, [" ".join(lines[name]) for name in names]


def _json(path: Path) -> dict[str, Any]:
    with reading(path, "a JSON file"):
        content = json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected a JSON object with users and lines, got a {type(content).__name__}")
    return content


def _encoded(text: str) -> tuple[tuple[str, ...], UInt[np.ndarray, "s"]]:
    """The characters that there are, and the number of each in the text, in as few bytes as they need."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    symbols, numbers = np.unique(points, return_inverse=True)
    return tuple(chr(point) for point in symbols), numbers.astype(np.min_scalar_type(max(len(symbols) - 1, 0)))


def _windows(
    size: int, length: int, stride: int, train_fraction: float | int
) -> tuple[Int[np.ndarray, "a"], Int[np.ndarray, "b"]]:
    """Where the training and the test windows of a text of ``size`` characters begin; none where it is too short."""
    begin = np.arange(0, max(size - length, 0), stride)
    train = begin[: max(1, int(train_fraction * len(begin)))]
    seen = train[-1] + length if len(train) else 0  # the last training label stands here
    return train, begin[begin > seen]


def _some(fit: list[int], clients: int | None, path: Path, length: int, seed: int) -> list[int]:
    if not fit:
        raise DataError(f"{path}: no role is long enough for windows of {length} characters; lower length or least")
    if clients is None:
        return fit
    if not 1 <= clients <= len(fit):
        raise ConfigError(f"clients must be from 1 to {len(fit)}, the roles that are long enough; got {clients}")
    order = Stream(seed, purpose="data/roles").rng().permutation(len(fit))
    return [fit[place] for place in sorted(order[:clients])]


def _by_turns(sizes: list[int]) -> tuple[Ragged, Ragged]:
    """Rows that lie end to end: training of client 0, test of client 0, training of client 1, ..."""
    bounds = np.cumsum([0, *sizes])
    parts = [np.arange(low, high) for low, high in zip(bounds[:-1], bounds[1:], strict=True)]
    return Ragged.of(parts[::2]), Ragged.of(parts[1::2])
