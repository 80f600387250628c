"""Heart disease by hospital: FLamby's split, from UCI's files or one table."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from fedkin.core.errors import ChecksumError, ConfigError, DataError
from fedkin.data import heart_disease as make
from fedkin.data.download import cache_folder
from fedkin.data.heart_disease import COLUMNS, FEATURES, HEART, HOSPITALS

MODULE = sys.modules["fedkin.data.heart_disease"]  # whose name in the package is the function's
SIZES = {"train": [199, 172, 30, 85], "test": [104, 89, 16, 45]}  # FLamby's README


def patient(rng: np.random.Generator, ill: int) -> list[str]:
    row = [
        40 + rng.integers(30),
        rng.integers(2),
        rng.integers(1, 5),
        130 + rng.integers(20),
        200 + rng.integers(50),
    ]
    row += [
        rng.integers(2),
        rng.integers(3),
        120 + rng.integers(40),
        rng.integers(2),
        rng.integers(30) / 10,
    ]
    return [str(value) for value in row] + ["?", "?", "?", str(ill * rng.integers(1, 5))]


def uci(patients: int = 20) -> dict[str, str]:
    """Four small files in UCI's form; the first patient of each has an unknown cholesterol."""
    rng = np.random.default_rng(0)
    files = {}
    for name in HEART.files:
        rows = [patient(rng, i % 2) for i in range(patients)]
        rows[0][COLUMNS.index("chol")] = "?"
        files[name] = "".join(",".join(row) + "\n" for row in rows)
    return files


@pytest.fixture
def place(places: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put files into $FEDKIN_DATA, their checksums being the published ones."""

    def put(files: dict[str, str], folder: Path = places / "HeartDisease") -> Path:
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        sums: dict[str, str | None] = {
            n: hashlib.md5(t.encode()).hexdigest() for n, t in files.items()
        }
        monkeypatch.setattr(MODULE, "HEART", replace(HEART, files=sums))
        return folder

    return put


def test_flambys_split(real: Path) -> None:
    data = make()
    assert {
        split: data.part(split).sizes.tolist() for split in SIZES
    } == SIZES and data.client_names == HOSPITALS
    positives = data.label_counts("train") + data.label_counts("test")
    assert positives[:, 1].tolist() == [139, 98, 45, 101]
    larger = data.label_counts("test").max(axis=1) / data.test.sizes
    # Another draw would have others.
    np.testing.assert_allclose(larger, [0.538, 0.629, 0.938, 0.778], atol=5e-4)


@pytest.mark.parametrize("scaling", ["hospital", "pooled"])
def test_training_patients_have_mean_zero_and_deviation_one(real: Path, scaling: str) -> None:
    data = make(scaling=scaling)
    groups = [data.train.rows] if scaling == "pooled" else [data.train[h] for h in range(4)]
    for rows in groups:
        np.testing.assert_allclose(data.x[rows].mean(axis=0), 0, atol=1e-5)
        deviation = data.x[rows].std(axis=0, ddof=1)
        np.testing.assert_allclose(deviation[deviation > 0], 1, rtol=1e-5)
    unknown = data.x[data.train[2], FEATURES.index("chol")]  # never measured in Switzerland
    assert np.ptp(unknown) == 0 and (unknown[0] == 0) == (scaling == "hospital")
    assert make(scaling="hospital").x.std() != make(scaling="pooled").x.std()


def test_ucis_files_and_one_table_are_the_same(place: Callable[..., Path], places: Path) -> None:
    files = uci()
    folder = place(files)
    apart = make()
    assert apart.x.shape == (4 * 19, 13)  # without the first patients
    for name in files:
        (folder / name).unlink()
    joined = [
        f"{hospital},{line}"
        for hospital, text in zip(HOSPITALS, files.values(), strict=True)
        for line in text.split()
    ]
    (folder / "heart.csv").write_text(
        "\n".join([",".join(("hospital", *COLUMNS)), *joined]).replace("?", "") + "\n"
    )
    together = make()
    assert np.array_equal(apart.x, together.x) and np.array_equal(apart.y, together.y)
    assert np.array_equal(apart.test.rows, together.test.rows)


def test_chest_pain_and_ecg_become_columns(place: Callable[..., Path]) -> None:
    files = uci()
    place(files)
    data = make(scaling="pooled")
    rows = [line.split(",") for text in files.values() for line in text.split()[1:]]
    for column, (name, value) in enumerate(
        [("cp", 2), ("cp", 3), ("cp", 4), ("restecg", 1), ("restecg", 2)], start=8
    ):
        is_so = np.array([int(row[COLUMNS.index(name)]) == value for row in rows])
        assert FEATURES[column] == f"{name}_{value}"
        assert np.array_equal(data.x[:, column] > 0, is_so)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """A server on loopback, and the folder that it has."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "site").mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "site"))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", tmp_path / "site"
    server.shutdown()
    thread.join()
    server.server_close()


def test_downloaded_once_and_checked(
    site: tuple[str, Path], place: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, folder = site
    place(uci(), folder)
    # With the checksums of these files.
    monkeypatch.setattr(MODULE, "HEART", replace(MODULE.HEART, url=url))
    data = make()
    assert sorted(path.name for path in (cache_folder() / "HeartDisease").iterdir()) == sorted(
        HEART.files
    )
    for path in folder.iterdir():
        path.write_text("gone")
    assert np.array_equal(make().x, data.x)
    (cache_folder() / "HeartDisease" / "processed.va.data").unlink()
    with pytest.raises(ChecksumError, match="expected md5"):
        make()


def test_the_publishers_files() -> None:
    assert (
        HEART.url
        and HEART.url.startswith("https://archive.ics.uci.edu/")
        and all(HEART.files.values())
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda text: text.replace(",?", ",many", 1),
            r"processed.va.data: row 1: expected a number or \? as chol, got",
        ),
        (lambda text: text.replace("\n", ",1\n"), "expected the columns age, sex"),
        (
            lambda text: "".join(text.splitlines(True)[:4]),
            "expected at least 6 patients of va without a missing value",
        ),
    ],
)
def test_damaged_files(
    place: Callable[..., Path], change: Callable[[str], str], message: str
) -> None:
    files = uci()
    files["processed.va.data"] = change(files["processed.va.data"])
    place(files)
    with pytest.raises(DataError, match=message):
        make()


def test_another_scaling() -> None:
    with pytest.raises(ConfigError, match="did you mean 'pooled'"):
        make(scaling="pool")
