from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedkin.core.errors import DataError
from fedkin.data.files import (
    check_labels,
    read_cifar,
    read_idx,
    read_idx_pair,
    read_npz,
    read_table,
)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["u1", "i1", "i2", "i4", "f4", "f8"])
@pytest.mark.parametrize("shape", [(7,), (3, 2), (2, 3, 4), (0,), (2, 0)])
def test_idx_gives_back_the_written_values(
    shape: tuple[int, ...],
    kind: str,
    packed: bool,
    to_idx: Callable[[np.ndarray], bytes],
    tmp_path: Path,
) -> None:
    array = np.random.default_rng(0).normal(0, 50, shape).astype(np.int8).astype(kind)
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(to_idx(array)) if packed else to_idx(array))
    read = read_idx(path)
    assert read.dtype == array.dtype and read.dtype.isnative
    np.testing.assert_array_equal(read, array)


GOOD = struct.pack(">BBBB2I", 0, 0, 8, 2, 2, 3) + bytes(6)


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        GOOD[:3],
        GOOD[:9],  # cut in the header
        GOOD[:-1],
        GOOD + b"x",
        b"\x01" + GOOD[1:],  # wrong magic
        GOOD[:2] + b"\x07" + GOOD[3:],  # no such type
        gzip.compress(GOOD, mtime=0)[:-5],
        gzip.compress(GOOD, mtime=0)[:12] + b"\xff\xff" + gzip.compress(GOOD, mtime=0)[14:],
        struct.pack(">BBBB3I", 0, 0, 8, 3, 2**31, 2**31, 2**31),  # overflows 64 bits
    ],
)
def test_damaged_idx_is_refused_by_name(damaged: bytes, tmp_path: Path) -> None:
    path = tmp_path / "train-images"
    path.write_bytes(damaged)
    with pytest.raises(DataError, match="train-images"):
        read_idx(path)


def test_missing_file_and_folder_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing-here.*no such file"):
        read_idx(tmp_path / "nothing-here")
    with pytest.raises(DataError, match=tmp_path.name):
        read_idx(tmp_path)


def test_images_and_labels_must_fit(tmp_path: Path, to_idx: Callable[[np.ndarray], bytes]) -> None:
    images = tmp_path / "images"
    labels = tmp_path / "labels"
    images.write_bytes(to_idx(np.zeros((3, 2, 2), np.uint8)))
    labels.write_bytes(to_idx(np.array([0, 1, 9], np.uint8)))
    x, y = read_idx_pair(images, labels)
    assert x.shape == (3, 2, 2) and y.tolist() == [0, 1, 9]
    labels.write_bytes(to_idx(np.array([0, 1], np.uint8)))
    with pytest.raises(DataError, match="expected 3 labels"):
        read_idx_pair(images, labels)
    labels.write_bytes(to_idx(np.array([0, 10, 1], np.uint8)))
    with pytest.raises(DataError, match=r"labels.*0 to 9, but row 1 has 10"):
        read_idx_pair(images, labels)
    with pytest.raises(DataError, match="8-bit images"):
        read_idx_pair(labels, labels)


def test_cifar_record_is_label_then_three_planes(tmp_path: Path) -> None:
    pixels = np.arange(2 * 3072, dtype=np.uint32).astype(np.uint8).reshape(2, 3, 32, 32)
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(
        b"".join(
            bytes([label]) + image.tobytes() for label, image in zip((7, 2), pixels, strict=True)
        )
    )
    x, y = read_cifar(path)
    assert y.tolist() == [7, 2] and x.shape == (2, 32, 32, 3)
    for image in range(2):
        for channel in range(3):
            np.testing.assert_array_equal(x[image, :, :, channel], pixels[image, channel])


@pytest.mark.parametrize("raw", [b"", bytes(3072), bytes(3074), bytes([10]) + bytes(3072)])
def test_damaged_cifar_is_refused_by_name(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(raw)
    with pytest.raises(DataError, match="data_batch_1"):
        read_cifar(path)


def test_npz_is_never_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "evil.npz"
    np.savez(path, x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match=r"evil\.npz"):
        read_npz(path)


def test_damaged_npz_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez_compressed(path, x=np.arange(1000), y=np.arange(1000))
    whole = path.read_bytes()
    assert set(read_npz(path, ("x",))) == {"x", "y"}
    with pytest.raises(DataError, match=r"mine\.npz.*z is not among"):
        read_npz(path, ("x", "z"))
    flipped = bytearray(whole)
    flipped[100] ^= 255
    for raw in (b"", whole[:-30], whole[: len(whole) // 2], bytes(flipped)):
        path.write_bytes(raw)
        with pytest.raises(DataError, match=r"mine\.npz"):
            read_npz(path)
    with path.open("wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(DataError, match="single array"):
        read_npz(path)


def test_tables_read_alike_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    table = pd.DataFrame({"x0": [0.5, 1.5], "y": [0, 1]})
    for name in ("t.csv", "t.csv.gz", "t.parquet"):
        path = tmp_path / name
        table.to_parquet(path) if name.endswith("parquet") else table.to_csv(path, index=False)
        pd.testing.assert_frame_equal(read_table(path), table)
        path.write_bytes(path.read_bytes()[:10] if name != "t.csv" else b"")
        with pytest.raises(DataError, match=name):
            read_table(path)
    (tmp_path / "empty.csv").write_text("x0,y\n")
    with pytest.raises(DataError, match="found none"):
        read_table(tmp_path / "empty.csv")


@pytest.mark.parametrize(
    "written", [["01", "1"], ["1", "1e3"], ["1", "01.0"], ["9" * 30, "1"], ["+1", "2"]]
)
def test_names_that_look_like_numbers_stay_as_they_are_written(
    written: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,x0\n" + "".join(f"{name},01\n" for name in written))
    table = read_table(path, "id")
    assert table["id"].tolist() == written and table["x0"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("written", "kind"), [(["10", "2"], "i"), (["-1", "2"], "i"), (["1.5", "2.0"], "f")]
)
def test_names_that_are_numbers_are_read_as_such(
    written: list[str], kind: str, tmp_path: Path
) -> None:
    """So clients are numbered in the order of their numbers, whatever the file's format."""
    path = tmp_path / "t.csv"
    path.write_text("id,x0\n" + "".join(f"{name},1\n" for name in written))
    column = read_table(path, "id")["id"]
    assert column.dtype.kind == kind and [str(name) for name in column] == written
    assert read_table(path, "another").equals(pd.read_csv(path))


@pytest.mark.parametrize(
    "wrong", [[0, -1], [0, 3], [0.5, 1.0], [np.nan, 1.0], [np.inf, 1.0], ["a", "b"], [2**64 - 1, 0]]
)
def test_labels_out_of_range_are_refused(wrong: list[float]) -> None:
    with pytest.raises(DataError, match=r"here\.npz: labels"):
        check_labels(np.array(wrong), 3, Path("here.npz"))
