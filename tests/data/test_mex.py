from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from fedkin.core.errors import ConfigError, DataError
from fedkin.data.mex import SUBJECT_ORDER, _kept, _windows, mex

START = datetime(2019, 3, 1, 10, 0, 0)


def stamp(seconds: float) -> str:
    """As the recordings have it: no fraction at whole seconds."""
    return str(START + timedelta(microseconds=round(seconds * 1e6)))


def record(path: Path, seconds: Sequence[float], values: Sequence[float] | None = None) -> Path:
    """A recording in which frame i is ``values[i]`` everywhere (i + 1)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pressures = np.arange(len(seconds)) + 1 if values is None else values
    lines = [
        ",".join([stamp(time), *[str(value)] * 256])
        for time, value in zip(seconds, pressures, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def by_hand(seconds: Sequence[float]) -> list[list[float]]:
    """The windows of ``record(.., seconds)`` with plain lists: five numbers each, one per kept
    frame."""
    windows = []
    start = 0.0
    top = len(seconds)
    while start + 5 < seconds[-1]:
        frames = [i + 1 for i, time in enumerate(seconds) if start <= time < start + 5]
        start += 2
        if len(frames) < 5:
            continue
        spare = 75 - len(frames)
        if spare >= 0:
            frames = [frames[0]] * math.ceil(spare / 2) + frames + [frames[-1]] * (spare // 2)
        else:
            frames = frames[math.ceil(-spare / 2) :][:75]
        windows.append([round(value / top, 5) for value in frames[::15]])
    return windows


def steady(rate: int, seconds: float) -> list[float]:
    return [i / rate for i in range(round(seconds * rate) + 1)]


# Frames a window: 75 as they should be, 50 and 45 (even and odd to add), 100 (odd to cut), 80 with
# a different end.
TIMES = {
    "exact": steady(15, 12),
    "few": steady(10, 12),
    "fewer": steady(9, 12),
    "many": steady(20, 12),
    "even": steady(17, 9.5),
    "gap": [time for time in steady(15, 20) if not 3.9 < time < 12.2],
}


def windows(times: Sequence[float]) -> np.ndarray:
    """Those of a recording whose frame i is i + 1 everywhere, by the code under test."""
    stamps = np.array([stamp(time) for time in times], "datetime64[us]")
    frames = np.repeat(np.arange(1.0, len(times) + 1)[:, None], 256, axis=1)
    return _windows(stamps, np.round(frames / len(times), 5))


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_windows(times: list[float]) -> None:
    got = windows(times).reshape(-1, 5, 256)
    assert (got == got[:, :, :1]).all()  # frames are whole, one after another
    np.testing.assert_array_equal(got[:, :, 0], np.array(by_hand(times), np.float32))


@pytest.mark.parametrize(
    ("seconds", "count"), [(4.0, 0), (5.0, 0), (5.1, 1), (7.0, 1), (7.1, 2), (11.1, 4)]
)
def test_windows_end_before_the_last_time_stamp(seconds: float, count: int) -> None:
    assert windows(steady(10, seconds)).shape == (count, 1280)


@pytest.mark.parametrize(("count", "kept"), [(4, 0), (5, 1)])
def test_a_window_needs_five_frames(count: int, kept: int) -> None:
    assert len(windows([*np.arange(count) / 2, 5.5])) == kept


def test_a_file_becomes_windows(tmp_path: Path) -> None:
    times = steady(10, 5.1)
    record(tmp_path / "01" / "03_pm_1.csv", times)
    data = mex(path=tmp_path)
    assert (
        data.y.tolist() == [2]
        and np.array_equal(data.x, windows(times))
        and data.x.dtype == np.float32
    )


def test_recordings_that_are_too_short(tmp_path: Path) -> None:
    record(tmp_path / "01" / "01_pm.csv", steady(10, 5.0))
    with pytest.raises(
        DataError, match=r"01: expected recordings .* of more than 5 s, found none in 1 exercises"
    ):
        mex(path=tmp_path)


def test_each_recording_has_its_own_maximum(tmp_path: Path) -> None:
    times = steady(15, 5.1)
    record(tmp_path / "01" / "04_pm_1.csv", times, [*[1] * (len(times) - 1), 3])
    record(tmp_path / "01" / "04_pm_2.csv", times, [*[2] * (len(times) - 1), 8])
    seen = {
        value for seed in range(10) for value in np.unique(mex(path=tmp_path, seed=seed).x).tolist()
    }
    assert seen == {np.float32(0.33333), np.float32(0.25)}  # rounded to five decimals


@pytest.fixture
def mats(tmp_path: Path) -> Path:
    """Three subjects. Exercise e of subject s has the maximum 1,000, and pressures that tell the
    subject and the exercise."""
    times = steady(2, 11)
    for subject in (1, 2, 3):
        for exercise in range(1, 8):
            values = [subject * 100 + exercise * 10] * (len(times) - 1) + [1000]
            record(tmp_path / "pm" / f"{subject:02d}" / f"{exercise:02d}_pm_1.csv", times, values)
    (tmp_path / "pm" / ".cache").mkdir()
    (tmp_path / "pm" / "01" / "notes.txt").touch()
    return tmp_path / "pm"


def test_clients_have_one_or_two_different_exercises(mats: Path) -> None:
    drawn = []
    for seed in range(4):
        data = mex(path=mats, seed=seed)
        assert (
            data.name == "mex (recorded)"
            and data.classes == 7
            and data.client_names == ("f_01", "f_02", "f_03")
        )
        owner = np.concatenate([[u] * (len(data.train[u]) + len(data.test[u])) for u in range(3)])
        expected = ((owner + 1) * 100 + (data.y + 1) * 10) / 1000
        np.testing.assert_array_equal(
            data.x, np.repeat(expected.astype(np.float32)[:, None], 1280, axis=1)
        )
        for u in range(3):
            rows = np.concatenate([data.train[u], data.test[u]])
            drawn.append(len(np.unique(data.y[rows])))
            assert len(np.unique(rows)) == len(rows) <= 6 and len(data.train[u]) == max(
                1, int(0.8 * len(rows))
            )
    assert set(drawn) == {1, 2}


def test_classes_are_the_legacy_generators_choice(mats: Path) -> None:
    """np.random.seed(1); np.random.choice(list, 2) is the first draw, for the first subject."""
    data = mex(path=mats)
    chosen = set(np.random.RandomState(1).choice(7, 2).tolist())
    assert set(data.y[data.train[0]]) | set(data.y[data.test[0]]) <= chosen


@pytest.mark.parametrize(
    ("count", "drawn", "kept"), [(56, 0.0, 5), (56, 0.9999, 56), (9, 0.0, 1), (1, 0.5, 1)]
)
def test_from_a_tenth_to_all_samples_are_kept(count: int, drawn: float, kept: int) -> None:
    assert _kept(count, drawn) == kept


def test_the_authors_ran_python_2() -> None:
    """Of 56 samples of their first client 48 are kept: 10 for the test, as published. Today's
    randint gives 29 and 6."""
    kept = _kept(56, random.Random(0).random())
    assert (kept, kept - int(0.8 * kept)) == (48, 10)
    assert random.Random(0).randint(5, 56) == 29


def test_seeds(mats: Path) -> None:
    assert np.array_equal(mex(path=mats).x, mex(path=str(mats), seed=0).x)
    assert len({mex(path=mats, seed=seed).y.tobytes() for seed in range(3)}) > 1


def test_repeats_give_a_class_drawn_twice_twice(tmp_path: Path) -> None:
    # One class, so it is drawn twice; two windows.
    record(tmp_path / "01" / "01_pm_1.csv", steady(2, 7.5))
    once = max(len(mex(path=tmp_path, seed=seed).y) for seed in range(12))
    twice = max(len(mex(path=tmp_path, seed=seed, repeats=True).y) for seed in range(12))
    assert (once, twice) == (2, 4)


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (
            0,
            "2019-03-01 10:00:00,1,2",
            "row 1: expected a time stamp and 256 numbers, got 3 columns",
        ),
        (
            2,
            "2019-03-01 10:00:00.3,1,2",
            "row 3: expected 256 finite numbers after '2019-03-01 10:00:00.3'",
        ),
        (
            2,
            stamp(0.25) + ",1" * 257,
            "expected a time stamp and 256 numbers in every row .*line 3, saw 258",
        ),
        (2, stamp(0.25) + ",1" * 255 + ",x", "row 3: expected 256 finite numbers"),
        (2, stamp(0.25) + ",1" * 255 + ",inf", "row 3: expected 256 finite numbers"),
        (2, stamp(0.25) + ",1" * 255 + ",", "row 3: expected 256 finite numbers"),
        (2, "10:00:00" + ",1" * 256, "row 3: expected a time stamp such as .*, got '10:00:00'"),
        (
            2,
            "2019-13-01 10:00:00" + ",1" * 256,
            "row 3: expected a time stamp such as .*, got '2019-13-01",
        ),
        (
            2,
            "1551434400.2" + ",1" * 256,
            "row 3: expected a time stamp such as .*, got '1551434400.2'",
        ),
        (
            2,
            stamp(0) + ",1" * 256,
            "row 3: time stamp '2019-03-01 10:00:00' is earlier than the one in the row before",
        ),
    ],
)
def test_broken_rows_are_refused_by_file_and_row(
    line: int, text: str, message: str, tmp_path: Path
) -> None:
    path = record(tmp_path / "07" / "02_pm_1.csv", steady(10, 6))
    lines = path.read_text().splitlines()
    lines[line] = text
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=rf"07.02_pm_1\.csv: {message}"):
        mex(path=tmp_path)


def test_recordings_of_nothing(tmp_path: Path) -> None:
    path = record(tmp_path / "01" / "02_pm_1.csv", steady(10, 6), [0] * 61)
    with pytest.raises(
        DataError,
        match=r"02_pm_1\.csv: expected pressure above 0, but the largest number in 61 frames is 0",
    ):
        mex(path=tmp_path)
    for content in (b"", b"\xff\xfe\x00" * 50):
        path.write_bytes(content)
        with pytest.raises(
            DataError,
            match=r"02_pm_1\.csv: row 1: expected a time stamp and 256 numbers, got 1 col",
        ):
            mex(path=tmp_path)
    path.write_bytes(b"\xff" + b",1" * 256)
    with pytest.raises(
        DataError, match=r"02_pm_1\.csv: expected a time stamp and 256 numbers in every row .*utf-8"
    ):
        mex(path=tmp_path)


@pytest.mark.parametrize("name", ["08_pm_1.csv", "00_pm_1.csv", "04_act_1.csv", "pm.csv"])
def test_unknown_exercises_are_refused(name: str, tmp_path: Path) -> None:
    record(tmp_path / "01" / name, steady(10, 6))
    with pytest.raises(
        DataError, match=rf"{name}: expected a name such as 04_pm_1\.csv: an exercise from 01 to 07"
    ):
        mex(path=tmp_path)


def test_empty_folders_are_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(DataError, match="expected a folder for each subject, found none"):
            mex(path=folder)
    (tmp_path / "01").mkdir()
    with pytest.raises(DataError, match=r"01: expected recordings .* found none in 0 exercises"):
        mex(path=tmp_path)


def published(folder: Path, features: int = 1280, label: int = 6) -> None:
    """One user with three training samples and a test sample."""
    folder.mkdir()
    for name, count in (("train", 3), ("test", 1)):
        samples = {"x": [[0.5] * features] * count, "y": [float(label)] * count}
        content = {"users": ["f_30"], "user_data": {"f_30": samples}, "num_samples": [count]}
        (folder / f"{name}.json").write_text(json.dumps(content))


def test_published_federation_comes_first(places: Path) -> None:
    published(places / "FedMEx")
    write_test_part(places / "mex")
    data = mex()
    assert (
        data.name == "mex" and data.train.sizes.tolist() == [3] and data.test.sizes.tolist() == [1]
    )
    assert data.x.dtype == np.float32 and data.classes == 7 and data.client_names == ("f_30",)
    # The files of the published names are taken, whatever else is in the folder.
    (places / "FedMEx" / "retrain.json").touch()
    assert mex().name == "mex"
    with pytest.raises(ConfigError, match="train_fraction does not apply to the published mex"):
        mex(train_fraction=0.5)


def test_published_federation_in_leafs_layout(places: Path) -> None:
    published(places / "FedMEx")
    for name in ("train", "test"):
        (places / "FedMEx" / name).mkdir()
        (places / "FedMEx" / f"{name}.json").rename(places / "FedMEx" / name / "mex_all_data.json")
    data = mex()
    assert (
        data.name == "mex" and data.train.sizes.tolist() == [3] and data.test.sizes.tolist() == [1]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": 60}, r"expected 1280 numbers .* shape \(60,\)"),
        ({"label": 7}, "labels .* 0 to 6, .* has 7"),
    ],
)
def test_other_published_files_are_refused(
    options: dict[str, int], message: str, places: Path
) -> None:
    published(places / "FedMEx", **options)
    with pytest.raises(DataError, match=rf"FedMEx: {message}"):
        mex()


def write_test_part(folder: Path, split: int = 1) -> None:
    """Two users with five test samples each, and one with a single sample."""
    folder.mkdir()
    owner = np.array([0] * 5 + [1] * 5 + [2])
    x = np.arange(11)[:, None] * np.ones(1280) / 11
    np.savez(
        folder / "fed_mex_TESTONLY.npz",
        x=x,
        y=owner,
        client_id=owner,
        split=np.full(11, split),
        users=np.array(["a", "b", "c"]),
    )  # type: ignore[arg-type]


def test_the_test_part_alone_is_split_again_and_says_so(places: Path) -> None:
    write_test_part(places / "FedMEx")
    data = mex()
    assert data.name == "mex (test part)" and data.client_names == ("a", "b", "c")
    assert data.train.sizes.tolist() == [4, 4, 1] and data.test.sizes.tolist() == [1, 1, 0]
    rows = [sorted([*data.train[u], *data.test[u]]) for u in range(3)]
    assert rows == [[*range(5)], [*range(5, 10)], [10]]
    assert mex(train_fraction=0.4).train.sizes.tolist() == [2, 2, 1]
    assert not np.array_equal(data.train.rows, mex(seed=1).train.rows)


def test_the_test_part_holds_test_samples_only(places: Path) -> None:
    write_test_part(places / "FedMEx", split=0)
    with pytest.raises(
        DataError, match=r"TESTONLY\.npz: expected test samples only .* 11 are marked for training"
    ):
        mex()


def test_without_files(places: Path) -> None:
    with pytest.raises(
        DataError, match=r"mex \(test part\): fed_mex_TESTONLY.npz not found in .*FedMEx.*path="
    ):
        mex(part="test")
    with pytest.raises(ConfigError, match="repeats applies only to mex from recordings"):
        mex(repeats=True)


def test_the_real_test_part(real: Path) -> None:
    data = mex()
    assert (
        data.name == "mex (test part)"
        and data.clients == 30
        and data.x.shape == (250, 1280)
        and data.classes == 7
    )
    assert data.x.min() == 0 and data.x.max() == 1
    assert len(np.unique(np.concatenate([data.train.rows, data.test.rows]))) == 250
    # The first draw of the authors' seed gives the exercises of their first client, by number.
    first = data.y[np.concatenate([data.train[0], data.test[0]])]
    assert set(first.tolist()) == set(np.random.RandomState(1).choice(7, 2).tolist()) == {3, 5}
    assert len(first) == 10 and data.client_names == tuple(f"f_{s}" for s in SUBJECT_ORDER)
    assert ((data.label_counts() + data.label_counts("test") > 0).sum(axis=1) <= 2).all()
