"""The names of clients as a column."""

from __future__ import annotations

import hashlib
import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import DataError
from fedkin.data.client_names import ClientNames
from fedkin.data.digest import add_array, data_digest
from fedkin.data.federated import FederatedData
from fedkin.data.packed import DESCRIPTION, open_packed, pack, verify

NAMES = ("north", "süd", "", "日本", "north\0", "a\ud800", "01", "1")


@pytest.fixture
def data() -> FederatedData:
    return replace(fk.data.synthetic(clients=8, samples=4, seed=1), client_names=NAMES)


def test_a_column_is_the_sequence_that_was_given() -> None:
    column = ClientNames.of(NAMES)
    assert (
        column == NAMES
        and NAMES == column
        and column == list(NAMES)
        and column == ClientNames.of(iter(NAMES))
    )
    assert (
        tuple(column) == NAMES
        and [column[i] for i in range(8)] == list(NAMES)
        and column[-1] == "1"
    )
    assert list(reversed(column)) == list(reversed(NAMES)) and hash(column) == hash(NAMES)
    assert (
        column != NAMES[:-1]
        and column != (*NAMES[:-1], "2")
        and column != ("x", *NAMES[1:])
        and column != "north"
    )
    assert (
        ClientNames.of([1, 2]) == ("1", "2") and ClientNames.of(()) == () and not ClientNames.of([])
    )
    assert all(type(name) is str for name in ClientNames.of(np.array(["a", "b"])))
    for index in (8, -9):
        with pytest.raises(IndexError):
            _ = column[index]


@pytest.mark.parametrize(
    "part",
    [slice(3), slice(2, 6), slice(-3, None), slice(5, 2), slice(None, None, -2), slice(8, 9)],
)
def test_a_slice_is_a_column(part: slice) -> None:
    names = ClientNames.of(NAMES)[part]
    assert isinstance(names, ClientNames) and names == NAMES[part] and names.is_whole()


def test_names_are_found_exactly() -> None:
    column = ClientNames.of((*NAMES, "north"))
    assert column.positions("north").tolist() == [0, 8] and column.index("north") == 0
    assert column.positions("1").tolist() == [7] and column.positions("01").tolist() == [6]
    assert "日本" in column and "" in column and "nort" not in column and 1 not in column
    assert (
        column.positions("unknown").tolist() == []
        and ClientNames.of(()).positions("a").tolist() == []
    )


def test_names_with_one_checksum_are_distinguished() -> None:
    column = ClientNames.of(("codding", "gnu"))  # whose CRC-32 is the same
    assert column._by_checksum[0][0] == column._by_checksum[0][1]
    assert column.positions("codding").tolist() == [0] and column.positions("gnu").tolist() == [1]


def test_a_million_names_are_two_arrays() -> None:
    column = ClientNames.of(f"client {i}" for i in range(1_000_000))
    assert len(column) == 1_000_000 and column[999_999] == "client 999999"
    # 8 bytes and the letters each; a tuple of strings takes more than 60 MB.
    assert column.nbytes < 25e6
    assert column.positions("client 123456").tolist() == [123456]


def test_names_survive_pickling(data: FederatedData) -> None:
    assert data.client_names is not None and "1" in data.client_names  # with the table of checksums
    again = pickle.loads(pickle.dumps(data))
    assert again.client_names == NAMES and again.client_names.positions("süd").tolist() == [1]


def test_lists_and_tuples_are_served(data: FederatedData) -> None:
    assert (
        isinstance(data.client_names, ClientNames)
        and replace(data, client_names=list(NAMES)).client_names == NAMES
    )
    assert replace(data, name="b").client_names == NAMES
    assert data.select(np.array([1, 0, 1])).client_names == [NAMES[1], NAMES[0], NAMES[1]]
    with pytest.raises(
        DataError, match="client_names must have one entry for each of 8 clients, got 2"
    ):
        replace(data, client_names=["a", "b"])


@pytest.mark.parametrize("names", [None, NAMES, ("it's", "b"), ("alone",)])
def test_the_digest_of_data_equals_the_digest_with_a_tuple_of_names(
    names: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedkin.data.digest._BLOCK_NAMES", 3)
    N = 8 if names is None else len(names)
    data = replace(fk.data.synthetic(clients=N, samples=4), client_names=names)
    digest = hashlib.sha256(repr((data.name, data.classes, names)).encode())
    parts = (
        data.x,
        data.y,
        data.train.rows,
        data.train.offsets,
        data.test.rows,
        data.test.offsets,
        None,
    )
    for part in parts:
        add_array(digest, part)
    assert data_digest(data) == digest.hexdigest()


def test_packed_names_are_mapped(data: FederatedData, tmp_path: Path) -> None:
    names = pack(data, tmp_path / "d").client_names
    assert (
        isinstance(names, ClientNames) and names == NAMES and isinstance(names.text.base, np.memmap)
    )
    assert "client_names" not in json.loads((tmp_path / "d" / DESCRIPTION).read_text())
    verify(tmp_path / "d")


@pytest.mark.parametrize("names", [None, NAMES])
def test_a_folder_with_names_in_its_description_is_opened(
    data: FederatedData, tmp_path: Path, names: tuple[str, ...] | None
) -> None:
    """As they were written before names were arrays."""
    data = replace(data, client_names=names)
    folder = tmp_path / "d"
    pack(data, folder)
    about = json.loads((folder / DESCRIPTION).read_text()) | {"client_names": names}
    about["files"] = {
        name: size for name, size in about["files"].items() if not name.startswith("client_names")
    }
    for path in folder.glob("client_names.*"):
        path.unlink()
    (folder / DESCRIPTION).write_text(json.dumps(about))
    assert open_packed(folder).client_names == names and data_digest(
        open_packed(folder)
    ) == data_digest(data)
    verify(folder)


def test_damaged_names_are_refused(data: FederatedData, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    pack(data, folder)
    path = folder / "client_names.text.npy"
    whole = np.load(path)
    content = path.read_bytes()
    np.save(path, np.where(whole == ord("n"), 255, whole).astype(np.uint8))
    with pytest.raises(DataError, match="its files differ from the packed ones"):
        verify(folder)
    path.write_bytes(content)
    np.save(folder / "client_names.offsets.npy", np.arange(9))
    with pytest.raises(DataError, match="the names of clients are damaged"):
        open_packed(folder)
    about = json.loads((folder / DESCRIPTION).read_text())
    del about["files"]["client_names.offsets.npy"]
    (folder / DESCRIPTION).write_text(json.dumps(about))
    with pytest.raises(DataError, match="it is damaged"):
        open_packed(folder)
