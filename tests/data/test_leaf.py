from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import DataError
from fedkin.data.leaf import (
    LeafFiles,
    find_leaf_folder,
    leaf,
    read_leaf,
    read_leaf_arrays,
    split_files,
)
from fedkin.data.mex import PUBLISHED

TRAIN = {"b": ([[1, 2.5], [3, 4]], [0, 1]), "a": ([[5, 6]], [2])}
TEST = {"b": ([[7, 8]], [1])}

Users = dict[str, tuple[list[Any], list[Any]]]


def content(users: Users) -> dict[str, Any]:
    return {
        "users": list(users),
        "user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()},
        "num_samples": [len(y) for _, y in users.values()],
    }


def write(folder: Path, train: Users = TRAIN, test: Users = TEST) -> Path:
    for name, users in (("train", train), ("test", test)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "all_data.json").write_text(json.dumps(content(users)))
    return folder


def check(files: LeafFiles) -> None:
    """TRAIN and TEST, all training samples first."""
    assert (
        files.users == ("b", "a")
        and isinstance(files.x, np.ndarray)
        and files.x.dtype == np.float32
    )
    assert files.x.tolist() == [[1, 2.5], [3, 4], [5, 6], [7, 8]] and files.y.tolist() == [
        0,
        1,
        2,
        1,
    ]
    assert [files.train[u].tolist() for u in range(2)] == [[0, 1], [2]]
    assert [files.test[u].tolist() for u in range(2)] == [[3], []]


def test_folders_of_train_and_test(tmp_path: Path) -> None:
    check(read_leaf(write(tmp_path)))


def test_two_files_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "my_train_9.json").write_text(json.dumps(content(TRAIN)))
    (tmp_path / "my_test_9.json").write_text(json.dumps(content(TEST)))
    (tmp_path / "._my_test_9.json").write_bytes(b"left by a file manager")
    check(read_leaf(tmp_path))


def test_users_spread_over_files(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "train" / "all_data.json").unlink()
    for number, user in enumerate(TRAIN):
        (tmp_path / "train" / f"part_{number}.json").write_text(
            json.dumps(content({user: TRAIN[user]}))
        )
    check(read_leaf(tmp_path))


def test_text_stays_text(tmp_path: Path) -> None:
    folder = write(tmp_path, {"u": (["one", "two"], [0, 1])}, {"u": (["three"], ["1"])})
    files = read_leaf(folder)
    assert files.x == ("one", "two", "three") and files.y.tolist() == [0, 1, 1]
    with pytest.raises(DataError, match="expected numbers as x, got text such as 'one'"):
        leaf(folder)


def test_a_federation(tmp_path: Path) -> None:
    data = leaf(write(tmp_path / "mine"))
    assert data.name == "mine" and data.classes == 3 and data.client_names == ("b", "a")
    assert data.x[data.test[0]].tolist() == [[7, 8]] and data.test.sizes.tolist() == [1, 0]
    assert leaf(tmp_path / "mine", classes=62).classes == 62
    with pytest.raises(
        DataError, match="mine: labels must be whole numbers from 0 to 1, but row 2 has 2"
    ):
        leaf(tmp_path / "mine", classes=2)


@pytest.mark.parametrize("labels", [[1, 4], [1.0, 4.0], ["1", "4"], ["1.0", "4.0"]])
def test_labels_may_be_written_in_any_way(labels: list[Any], tmp_path: Path) -> None:
    files = read_leaf(write(tmp_path, {"u": ([[1], [2]], labels)}, {}))
    assert files.y.tolist() == [1, 4] and files.y.dtype == np.int64


def test_images_keep_their_shape(tmp_path: Path) -> None:
    data = leaf(write(tmp_path, {"u": ([[[1, 2, 3], [4, 5, 6]]], [0])}, {}))
    assert data.x.shape == (1, 2, 3)


def test_absurd_labels_need_to_be_meant(tmp_path: Path) -> None:
    folder = write(tmp_path, {"u": ([[1], [2]], [0, 10**9])}, {})
    with pytest.raises(
        DataError,
        match=r"label 1000000000 is larger than the number of samples, 2.*classes=1000000001",
    ):
        leaf(folder)
    assert leaf(folder, classes=10**9 + 1).classes == 10**9 + 1


@pytest.mark.parametrize(
    ("users", "message"),
    [
        (
            {"u": ([[1], [2]], [0])},
            "user 'u': x and y must be lists of one length, got 2 entries and 1 entries",
        ),
        (
            {"u": ([[1, 2], [3]], [0, 1])},
            r"user 'u': samples have different shapes, with lengths \[1, 2\]",
        ),
        (
            {"u": ([[1, 2]], [0]), "v": ([[1]], [0])},
            r"user 'v' has samples of \[1\] numbers, but user 'u' of \[2\]",
        ),
        (
            {"u": (["a"], [0]), "v": ([[1]], [0])},
            r"user 'v' has samples of \[1\] numbers, but user 'u' of text",
        ),
        ({"u": ([[1, "2"]], [0])}, "user 'u': x must be lists of numbers"),
        ({"u": ([1, 2], [0, 1])}, "user 'u': x must be lists of numbers"),
        ({"u": ([[]], [0])}, "user 'u': x must be lists of numbers"),
        ({"u": ([[None]], [0])}, "user 'u': x must be lists of numbers"),
        ({"u": ([[1], [float("nan")]], [0, 1])}, "user 'u': features must be finite, but sample 1"),
        ({"u": ([[1], [1e39]], [0, 1])}, "user 'u': features must be finite, but sample 1"),
        (
            {"u": ([[1], [2]], [0, 1.5])},
            "user 'u': sample 1: labels must be whole numbers from 0, got 1.5",
        ),
        ({"u": ([[1], [2]], [0, -1])}, "user 'u': sample 1: labels .* got -1"),
        ({"u": ([[1], [2]], [0, "four"])}, "user 'u': sample 1: labels .* got 'four'"),
        ({"u": ([[1], [2]], [0, True])}, "user 'u': sample 1: labels .* got True"),
        ({"u": ([[1], [2]], [0, float("inf")])}, "user 'u': sample 1: labels .* got inf"),
        ({"u": ([[1], [2]], [0, None])}, "user 'u': sample 1: labels .* got None"),
        ({"u": ([], [])}, "user 'u' has no training sample"),
        ({}, "expected at least one user, found none"),
    ],
)
def test_bad_samples_are_refused_by_file_and_user(
    users: Users, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=rf"train.all_data\.json: {message}"):
        read_leaf(write(tmp_path, users, {}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"users": None},
            r"expected the key 'users' with a list, found \['num_samples', 'user_data'\]",
        ),
        ({"user_data": None}, "expected the key 'user_data'"),
        (
            {"users": ["b", "a", "c"], "num_samples": [2, 1, 0]},
            "user 'c': expected 'user_data' with keys x and y",
        ),
        ({"users": ["b"], "num_samples": [2]}, "user 'a' has data but is not among 'users'"),
        ({"users": ["b", "a", "b"], "num_samples": [2, 1, 2]}, "user 'b' occurs twice"),
        ({"num_samples": [2, 2]}, "user 'a' has 1 samples, but num_samples says 2"),
        ({"num_samples": [2]}, "'num_samples' must be a list of 2 counts"),
        (
            {"user_data": {"b": {"x": [[1]]}, "a": {}}},
            r"user 'b': expected .* keys x and y, found \['x'\]",
        ),
        (
            {"user_data": {"b": [], "a": []}},
            "user 'b': expected .* keys x and y, found no such object",
        ),
    ],
)
def test_bad_layouts_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path) / "train" / "all_data.json"
    changed = {key: value for key, value in (content(TRAIN) | change).items() if value is not None}
    path.write_text(json.dumps(changed))
    with pytest.raises(DataError, match=rf"all_data\.json: {message}"):
        read_leaf(tmp_path)


def test_num_samples_may_be_left_out(tmp_path: Path) -> None:
    path = write(tmp_path) / "train" / "all_data.json"
    path.write_text(
        json.dumps({key: value for key, value in content(TRAIN).items() if key != "num_samples"})
    )
    check(read_leaf(tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"users": ["b"', "damaged or of another kind"),
        ("", "damaged or of another kind"),
        ("[" * 100_000, "damaged or of another kind"),
        ("[1, 2]", "expected a JSON object with users and user_data, got a list"),
        (
            '{"users": ["u"], "user_data": {"u": {"x": [], "y": []}, "u": {}}}',
            "'u' occurs twice in one object",
        ),
    ],
)
def test_files_that_are_no_such_json(text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path) / "test" / "all_data.json"
    path.write_text(text)
    with pytest.raises(DataError, match=rf"test.all_data\.json: .*{message}"):
        read_leaf(tmp_path)


def test_users_that_occur_twice_or_are_only_tested(tmp_path: Path) -> None:
    write(tmp_path, TRAIN, {"c": ([[1, 2]], [0])})
    with pytest.raises(
        DataError, match=r"test.all_data\.json: user 'c' has test samples but no training samples"
    ):
        read_leaf(tmp_path)
    write(tmp_path)
    (tmp_path / "train" / "more.json").write_text(json.dumps(content({"a": TRAIN["a"]})))
    with pytest.raises(
        DataError, match=r"more\.json: user 'a' occurs twice, first in .*all_data\.json"
    ):
        read_leaf(tmp_path)


def test_other_folders_name_the_expected_files(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "notes.txt").touch()
    with pytest.raises(
        DataError, match=r"expected train/\*\.json and test/\*\.json, .* got notes\.txt, train"
    ):
        read_leaf(tmp_path)
    with pytest.raises(DataError, match="got no such folder"):
        read_leaf(tmp_path / "absent")
    (tmp_path / "train_test.json").touch()  # one file cannot be both
    assert split_files(tmp_path) is None


def test_the_place_of_a_set(places: Path) -> None:
    assert find_leaf_folder(PUBLISHED) is None
    write(places / "fedmex")
    assert find_leaf_folder(PUBLISHED) == places / "fedmex"


ARRAYS = {
    "x": np.array([[1.0], [2.0], [3.0]]),
    "y": np.array([0, 1, 1]),
    "client_id": np.array([1, 0, 1]),
    "split": np.array([0, 0, 1]),
    "users": np.array(["u", "v"]),
}


def test_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **ARRAYS)  # type: ignore[arg-type]
    files = read_leaf_arrays(tmp_path / "a.npz", 2)
    assert files.users == ("u", "v") and files.y.tolist() == [0, 1, 1] and files.x[2] == 3
    assert [files.train[u].tolist() for u in range(2)] == [[1], [0]]
    assert [files.test[u].tolist() for u in range(2)] == [[], [2]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.array(["a", "b", "c"])}, "expected x .* of numbers"),
        ({"x": np.array([[1.0], [np.nan], [3.0]])}, ".*row 1 holds NaN"),
        ({"x": np.array([[1.0], [1e39], [3.0]])}, ".*row 1 holds .* over 3.4e38"),
        ({"y": np.array([0, 1])}, r"x has 3 samples, but y has shape \(2,\)"),
        ({"y": np.array([0, 1, 2])}, "labels .* row 2 has 2"),
        ({"client_id": np.array([0, 1, 2])}, "client_id must be from 0 to 1, but row 2 has 2"),
        ({"split": np.array([0, 1, 2])}, "split must be from 0 to 1, but row 2 has 2"),
    ],
)
def test_damaged_arrays_are_refused(
    change: dict[str, np.ndarray], message: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", **(ARRAYS | change))  # type: ignore[arg-type]
    with pytest.raises(DataError, match=rf"a\.npz: {message}"):
        read_leaf_arrays(tmp_path / "a.npz", 2)
