"""Fed-MEx: exercises on a pressure mat (FedSim, Palihawadana et al. 2022, section 4.1; MEx,
Wijekoon et al. 2020)."""

from __future__ import annotations

import random as python_random
import re
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float32, Int, Shaped

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.core.storage import user_path
from fedkin.data import partition
from fedkin.data.about import AboutData, Form, named
from fedkin.data.download import Source, fetch, locate
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.files import Table, check_labels
from fedkin.data.leaf import (
    LeafFiles,
    find_leaf_folder,
    read_leaf,
    read_leaf_arrays,
    read_leaf_files,
)
from fedkin.data.partition_options import checked, legacy_random

# Number of exercises.
CLASSES = 7
# The mat has 16 x 16 cells, and a sample has 5 frames.
CELLS = 256
FEATURES = 1280
# Windows of 5 s, which begin every 2 s.
WINDOW = np.timedelta64(5, "s")
STEP = np.timedelta64(2, "s")
# The mat records 15 frames a second, so a window has 75 frames. Every 15th frame is kept. Windows
# with fewer than 5 frames are left out.
FRAMES = 75
EVERY = 15
FEWEST = 5

_FOLDERS = ("FedMEx", "fedmex", "mex")
_HELP = (
    "Put train.json and test.json of Fed-MEx there (FEDKIN_DATA names the folder that has FedMEx/ "
    "in it), or make the federation from the recordings of MEx with path=..."
)
PUBLISHED = Source("mex", {"train.json": None, "test.json": None}, folders=_FOLDERS, help=_HELP)
TEST_PART = Source("mex (test part)", {"fed_mex_TESTONLY.npz": None}, folders=_FOLDERS, help=_HELP)

_RECORDING = re.compile(r"(\d+)_pm(_\d+)?\.csv")
_TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?"


@named(
    AboutData(
        clients=30,
        samples="1,184",
        content="exercises on a pressure mat, 5 frames 16x16; the test part alone has 250 samples",
        source=PUBLISHED,
        forms=(
            Form("published files", partial(locate, PUBLISHED)),
            Form("LEAF's layout", partial(find_leaf_folder, PUBLISHED)),
            Form("test part only", partial(locate, TEST_PART)),
        ),
    )
)
@checked
def mex(
    *,
    path: str | Path | None = None,
    train_fraction: float | int | None = None,
    repeats: bool = False,
    seed: int = 0,
) -> FederatedData:
    """Fed-MEx: 7 exercises, 30 clients with one or two of them, x float32 [M, 1280]: 5 frames of 16
    x 16 pressures in 0 .. 1.

    There are three federations, with different names:

    * ``mex``: the published one, 934 training and 250 test samples in the published split, from
      ``train.json`` and ``test.json`` (or other files in LEAF's layout) in the folder FedMEx
    * ``mex (test part)``, if the folder FedMEx has only ``fed_mex_TESTONLY.npz``: the 250
      published *test* samples; each client's are split again into training and test samples. Its
      results cannot be compared with published ones
    * ``mex (recorded)``: made from the recordings in ``path``

    The last one follows the authors (section 4.1 and their code). Each recording is divided by its
    maximum, and cut into windows of 5 s every 2 s. A window has 75 frames, of which every 15th is
    kept. Each client has two classes, drawn with replacement, and a random part of their samples.
    The authors took subjects and exercises in the unknown order of their file system, so the
    published files cannot be reproduced bit for bit. Here the order is by name.

    Args:
        path: a folder of subjects with files such as ``04_pm_1.csv``: exercise 01 .. 07, a time
            stamp and 256 numbers in each row, 15 rows a second.
        train_fraction: each client's share of training samples; None for 0.8. It does not apply to
            the published split.
        repeats: whether to duplicate the samples of a class that was drawn twice, as the published
            files seem to do. A sample may then be among both the training and the test samples.
        seed: seed of the draws. Two generators have the seeds ``seed`` and ``seed + 1``: with 0,
            these are the authors' seeds.

    Raises:
        DataError: a recording is damaged, or its name or its rows are not as described; the message
            names file and row.
    """
    fraction = 0.8 if train_fraction is None else train_fraction
    if path is not None:
        return _recorded(user_path(path), fraction, repeats, seed)
    if repeats:
        raise ConfigError("repeats does not apply to mex without path; leave it out")
    published = _published()
    if published is None:
        return _test_part(fraction, seed)
    if train_fraction is not None:
        raise ConfigError(
            "train_fraction does not apply to the published mex, which has its own split; leave "
            "it out"
        )
    files, folder = published
    check_labels(files.y, CLASSES, folder)
    return _federation(name="mex", files=files, train=files.train, test=files.test, path=folder)


def _published() -> tuple[LeafFiles, Path] | None:
    """The published federation, and its folder; None if only its test split exists.

    Raises:
        DataError: neither the published files nor their test part exist.
    """
    if folder := locate(PUBLISHED):
        return read_leaf_files([folder / "train.json"], [folder / "test.json"]), folder
    if folder := find_leaf_folder(PUBLISHED):
        return read_leaf(folder), folder
    if locate(TEST_PART) is None:
        # ``fetch`` raises an error that names the folders.
        fetch(PUBLISHED)
    return None


def _test_part(train_fraction: float | int, seed: int) -> FederatedData:
    """A federation of only the published test samples, which are split again into training and
    test."""
    path = fetch(TEST_PART) / "fed_mex_TESTONLY.npz"
    files = read_leaf_arrays(path, CLASSES)
    if len(files.train.rows):
        raise DataError(
            f"{path}: expected test samples only (split 1), but {len(files.train.rows)} are marked "
            "for training"
        )
    train, test = partition.split_train_test(
        files.test, Stream(seed, purpose="data/split"), train_fraction
    )
    return _federation(name="mex (test part)", files=files, train=train, test=test, path=path)


def _federation(
    name: str, files: LeafFiles, train: Ragged, test: Ragged, path: Path
) -> FederatedData:
    """The federation of these samples, after a check of their shape."""
    if isinstance(files.x, tuple) or files.x.shape[1:] != (FEATURES,):
        actual = "text" if isinstance(files.x, tuple) else f"samples of shape {files.x.shape[1:]}"
        raise DataError(
            f"{path}: expected {FEATURES} numbers (5 frames of 16 x 16) in each sample, got "
            f"{actual}"
        )
    return FederatedData(
        name=name,
        x=files.x,
        y=files.y,
        classes=CLASSES,
        train=train,
        test=test,
        client_names=files.users,
    )


def _recorded(folder: Path, train_fraction: float | int, repeats: bool, seed: int) -> FederatedData:
    """A Fed-MEx federation made from recordings. Memory holds the recordings of one subject at a
    time."""
    subjects = sorted(below for below in folder.glob("[!.]*") if below.is_dir())
    if not subjects:
        raise DataError(f"{folder}: expected a folder for each subject, found none")
    draw = python_random.Random(seed)
    shuffle = legacy_random(seed + 1)
    x = []
    y = []
    for subject in subjects:
        windows = _subject(subject)
        # Two classes, drawn with replacement.
        sampled = shuffle.choice(sorted(windows), 2).tolist()
        classes = sampled if repeats else sorted(set(sampled))
        samples = np.concatenate([windows[label] for label in classes])
        labels = np.repeat(classes, [len(windows[label]) for label in classes])
        # A random part of the samples, at least a tenth.
        keep = draw.randint(max(1, len(labels) // 10), len(labels))
        order = shuffle.permutation(len(labels))[:keep]
        x.append(samples[order])
        y.append(labels[order])
    owned = Ragged.consecutive(np.array([len(labels) for labels in y]))
    train, test = partition.split_train_test(
        owned, Stream(seed, purpose="data/split"), train_fraction
    )
    names = tuple(f"f_{subject.name}" for subject in subjects)
    return FederatedData(
        name="mex (recorded)",
        x=np.concatenate(x),
        y=np.concatenate(y),
        classes=CLASSES,
        train=train,
        test=test,
        client_names=names,
    )


def _subject(folder: Path) -> dict[int, Float32[np.ndarray, "n 1280"]]:
    """The windows of a subject's recordings, by label (exercise). Exercises without a window are
    left out."""
    windows: dict[int, list[np.ndarray]] = {}
    for path in sorted(folder.glob("[!.]*.csv")):
        name = _RECORDING.fullmatch(path.name)
        if name is None or not 1 <= int(name[1]) <= CLASSES:
            raise DataError(
                f"{path}: expected a name such as 04_pm_1.csv: an exercise from 01 to 07, _pm, "
                "number of the recording"
            )
        windows.setdefault(int(name[1]) - 1, []).append(_windows(*_recording(path)))
    joined = {label: np.concatenate(parts) for label, parts in windows.items()}
    if not any(len(part) for part in joined.values()):
        raise DataError(
            f"{folder}: expected recordings *_pm*.csv of more than 5 s, found none in "
            f"{len(windows)} exercises"
        )
    return {label: part for label, part in joined.items() if len(part)}


def _recording(path: Path) -> tuple[Shaped[np.ndarray, "f"], Float[np.ndarray, "f 256"]]:
    """Time stamps and frames of a recording; frames are divided by their maximum and rounded."""
    import pandas as pd

    try:
        with path.open("rb") as file:
            columns = file.readline().count(b",") + 1
        # pandas would take the number of columns from the first row, so that is checked here.
        if columns != CELLS + 1:
            raise DataError(
                f"{path}: row 1: expected a time stamp and {CELLS} numbers, got {columns} columns"
            )
        table = pd.read_csv(path, header=None, dtype={0: str}, low_memory=False)
    except DataError:
        raise
    except (ValueError, OSError) as error:
        # The message of pandas names the line.
        raise DataError(
            f"{path}: expected a time stamp and {CELLS} numbers in every row ({error})"
        ) from error
    stamps = table[0].where(table[0].str.fullmatch(_TIME, na=False))
    times = pd.to_datetime(stamps, format="ISO8601", errors="coerce").to_numpy("datetime64[us]")
    frames = _numbers(table.iloc[:, 1:])
    _check_rows(table[0].to_numpy(object), times, frames, path)
    top = frames.max()
    if not top > 0:
        raise DataError(
            f"{path}: expected pressure above 0, but the largest number in {len(frames)} frames is "
            f"{top}; remove this recording"
        )
    return times, np.round(frames / top, 5)


def _numbers(table: Table) -> Float[np.ndarray, "f 256"]:
    """The cells of a recording's table as numbers. Any other cell becomes NaN."""
    import pandas as pd

    if not all(kind.kind in "iuf" for kind in table.dtypes):
        table = table.apply(pd.to_numeric, errors="coerce")
    return table.to_numpy(np.float64)


def _check_rows(
    stamps: Shaped[np.ndarray, "f"],
    times: Shaped[np.ndarray, "f"],
    frames: Float[np.ndarray, "f 256"],
    path: Path,
) -> None:
    """Raise DataError for rows without a time stamp or a number, or with times that run
    backwards."""
    untimed = np.isnat(times)
    short = ~np.isfinite(frames).all(axis=1)
    back = np.concatenate([[False], np.diff(times) < np.timedelta64(0)])
    for rows, what in (
        (untimed, "expected a time stamp such as 2019-01-31 12:00:00.066, got {!r}"),
        (short, f"expected {CELLS} finite numbers after {{!r}}, some are missing or no numbers"),
        (back, "time stamp {!r} is earlier than the one in the row before"),
    ):
        if rows.any():
            row = int(np.argmax(rows))
            raise DataError(f"{path}: row {row + 1}: {what.format(stamps[row])}")


def _windows(
    times: Shaped[np.ndarray, "f"], frames: Float[np.ndarray, "f 256"]
) -> Float32[np.ndarray, "n 1280"]:
    """The samples of a recording, one for each window that ends before the last time stamp."""
    starts = np.arange(times[0], times[-1] - WINDOW, STEP)
    firsts = np.searchsorted(times, starts)
    ends = np.searchsorted(times, starts + WINDOW)
    windows = []
    for first, end in zip(firsts, ends, strict=True):
        if end - first >= FEWEST:
            windows.append(frames[_every(first, end)].ravel())
    return np.array(windows, np.float32).reshape(-1, FEATURES)


def _every(first: int | np.integer, last: int | np.integer) -> Int[np.ndarray, "5"]:
    """The frames that are kept of a window: every 15th of 75 frames.

    The window has the frames first .. last - 1. If it has more than 75 frames, frames are cut at
    both ends; if it has fewer, its first and last frames are repeated. If the number of frames to
    cut or to add is odd, one more is cut or added at the front.
    """
    spare = int(last - first) - FRAMES
    front = (abs(spare) + 1) // 2
    start = int(first) + (front if spare > 0 else -front)
    return np.clip(np.arange(start, start + FRAMES, EVERY), first, last - 1)
