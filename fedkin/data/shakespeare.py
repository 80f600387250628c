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
        # The windows of a role overlap.
        overlapping=True,
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
    """The plays of Shakespeare, one client for each speaking role.

    x [M, length] are characters, y is the next character. Both are indices into ``vocabulary``,
    which has the C characters of the file, sorted. A role's lines are joined with a space (LEAF has
    no line breaks either).

    The split is in time. The first windows of a role are for training. The label of a window is the
    character after it. Windows that start after the last training label are for testing. Windows
    that start within ``length`` characters after the start of the last training window are left
    out, so training and test samples have no character in common. (LEAF leaves out 79 windows of 80
    characters, so its last training label is the first test character.)

    Args:
        path: a JSON file (.json or .json.gz), ``{"users": ["play/ROLE", ..], "lines": {"play/ROLE":
            [line, ..]}}``; None to search for Shakespeare/shakespeare_roles.json.gz.
        clients: number of roles, drawn at random and kept in the order of the file; None for all.
        length: number of characters in a window.
        stride: distance between the starts of windows. LEAF's is 1, which takes 400 MB for all
            roles; 5 takes 80 MB.
        train_fraction: share of a role's windows that are for training; at least one is.
        least: smallest number of windows of a role, with at least one for training and one for
            test.
        seed: seed of the draw of roles.

    Raises:
        DataError: a file is missing or has another layout, or no role is long enough; the message
            names the file.
        ConfigError: options are invalid.
    """
    for name, value in {"length": length, "stride": stride, "least": least}.items():
        positive(name, value)
    if not 0 < train_fraction < 1:
        raise ConfigError(f"train_fraction must be between 0 and 1, got {train_fraction}")
    file = user_path(path) if path is not None else fetch(ROLES) / FILE
    users, texts = _roles(file)
    vocabulary, text = _encoded("".join(texts))
    sizes = [len(text_of_role) for text_of_role in texts]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    windows = [_windows(size, length, stride, train_fraction) for size in sizes]
    eligible = []
    for u, (train_windows, test_windows) in enumerate(windows):
        has_both = len(train_windows) > 0 and len(test_windows) > 0
        if has_both and len(train_windows) + len(test_windows) >= least:
            eligible.append(u)
    roles = _draw_roles(eligible=eligible, clients=clients, path=file, length=length, seed=seed)

    # Training and test windows alternate: first role 0's, then role 1's, and so on.
    parts = [part + starts[u] for u in roles for part in windows[u]]
    train, test = _alternating([len(part) for part in parts])
    begin = np.concatenate(parts)
    x = np.lib.stride_tricks.sliding_window_view(text, length)[begin]
    y = text[begin + length].astype(np.int64)
    names = tuple(users[u] for u in roles)
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
            f"{path}: expected 'users', a list of roles, and the 'lines' of each role; found "
            f"{sorted(content)[:12]}"
        )
    names = [str(user) for user in users]
    if len(set(names)) < len(names):
        raise DataError(f"{path}: role {max(names, key=names.count)!r} occurs twice among 'users'")
    unlisted = sorted(lines.keys() - set(names))
    if unlisted:
        raise DataError(f"{path}: role {unlisted[0]!r} has lines but is not among 'users'")
    for name in names:
        lines_of_role = lines.get(name)
        if not isinstance(lines_of_role, list) or not all(
            isinstance(line, str) for line in lines_of_role
        ):
            raise DataError(
                f"{path}: expected 'lines' of role {name!r} as a list of texts, got "
                f"{str(lines_of_role)[:40]}"
            )
    return names, [" ".join(lines[name]) for name in names]


def _json(path: Path) -> dict[str, Any]:
    """The object in a JSON file, which may be gzipped."""
    with reading(path, "a JSON file"):
        raw = path.read_bytes()
        content = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    if not isinstance(content, dict):
        raise DataError(
            f"{path}: expected a JSON object with users and lines, got a {type(content).__name__}"
        )
    return content


def _encoded(text: str) -> tuple[tuple[str, ...], UInt[np.ndarray, "s"]]:
    """Encode a text as numbers: the characters that occur in it, and for each position the number
    of its character, in the smallest integer type."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    symbols, numbers = np.unique(points, return_inverse=True)
    smallest = np.min_scalar_type(max(len(symbols) - 1, 0))
    return tuple(chr(point) for point in symbols), numbers.astype(smallest)


def _windows(
    size: int, length: int, stride: int, train_fraction: float | int
) -> tuple[Int[np.ndarray, "a"], Int[np.ndarray, "b"]]:
    """Starts of the training and test windows of a text of ``size`` characters.

    A text that is too short has no windows.
    """
    begin = np.arange(0, max(size - length, 0), stride)
    train = begin[: max(1, int(train_fraction * len(begin)))]
    # The label of a window is the character after it.
    last_label_position = train[-1] + length if len(train) else 0
    return train, begin[begin > last_label_position]


def _draw_roles(
    eligible: list[int], clients: int | None, path: Path, length: int, seed: int
) -> list[int]:
    """The roles that become clients, ascending."""
    if not eligible:
        raise DataError(
            f"{path}: no role is long enough for windows of {length} characters; lower length or "
            "least"
        )
    if clients is None:
        return eligible
    if not 1 <= clients <= len(eligible):
        raise ConfigError(
            f"clients must be from 1 to {len(eligible)}, the number of roles that are long enough; "
            f"got {clients}"
        )
    order = Stream(seed, purpose="data/roles").rng().permutation(len(eligible))
    return [eligible[i] for i in sorted(order[:clients])]


def _alternating(sizes: list[int]) -> tuple[Ragged, Ragged]:
    """The rows of the training and test samples of each client, if samples are stored in
    consecutive parts of these sizes.

    The parts are: training of client 0, test of client 0, training of client 1, ...
    """
    bounds = np.cumsum([0, *sizes])
    parts = [np.arange(low, high) for low, high in zip(bounds[:-1], bounds[1:], strict=True)]
    return Ragged.of(parts[::2]), Ragged.of(parts[1::2])
