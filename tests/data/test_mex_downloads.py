"""Fed-MEx from the network: the authors' files by their ids, and UCI's recordings, which must hold
the published test samples."""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import ChecksumError, ConfigError, DataError
from fedkin.data import mex_recordings
from fedkin.data.download import cache_folder
from fedkin.data.mex import SUBJECT_ORDER, mex
from tests.data.conftest import Web
from tests.data.test_mex import record, steady, write_test_part

MODULE = importlib.import_module("fedkin.data.mex")  # fedkin.data.mex is the function
SUBJECTS = [f"{subject:02d}" for subject in range(1, 31)]


def git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def leaf(samples: dict[str, list[tuple[list[float], int]]]) -> bytes:
    """A file in LEAF's layout: features and labels of each user."""
    data = {
        user: {"x": [x for x, _ in pairs], "y": [float(y) for _, y in pairs]}
        for user, pairs in samples.items()
    }
    sizes = [len(pairs) for pairs in samples.values()]
    return json.dumps({"users": [*samples], "user_data": data, "num_samples": sizes}).encode()


@pytest.fixture
def offer(web: Web, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, bytes]], None]:
    """Offers files of the authors on the test's server, with their ids."""

    def offered(files: dict[str, bytes]) -> None:
        ids: dict[str, str | None] = {
            f"{name}/{name}.json": git_id(content) for name, content in files.items()
        }
        web.files |= {f"{name}.json": content for name, content in files.items()}
        monkeypatch.setattr(MODULE, "AUTHORS", replace(MODULE.AUTHORS, files=ids, url=web.url))

    return offered


ONE = {"f_30": [([0.5] * 1280, 6)] * 3}


def test_the_authors_files_are_downloaded_by_their_ids(
    web: Web, offer: Callable[[dict[str, bytes]], None]
) -> None:
    offer({"train": leaf(ONE), "test": leaf({"f_30": ONE["f_30"][:1]})})
    data = mex()
    assert (data.name, data.train.sizes.tolist(), data.test.sizes.tolist()) == ("mex", [3], [1])
    assert mex(part="published").name == "mex" and web.asked == ["train.json", "test.json"]


def test_other_files_than_the_authors_are_refused(
    web: Web, offer: Callable[[dict[str, bytes]], None]
) -> None:
    offer({"train": leaf(ONE), "test": leaf(ONE)})
    web.files["train.json"] += b" "
    with pytest.raises(ChecksumError, match=r"train\.json: expected git id"):
        mex()


def test_the_test_part_is_not_taken_for_the_published_one(
    web: Web, places: Path, offer: Callable[[dict[str, bytes]], None]
) -> None:
    write_test_part(places / "FedMEx")
    offer({"train": leaf(ONE), "test": leaf(ONE)})
    assert mex().name == mex(part="test").name == "mex (test part)" and web.asked == []
    assert mex(part="published").name == "mex"
    assert mex(part="test").name == "mex (test part)"  # where both exist


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part": "all"}, "part must be one of published, test, recordings, got 'all'"),
        ({"part": "test", "path": "."}, "path names recordings, so part must be left out"),
        ({"part": "published", "repeats": True}, "repeats applies only to mex from recordings"),
    ],
)
def test_parts_that_do_not_exist(options: dict[str, Any], message: str, places: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        mex(**options)


# --- the recordings


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the mat: 30 subjects, eight recordings of each, one less of subject 22. The
    pressure tells the subject and the exercise."""
    folder = tmp_path_factory.mktemp("mex") / "pm"
    times = steady(2, 7.5)
    for subject in SUBJECTS:
        for exercise in range(1, 8):
            for side in (1, 2) if exercise == 4 and subject != "22" else (1,):
                pressure = int(subject) * 20 + exercise * 2 + side
                values = [pressure] * (len(times) - 1) + [1000]
                record(folder / subject / f"{exercise:02d}_pm_{side}.csv", times, values)
    return folder


def archive_of(folder: Path, inner: str = "data.zip", leave_out: str = "") -> bytes:
    """UCI's archive: the folders of the sensors in an archive in the archive."""
    nested = io.BytesIO()
    with zipfile.ZipFile(nested, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("act/01/01_act_1.csv", "2019-03-01 10:00:00,1,2,3\n")
        for path in sorted(folder.rglob("*.csv")):
            name = f"pm/{path.relative_to(folder)}"
            if name != leave_out:
                zipped.writestr(name, path.read_bytes())
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as zipped:
        zipped.writestr("README.txt", "MEx")
        zipped.writestr(inner, nested.getvalue())
    return whole.getvalue()


def window(subject: str, exercise: int, side: int = 1) -> list[float]:
    """A published sample: the first window of a recording, which has no frame of 1,000."""
    return [(int(subject) * 20 + exercise * 2 + side) / 1000] * 1280


@pytest.fixture
def uci(web: Web, monkeypatch: pytest.MonkeyPatch) -> Web:
    moved = replace(mex_recordings.ARCHIVE, url=web.url)
    monkeypatch.setattr(mex_recordings, "ARCHIVE", moved)
    return web


def test_recordings_are_downloaded_and_checked_against_the_published_samples(
    uci: Web, recordings: Path, offer: Callable[[dict[str, bytes]], None]
) -> None:
    uci.files["mex.zip"] = archive_of(recordings)
    # Users in the authors' order; subject 07's sample is from the second side.
    samples = {f"f_{s}": [(window(s, 4, 2 if s == "07" else 1), 3)] for s in SUBJECT_ORDER}
    offer({"train": leaf(samples), "test": leaf(samples)})
    data = mex(part="recordings", repeats=True)
    assert data.name == "mex (recorded)"
    assert data.client_names == tuple(f"f_{subject}" for subject in SUBJECT_ORDER)
    assert uci.asked == ["mex.zip", "train.json", "test.json"]
    folder = cache_folder() / "MEx"
    assert [path.name for path in folder.iterdir()] == ["pm"]  # the archive is deleted
    again = mex(path=folder / "pm", repeats=True)
    assert np.array_equal(again.x, data.x) and len(uci.asked) == 3


def test_subjects_are_drawn_in_the_authors_order(recordings: Path) -> None:
    """The first two numbers of np.random.seed(1) are subject 30's, not subject 01's."""
    data = mex(path=recordings)
    drawn = set(np.random.RandomState(1).choice(7, 2).tolist())
    rows = np.concatenate([data.train[0], data.test[0]])
    pressures = {round(1000 * float(value)) for value in data.x[rows, 0]}
    expected = {
        30 * 20 + (label + 1) * 2 + side
        for label in drawn
        for side in ((1, 2) if label == 3 else (1,))
    }
    assert pressures <= expected and set(data.y[rows].tolist()) <= drawn


@pytest.mark.parametrize(
    ("sample", "label"),
    [(window("05", 2), 2), (window("06", 2), 1), ([*window("05", 2)[:-1], 0.2], 1)],
)
def test_recordings_without_a_published_sample_are_refused(
    sample: list[float], label: int, uci: Web, recordings: Path, places: Path
) -> None:
    """Of another exercise, of another subject, and with one number changed."""
    uci.files["mex.zip"] = archive_of(recordings)
    (places / "FedMEx").mkdir()
    for name in ("train", "test"):
        samples = {f"f_{s}": [(window(s, 2), 1)] for s in SUBJECTS} | {"f_05": [(sample, label)]}
        (places / "FedMEx" / f"{name}.json").write_bytes(leaf(samples))
    with pytest.raises(DataError, match=r"05: expected the published test samples of f_05"):
        mex(part="recordings")


def test_an_archive_of_other_recordings_is_refused(uci: Web, recordings: Path) -> None:
    uci.files["mex.zip"] = archive_of(recordings, leave_out="pm/09/05_pm_1.csv")
    with pytest.raises(DataError, match=r"mex\.zip: expected 239 recordings .*, found 238 of 30"):
        mex(part="recordings")
    assert not (cache_folder() / "MEx" / "pm").exists()
    (cache_folder() / "MEx" / "mex.zip").unlink()
    uci.files["mex.zip"] = archive_of(recordings)[:1000]
    with pytest.raises(DataError, match=r"mex\.zip: expected a zip file, but it is damaged"):
        mex(part="recordings")


def test_own_recordings_are_found(recordings: Path, places: Path) -> None:
    assert mex_recordings.locate_recordings() is None
    (places / "MEx").mkdir()
    (places / "MEx" / "pm").symlink_to(recordings)
    assert mex_recordings.locate_recordings() == places / "MEx" / "pm"
    write_test_part(places / "FedMEx")
    with pytest.raises(DataError, match="30: the published samples have no user f_30"):
        mex(part="recordings")
