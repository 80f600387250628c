from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedkin.core.errors import ConfigError, DataError
from fedkin.data import from_arrays, from_pandas, load
from fedkin.data.packed import pack

X = np.arange(12, dtype=np.float64).reshape(6, 2) / 3
Y = np.array([0, 2, 1, 0, 2, 2])
OWNER = np.array(["b", "a", "b", "a", "b", "c"])
SPLIT = np.array(["train", "train", "test", "test", "train", "train"])


def write(path: Path, **changes: Any) -> Path:
    """The same six samples in any of the formats; a column that is None is left out."""
    columns = {"x": X, "y": Y, "client_id": OWNER, "split": SPLIT} | changes
    columns = {name: values for name, values in columns.items() if values is not None}
    if path.suffix == ".npz":
        np.savez(path, **columns)
        return path
    x = columns.pop("x", np.zeros((6, 0)))
    table = pd.DataFrame({f"x{i}": x[:, i] for i in range(x.shape[1])} | columns)
    table.to_parquet(path) if path.suffix == ".parquet" else table.to_csv(path, index=False)
    return path


FORMATS = ["mine.npz", "mine.csv", "mine.csv.gz", "mine.parquet"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_federation(name: str, tmp_path: Path) -> None:
    data = load(write(tmp_path / name), scale="none")
    np.testing.assert_allclose(data.x, X, rtol=1e-6)
    assert data.x.dtype == np.float32 and data.y.tolist() == Y.tolist() and data.classes == 3
    assert data.client_names == ("a", "b", "c")
    assert [data.train[u].tolist() for u in range(3)] == [[1], [0, 4], [5]]
    # c has one sample and no test data.
    assert [data.test[u].tolist() for u in range(3)] == [
        [3],
        [2],
        [],
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_serve_as_well(name: str, tmp_path: Path) -> None:
    data = load(
        write(
            tmp_path / name,
            client_id=np.array([10, 9, 10, 9, 10, 100]),
            split=np.array([0, 0, 1, 1, 0, 0]),
        )
    )
    assert data.client_names == ("9", "10", "100")
    assert [data.test[u].tolist() for u in range(3)] == [[3], [2], []]


@pytest.mark.parametrize("name", FORMATS)
def test_without_split_every_client_is_split(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, split=None)
    data = load(path, train_fraction=0.5, seed=1)
    assert data.train.sizes.tolist() == [1, 1, 1] and data.test.sizes.tolist() == [1, 2, 0]
    assert np.array_equal(data.train.rows, load(path, train_fraction=0.5, seed=1).train.rows)


@pytest.mark.parametrize("name", FORMATS)
def test_by_default_nine_tenths_train(name: str, tmp_path: Path) -> None:
    path = write(
        tmp_path / name,
        x=np.zeros((60, 2)),
        y=np.arange(60) % 3,
        client_id=np.arange(60) % 2,
        split=None,
    )
    data = load(path)
    assert data.train.sizes.tolist() == [27, 27] and data.test.sizes.tolist() == [3, 3]
    explicit = load(path, train_fraction=0.9, seed=0)
    assert np.array_equal(
        load(path, train_fraction=None, seed=None).train.rows, explicit.train.rows
    )
    assert np.array_equal(data.train.rows, explicit.train.rows)
    assert not np.array_equal(data.train.rows, load(path, seed=1).train.rows)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("options", [{"train_fraction": 0.5}, {"seed": 0}])
def test_a_file_with_its_own_split_is_not_split_again(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(
        ConfigError, match=rf"{next(iter(options))} = .* does not apply to .*mine.*own split"
    ):
        load(write(tmp_path / name), **options)


# --- columns of other names, text labels, partitions


def write_named(path: Path) -> Path:
    """Twelve samples of three hospitals, with text labels; a column of text is no feature."""
    table = pd.DataFrame(
        {"age": np.arange(12.0), "weight": np.arange(12.0) * 2, "nurse": list("xy") * 6}
    )
    table = table.assign(
        outcome=["well", "ill", "well"] * 4, hospital=np.repeat(["north", "east", "west"], 4)
    )
    if path.suffix == ".npz":
        np.savez(
            path,
            age=table[["age"]],
            outcome=table["outcome"].to_numpy(str),
            hospital=np.repeat([2, 0, 3], 4),
        )
    elif path.suffix == ".parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", ["h.csv", "h.csv.gz", "h.parquet"])
def test_columns_are_named(name: str, tmp_path: Path) -> None:
    data = load(
        write_named(tmp_path / name),
        label="outcome",
        client="hospital",
        features=["weight", "age"],
        scale="none",
    )
    assert data.label_names == ("ill", "well") and data.y[:3].tolist() == [1, 0, 1]
    assert data.client_names == ("east", "north", "west") and data.feature_names == (
        "weight",
        "age",
    )
    assert data.x[5].tolist() == [10, 5]
    turned = load(
        tmp_path / name,
        label="outcome",
        client="hospital",
        features=["age"],
        label_names=["well", "ill"],
    )
    assert turned.label_names == ("well", "ill") and turned.y[:3].tolist() == [0, 1, 0]


def test_arrays_of_an_npz_file_are_named(tmp_path: Path) -> None:
    data = load(
        write_named(tmp_path / "h.npz"), label="outcome", client="hospital", features=["age"]
    )
    assert (
        data.label_names == ("ill", "well")
        and data.client_names == ("0", "2", "3")
        and data.x.shape == (12, 1)
    )
    with pytest.raises(DataError, match=r"h\.npz: unknown array 'outcom'; did you mean 'outcome'"):
        load(tmp_path / "h.npz", label="outcom", client="hospital", features=["age"])
    with pytest.raises(ConfigError, match="must name one array"):
        load(tmp_path / "h.npz", label="outcome", client="hospital", features=["age", "outcome"])


@pytest.mark.parametrize("name", ["h.csv", "h.npz"])
def test_any_partition_of_a_file(name: str, tmp_path: Path) -> None:
    path = write_named(tmp_path / name)
    divided = partial(load, path, label="outcome", features=["age"], train_fraction=1.0)
    even = divided(partition="iid", clients=4, seed=1)
    assert even.train.sizes.tolist() == [3, 3, 3, 3] and even.client_names is None
    other_seed = divided(partition="iid", clients=4, seed=2)
    assert not np.array_equal(even.train.rows, other_seed.train.rows)
    shards = divided(partition="shards", clients=2, classes_per_client=1)
    assert (shards.label_counts().max(axis=1) >= 4).all()
    blocks = divided(partition="blocks", clients=2, classes_per_client=1)
    assert blocks.true_clusters is not None and (blocks.label_counts() > 0).sum(
        axis=1
    ).tolist() == [1, 1]


def test_a_partition_leaves_the_clients_of_the_file_alone(tmp_path: Path) -> None:
    data = load(write(tmp_path / "m.csv", split=None), partition="iid", clients=2)
    assert data.clients == 2 and data.x.shape == X.shape  # client_id is no feature


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {},
            DataError,
            "unknown column 'y'; known: age.*name the column of the labels with label=",
        ),
        (
            {"label": "outcome"},
            DataError,
            "unknown column 'client_id'.*with client=, or divide the samples with partition=",
        ),
        (
            {"label": "outcmoe", "client": "hospital"},
            DataError,
            "unknown column 'outcmoe'; did you mean 'outcome'",
        ),
        (
            {"label": "outcome", "client": "hospital"},
            DataError,
            "column 'nurse' has 2 categories, such as x, y, but none with 10 training samples",
        ),
        (
            {"label": "outcome", "client": "a", "partition": "iid", "clients": 2},
            ConfigError,
            "client = a does not apply",
        ),
        (
            {"label": "outcome", "partition": "iid"},
            ConfigError,
            "needs the number of clients, such as clients=",
        ),
        ({"label": "outcome", "clients": 3}, ConfigError, "clients = 3 applies to a partition"),
        ({"partition": "writer", "clients": 3}, ConfigError, "unknown partition 'writer'"),
        ({"label": "nurse", "client": "nurse"}, ConfigError, "must be different columns"),
        (
            {
                "label": "outcome",
                "client": "hospital",
                "features": ["age"],
                "label_names": ["ill", "wel"],
            },
            DataError,
            "row 0 has the label 'well', expected ill, wel; did you mean 'wel'",
        ),
    ],
)
def test_columns_that_cannot_be(
    options: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        load(write_named(tmp_path / "h.csv"), **options)


def test_a_folder_has_no_columns(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"label = z does not apply to .*leaf, a folder in LEAF's layout"
    ):
        load(leaf_folder(tmp_path / "leaf"), label="z")


def test_options_of_labels_and_of_time_are_refused_for_a_folder(tmp_path: Path) -> None:
    leaf = leaf_folder(tmp_path / "leaf")
    numbers = from_arrays(X, Y / 3, clients=OWNER, task="regression", loss="huber", test=0)
    packed = tmp_path / "packed"
    pack(numbers, packed)
    refused: list[tuple[Path, dict[str, Any]]] = [
        (leaf, {"task": "regression"}),
        (leaf, {"loss": "poisson"}),
        (leaf, {"quantiles": [0.5]}),
        (leaf, {"client_columns": ["sector"]}),
        (packed, {"task": "classification"}),
        (packed, {"task": "count"}),
        (packed, {"loss": "squared_error"}),
        (packed, {"loss": "huber", "loss_options": {"delta": 3.0}}),
        (packed, {"loss": "huber", "label_scale_from": {"mean": 1.0, "scale": 2.0}}),
        (packed, {"time": "month", "task": "forecast"}),
    ]
    for path, options in refused:
        with pytest.raises(ConfigError, match=f"does not apply to {path}"):
            load(path, **options)
    # The same labels may be asked for, as a site of a federation does.
    assert load(leaf, task="classification").classes == 3
    assert load(packed, task="regression", loss="huber").task_type == numbers.task_type


def test_a_forecast_needs_a_table(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a table with a column of the time"):
        load(write(tmp_path / "m.npz", y=Y / 3, split=None), task="forecast", time="month")


@pytest.mark.parametrize("name", ["mine.npz", "mine.csv"])
@pytest.mark.parametrize("options", [{"classes": 3}, {"label_names": ["a", "b"]}])
def test_options_of_classes_do_not_apply_to_numbers(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    path = write(tmp_path / name, split=None)
    refused = rf"{next(iter(options))} = .* applies to labels that are classes.*'regression'"
    with pytest.raises(ConfigError, match=refused):
        load(path, task="regression", **options)
    with pytest.raises(ConfigError, match=refused):
        from_arrays(X, Y, clients=OWNER, task="regression", **options)
    table = pd.read_csv(path) if name == "mine.csv" else pd.DataFrame({"y": Y, "client_id": OWNER})
    with pytest.raises(ConfigError, match=refused):
        from_pandas(table, label="y", client="client_id", task="regression", **options)


def test_facts_about_clients_need_a_table(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"client_columns = \['sector'\] applies to the columns"):
        load(write(tmp_path / "m.npz"), client_columns="sector")


# --- a folder in LEAF's layout


def leaf_folder(folder: Path, *, top: int = 2) -> Path:
    """Client u2 with two training samples and a test sample, u1 with one training sample."""
    parts = {
        "train": {
            "u2": {"x": [[0, 255], [1, 2]], "y": [0.0, 1.0]},
            "u1": {"x": [[3, 4]], "y": [float(top)]},
        },
        "test": {"u2": {"x": [[5, 6]], "y": [1.0]}},
    }
    for split, users in parts.items():
        (folder / split).mkdir(parents=True)
        content = {
            "users": list(users),
            "user_data": users,
            "num_samples": [len(u["y"]) for u in users.values()],
        }
        (folder / split / "all_data_0.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("name", ["synthetic_1_1", "mine.npz", "mine.csv"])
def test_a_folder_in_leafs_layout(name: str, tmp_path: Path) -> None:
    data = load(leaf_folder(tmp_path / name))
    assert (data.name, data.classes, data.client_names) == (name, 3, ("u2", "u1"))
    # Not scaled.
    assert data.x.dtype == np.float32 and data.x.tolist() == [
        [0, 255],
        [1, 2],
        [3, 4],
        [5, 6],
    ]
    assert data.y[data.train[0]].tolist() == [0, 1] and data.y[data.train[1]].tolist() == [2]
    assert [data.test[u].tolist() for u in range(2)] == [[3], []]
    assert load(str(tmp_path / name), classes=10).classes == 10


@pytest.mark.parametrize("options", [{"train_fraction": 0.8}, {"seed": 0}])
def test_a_folder_is_not_split_again(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=rf"{next(iter(options))} = .* does not apply to .*leaf.*own split"
    ):
        load(leaf_folder(tmp_path / "leaf"), **options)


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"expected train/\*\.json and test/\*\.json.*an empty folder"
    ):
        load(tmp_path)
    with pytest.raises(
        DataError, match=r"label 4 is larger than the number of samples, 4.*classes=5"
    ):
        load(leaf_folder(tmp_path / "leaf", top=4))


def test_kinds_of_features(tmp_path: Path) -> None:
    path = tmp_path / "k.npz"
    pixels = load(write(path, x=np.full((6, 4, 4, 3), 51, np.uint8)))
    assert pixels.x.shape == (6, 4, 4, 3) and (pixels.x == np.float32(0.2)).all()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", [np.int64, np.int16, np.uint32])
def test_integer_features_are_numbers_in_every_format(
    name: str, kind: type, tmp_path: Path
) -> None:
    data = load(write(tmp_path / name, x=np.arange(12, dtype=kind).reshape(6, 2)), scale="none")
    assert data.x.dtype == np.float32 and data.x[5].tolist() == [10, 11]


def test_classes_may_be_given(tmp_path: Path) -> None:
    path = write(tmp_path / "c.npz")
    assert load(path, classes=10).classes == 10
    with pytest.raises(DataError, match=r"c\.npz: labels .*0 to 1, but row 1 has 2"):
        load(path, classes=2)


@pytest.mark.parametrize("name", FORMATS)
def test_absurd_labels_need_to_be_meant(name: str, tmp_path: Path) -> None:
    """One wrong entry must not ask for the memory of a billion classes."""
    path = write(tmp_path / name, y=np.where(Y == 1, 10**9, Y))
    with pytest.raises(
        DataError, match=r"mine.*label 1000000000 in row 2 .* samples, 6;.*classes=1000000001"
    ):
        load(path)
    assert load(write(tmp_path / name, y=Y + 3)).classes == 6  # the largest that six samples allow
    with pytest.raises(DataError, match="label 6 in row 1 is larger than the number of samples, 6"):
        load(write(tmp_path / name, y=Y + 4))
    assert load(write(tmp_path / name, y=Y + 4), classes=7).classes == 7


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.full(X.shape, np.nan)}, "row 0 holds NaN|no value in any training sample"),
        ({"x": np.where(X == 3, np.inf, X)}, "row 4 holds (NaN or )?infinity"),
        ({"x": np.where(X == 3, 1e39, X)}, "row 4 holds a number too large for float32"),
        ({"y": Y - 1}, "labels .* row 0 has -1"),
        ({"y": Y + 0.5}, "labels .* row 0 has 0.5"),
        ({"y": np.where(Y == 2, np.nan, Y)}, "the label is missing in row 1"),
        (
            {"y": np.where(Y == 2, 2**64 - 1, Y.astype(np.uint64))},
            "labels .* row 1 has 18446744073709551615",
        ),
        ({"y": np.where(Y == 2, 1e30, Y)}, r"labels .* row 1 has 1e\+30"),
        (
            {"client_id": np.array([0, 1, np.nan, 1, 0, np.nan])},
            r"client_id is empty in row 2 \(2 such rows\)",
        ),
        ({"y": None}, "y"),
        ({"client_id": None}, "client_id"),
        ({"split": np.where(SPLIT == "test", "dev", SPLIT)}, "split must be .* row 2 has dev"),
        ({"split": np.arange(6)}, "split must be .* row 3 has 3"),
        ({"split": np.full(6, "test")}, "client a has no training sample"),
    ],
)
def test_bad_columns_are_refused_by_name(
    name: str, change: dict[str, np.ndarray | None], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / name, **change)
    with pytest.raises(DataError, match=rf"(?s)mine.*{message}"):
        load(path)


def test_lengths_must_agree(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"m\.npz: x has 6 samples, but y has shape \(5,\)"):
        load(write(tmp_path / "m.npz", y=Y[:5]))


@pytest.mark.parametrize(
    "x",
    [
        np.float64(1),
        np.arange(6.0),
        np.full((6, 2), "a"),
        np.zeros((6, 0)),
        np.zeros((6, 2), complex),
    ],
)
def test_features_must_be_numbers(x: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x must be numbers of shape \[M, ...\]"):
        load(write(tmp_path / "m.npz", x=x))


def test_tables_need_features_and_named_clients(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("y,client_id\n0,a\n")
    with pytest.raises(DataError, match="expected feature columns, got none"):
        load(path)
    path.write_text("x0,y,client_id\n1,0,a\n1,0,\n")
    with pytest.raises(DataError, match="client_id is empty in row 1"):
        load(path)
    pd.DataFrame({"x0": [1.0, 2.0], "y": [0, 1], "client_id": ["a", "b"]}).to_csv(path)
    with pytest.raises(
        DataError, match=r"t\.csv: expected a name for every column, got 'Unnamed: 0'.*index=False"
    ):
        load(path)


def test_unknown_files_and_fractions(tmp_path: Path) -> None:
    for name in ("data.pkl", "data"):
        with pytest.raises(
            DataError, match=r"expected a file that ends in \.npz.*folder.*the file does not exist"
        ):
            load(tmp_path / name)
    (tmp_path / "data.pkl").write_bytes(b"")
    with pytest.raises(DataError, match=r"LEAF's layout; got \.pkl$"):
        load(tmp_path / "data.pkl")
    with pytest.raises(DataError, match="no such file"):
        load(tmp_path / "absent.npz")
    with pytest.raises(ConfigError, match="train_fraction"):
        load(write(tmp_path / "m.npz", split=None), train_fraction=0.0)
