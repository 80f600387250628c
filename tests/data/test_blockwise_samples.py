"""A user's samples, read a block at a time, into memory or straight into the files of packed
data."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import DataError
from fedkin.data import array_checks, files
from fedkin.data.clean_features import clean_features
from fedkin.data.digest import data_digest
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.parquet import ParquetFeatures

M = 50
X = np.random.default_rng(0).normal(size=(M, 3))
Y = np.arange(M) % 2
OWNERS = np.arange(M) % 5


def write_npz(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "mine.npz", **{"x": X, "y": Y, "client_id": OWNERS} | arrays)
    return folder / "mine.npz"


def write_npy(folder: Path, **arrays: Any) -> Path:
    (folder / "mine").mkdir()
    for name, array in ({"x": X, "y": Y, "client_id": OWNERS} | arrays).items():
        np.save(folder / "mine" / f"{name}.npy", array)
    return folder / "mine"


def write_parquet(folder: Path, x: np.ndarray = X) -> Path:
    import pandas as pd

    table = pd.DataFrame({**{f"f{i}": x[:, i] for i in range(3)}, "y": Y, "client_id": OWNERS})
    table.to_parquet(folder / "mine.parquet", row_group_size=7)
    return folder / "mine.parquet"


WRITERS: list[Callable[[Path], Path]] = [write_npz, write_npy, write_parquet]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_checks, "_BLOCK_BYTES", 10 * 3 * 8)  # ten samples


@pytest.mark.parametrize("write", WRITERS)
def test_a_file_is_packed_a_block_at_a_time(
    write: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A packed file equals the loaded one. It may be larger than a file that is read as a
    whole."""
    path = write(tmp_path)
    inside = fk.data.load(path, scale="none")
    np.testing.assert_array_equal(inside.x, X.astype(np.float32))
    monkeypatch.setattr(files, "check_memory", refuse_large)
    with pytest.raises(DataError, match="too large"):
        files.read_npz(write_npz(tmp_path))
    packed = fk.data.pack(lambda: fk.data.load(path, scale="none"), tmp_path / "packed")
    assert data_digest(packed) == data_digest(inside)
    assert isinstance(packed.x.base, np.memmap)


def refuse_large(parts: dict[str, int], cure: str) -> None:
    """Stands for a machine whose memory takes labels and clients only."""
    if sum(parts.values()) >= X.nbytes:
        raise DataError("too large")


@pytest.mark.parametrize("write", WRITERS)
def test_a_bad_number_is_named_by_its_row_in_the_whole_file(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    bad = X.copy()
    bad[33, 1] = np.inf
    with pytest.raises(DataError, match=r"row 33 holds .*infinity.*1 such rows"):
        fk.data.load(write(tmp_path, x=bad))


def test_rows_that_are_not_finite_are_counted_over_all_blocks() -> None:
    bad = X.copy()
    bad[[4, 31, 32], 0] = 1e200
    with pytest.raises(
        DataError, match=r"row 4 holds a number too large for float32.*\(3 such rows\)"
    ):
        clean_features(bad, "mine")
    bad[40, 2] = np.inf
    with pytest.raises(
        DataError, match=r"row 4 holds NaN or infinity|row 40 holds NaN or infinity \(1 such rows\)"
    ):
        clean_features(bad, "mine")


def test_groups_of_a_parquet_file_are_read_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    features = ParquetFeatures(write_parquet(tmp_path), ["f0", "f1", "f2"])
    read = []
    whole = pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile,
        "read_row_group",
        lambda self, group, **more: read.append(group) or whole(self, group, **more),
    )
    np.testing.assert_array_equal(clean_features(features, "mine"), X.astype(np.float32))
    assert read == list(range(8)) and features.shape == (M, 3)


def test_a_data_set_of_hugging_face_is_packed_a_block_at_a_time(tmp_path: Path) -> None:
    hf = pytest.importorskip("datasets", reason="pip install 'fedkin[hf]'")
    images = np.arange(M * 4, dtype=np.uint8).reshape(M, 2, 2)
    column = hf.Array2D((2, 2), "uint8")
    rows = hf.Dataset.from_dict({"image": images.tolist(), "label": Y, "who": OWNERS}).cast_column(
        "image", column
    )
    packed = fk.data.pack(lambda: fk.data.from_hf(rows, by="who"), tmp_path / "packed")
    # Numbers of a column of arrays stay as they are.
    np.testing.assert_array_equal(packed.x, images)
    assert data_digest(packed) == data_digest(fk.data.from_hf(rows, by="who"))


def test_a_mapped_array_is_packed_without_reading_it_whole(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    packed = fk.data.pack(lambda: fk.data.from_arrays(x, Y, clients=OWNERS), tmp_path / "packed")
    np.testing.assert_array_equal(packed.x, X.astype(np.float32))


def test_compressed_members_are_read_and_damaged_ones_refused(tmp_path: Path) -> None:
    stored = write_npz(tmp_path)
    expected = fk.data.load(stored)
    np.savez_compressed(tmp_path / "small.npz", x=X, y=Y, client_id=OWNERS)
    np.testing.assert_array_equal(fk.data.load(tmp_path / "small.npz").x, expected.x)
    content = bytearray(stored.read_bytes())
    with zipfile.ZipFile(stored) as archive:
        content[archive.getinfo("x.npy").header_offset + 300] ^= 1
    stored.write_bytes(content)
    with pytest.raises(DataError, match=r"mine\.npz.*the checksum of x\.npy differs"):
        fk.data.load(stored)


def test_an_array_in_column_order_and_one_without_samples(tmp_path: Path) -> None:
    np.testing.assert_array_equal(
        fk.data.load(write_npz(tmp_path, x=np.asfortranarray(X))).x, X.astype(np.float32)
    )
    with pytest.raises(DataError, match="x must be numbers"):
        fk.data.load(write_npz(tmp_path, x=np.zeros((0, 3)), y=Y[:0], client_id=OWNERS[:0]))
    with pytest.raises(DataError, match="object"):
        fk.data.load(write_npz(tmp_path, x=np.array([[{}]], object)))


def test_a_file_shorter_than_its_header_says(tmp_path: Path) -> None:
    folder = write_npy(tmp_path)
    path = folder / "x.npy"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match=r"x\.npy: expected an npy file.*damaged"):
        fk.data.load(folder)
    path.unlink()
    with pytest.raises(DataError, match=r"there is no array 'x'|unknown array 'x'"):
        fk.data.load(folder)


def test_nothing_is_left_where_packing_fails(tmp_path: Path) -> None:
    bad = X.copy()
    bad[45, 0] = np.nan
    path = write_npz(tmp_path, x=bad)
    for _ in range(2):  # the folder is free for another try
        with pytest.raises(DataError, match="row 45"):
            fk.data.pack(lambda: fk.data.load(path), tmp_path / "packed")
    assert not list((tmp_path / "packed").iterdir())


@pytest.mark.parametrize("harm", ["change", "remove"])
def test_arrays_that_the_user_mapped_and_whose_file_changes_under_a_run(
    harm: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.npy"
    np.save(path, X.astype(np.float32))
    own = Ragged.of(np.array_split(np.arange(M), 5))
    data = FederatedData(
        name="mapped", x=np.load(path, mmap_mode="r"), y=Y, classes=2, train=own, test=own
    )

    def damage(record: dict[str, Any]) -> None:
        if record["round"] == 1:
            os.utime(path, ns=(1, 1)) if harm == "change" else path.unlink()

    with pytest.raises(DataError, match=r"x\.npy has been changed or removed.*start the run again"):
        fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=3, cohort=3, callbacks=damage)
