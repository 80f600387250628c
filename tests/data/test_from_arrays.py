from __future__ import annotations

import logging
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedkin.core.errors import ConfigError, DataError
from fedkin.data import from_arrays, from_pandas, mnist
from fedkin.data.partition_options import POOLED
from tests.mappings import merged

X = np.arange(40.0).reshape(20, 2)
Y = np.arange(20) % 4
WHO = np.repeat(["south", "north"], 10)
TABLE = pd.DataFrame(X, columns=["age", "weight"]).assign(
    outcome=np.where(Y < 2, "well", "ill"), hospital=WHO
)


def test_clients_by_their_ids() -> None:
    data = from_arrays(X, Y, clients=WHO, name="hospitals")
    assert (data.name, data.clients, data.classes, data.client_names) == (
        "hospitals",
        2,
        4,
        ("north", "south"),
    )
    assert data.x.dtype == np.float32 and data.x.tolist() == X.tolist() and data.label_names is None
    assert sorted(np.concatenate([data.train[0], data.test[0]])) == list(range(10, 20))
    # A fifth tests.
    assert data.train.sizes.tolist() == [8, 8] and data.test.sizes.tolist() == [2, 2]
    again = from_arrays(X, Y, clients=WHO)
    other = from_arrays(X, Y, clients=WHO, seed=1)
    assert np.array_equal(data.test.rows, again.test.rows) and not np.array_equal(
        data.test.rows, other.test.rows
    )


@pytest.mark.parametrize(
    "ids", [WHO.tolist(), pd.Series(WHO), pd.Series(WHO, dtype="category"), np.repeat([7, 3], 10)]
)
def test_ids_of_any_kind(ids: Any) -> None:
    data = from_arrays(X.tolist(), Y.tolist(), clients=ids)
    assert sorted(data.train[0]) == sorted(from_arrays(X, Y, clients=WHO).train[0])


@pytest.mark.parametrize(
    ("test", "sizes"), [(0, [0, 0]), (0.1, [1, 1]), (0.3, [3, 3]), (0.9, [9, 9])]
)
def test_a_share_tests(test: float, sizes: list[int]) -> None:
    assert from_arrays(X, Y, clients=WHO, test=test).test.sizes.tolist() == sizes


def test_samples_that_test_can_be_named() -> None:
    data = from_arrays(X, Y, clients=WHO, test=Y == 3)
    assert (
        data.test[0].tolist() == [11, 15, 19]
        and data.test[1].tolist() == [3, 7]
        and data.validation is None
    )
    data = from_arrays(X, Y, clients=WHO, test=np.array([0, 1, 2, 0] * 5))
    assert data.validation is not None
    for kind in (str, object):
        named = from_arrays(
            X, Y, clients=WHO, test=np.array(["train", "test", "validation", "train"] * 5, kind)
        )
        assert (
            named.validation is not None
            and named.validation.rows.tolist() == data.validation.rows.tolist()
        )
    assert data.validation[1].tolist() == [2, 6] and data.test[1].tolist() == [1, 5, 9]


@pytest.mark.parametrize("partition", POOLED)
def test_any_partition(partition: str) -> None:
    y = np.tile(np.arange(4), 100)
    data = from_arrays(np.zeros((400, 1)), y, partition=partition, num_clients=8, seed=2)
    assert data.clients == 8 and data.client_names is None
    assert (data.true_clusters is not None) == (partition == "blocks")
    owned = np.concatenate([data.train.rows, data.test.rows])
    assert len(np.unique(owned)) == len(owned)
    classes = (data.label_counts("train") + data.label_counts("test") > 0).sum(axis=1)
    assert (classes == {"iid": 4, "power_law": 2, "blocks": 2}.get(partition, classes)).all()


def test_options_of_a_partition() -> None:
    y = np.tile(np.arange(4), 100)
    x = np.zeros((400, 1))
    shards = from_arrays(x, y, partition="shards", num_clients=4, classes_per_client=1, test=0)
    assert (shards.label_counts() > 0).sum(axis=1).tolist() == [1, 1, 1, 1]
    even = from_arrays(x, y, partition="dirichlet", num_clients=4, alpha=1e6, test=0).label_counts()
    assert abs(even - 25).max() <= 2
    skewed = from_arrays(
        x, y, partition="dirichlet", num_clients=4, alpha=0.1, test=0
    ).label_counts()
    assert skewed.max() > 60


def test_the_same_partition_as_a_named_set_has(little_mnist: object) -> None:
    named = mnist(partition="dirichlet", alpha=0.5, clients=3, seed=4, train_fraction=0.8)
    own = from_arrays(
        named.x, named.y, partition="dirichlet", alpha=0.5, num_clients=3, seed=4, test=0.2
    )
    assert np.array_equal(own.train.rows, named.train.rows) and np.array_equal(
        own.test.offsets, named.test.offsets
    )


def test_text_booleans_and_given_names() -> None:
    data = from_arrays(X, np.array(list("dcba") * 5), clients=WHO)
    assert data.label_names == ("a", "b", "c", "d") and data.y[:4].tolist() == [3, 2, 1, 0]
    assert data.with_rows(data.train, data.test).label_names == data.label_names
    assert from_arrays(X, Y > 1, clients=WHO).label_names == ("False", "True")
    assert from_arrays(X, Y, clients=WHO, label_names=["a", "b", "c", "d", "e"]).classes == 5
    assert from_arrays(X, Y, clients=WHO, classes=9).classes == 9


def test_kinds_of_features() -> None:
    assert from_arrays(np.full((20, 2, 2), 51, np.uint8), Y, clients=WHO).x.max() == np.float32(0.2)
    words = from_arrays(X.astype(np.int64), Y, clients=WHO, integers=True)
    assert words.x.dtype == np.int64
    assert from_arrays(X > 3, Y, clients=WHO).x.dtype == np.float32


def test_a_client_with_one_sample_trains_on_it(caplog: pytest.LogCaptureFixture) -> None:
    ids = ["a", "b", *["c"] * 18]
    with caplog.at_level(logging.WARNING, "fedkin"):
        data = from_arrays(X, Y, clients=ids, name="few")
    assert data.train.sizes.tolist() == [1, 1, 14] and data.test.sizes.tolist() == [0, 0, 4]
    assert "few: 2 of 3 clients have no test sample, because they have too few" in caplog.text
    assert "such as client a; they train and have no score; leave them out" in caplog.text
    caplog.clear()
    from_arrays(X, Y, clients=ids, test=0)
    assert not caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the client of each sample.*got neither"),
        ({"clients": WHO, "partition": "iid", "num_clients": 2}, "got both"),
        (
            {"clients": 5},
            "clients must be an array with a client id for each sample, got 5; .*num_clients=",
        ),
        ({"partition": "iid"}, "partition='iid' needs the number of clients, such as num_clients="),
        ({"partition": "iid", "num_clients": 0}, "num_clients must be at least 1, got 0"),
        ({"partition": "iid", "num_clients": 21}, "from 1 to the number of samples, 20; got 21"),
        (
            {"partition": "dirichlett", "num_clients": 2},
            "unknown partition 'dirichlett'; did you mean 'dirichlet'",
        ),
        (
            {"partition": "iid", "num_clients": 2, "alpha": 0.1},
            "alpha = 0.1 does not apply to partition 'iid'",
        ),
        ({"clients": WHO, "alpha": 0.1}, "alpha = 0.1 applies to a partition"),
        ({"clients": WHO, "num_clients": 2}, "num_clients = 2 applies to a partition"),
        ({"clients": WHO, "test": 1}, "test must be each client's share .* got 1"),
        ({"clients": WHO, "test": -0.1}, "test must be"),
        ({"clients": WHO, "test": True}, "test must be"),
        ({"clients": WHO, "test": "split"}, "test must be"),
        ({"clients": WHO, "seed": -1}, "seed must be an integer of at least 0"),
        ({"clients": WHO, "label_names": "abcd"}, "label_names must be a list of text"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_arrays(X, Y, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": X[:19]}, r"x has 19 samples, but y has shape \(20,\)"),
        ({"clients": WHO[:3]}, r"x has 20 samples, but clients has shape \(3,\)"),
        ({"test": np.zeros(3, bool)}, r"x has 20 samples, but split has shape \(3,\)"),
        (
            {"test": np.full(20, 5)},
            "split must be train, test or validation, or 0, 1 or 2, but row 0 has 5",
        ),
        ({"x": X[:, 0]}, r"x must be numbers of shape \[M, ...\].*one feature is x\[:, None\]"),
        ({"x": np.zeros((0, 2)), "y": [], "clients": []}, r"x must be numbers.* of shape \(0, 2\)"),
        ({"x": np.where(X == 6, np.nan, X)}, "row 3 holds NaN"),
        ({"x": X.astype(str)}, "x must be numbers"),
        ({"x": [[1, 2]] * 19 + [[1]]}, "samples of different shapes"),
        ({"clients": ["a"] * 19 + [None]}, r"clients is empty in row 19"),
        (
            {"clients": ["a"] * 19 + [1]},
            "clients must be of one type, got 'a' in row 0 and 1 in row 19",
        ),
        ({"y": ["a"] * 19 + [1]}, "labels must be of one type"),
        ({"test": WHO == "north"}, "client north has no training sample"),
        ({"x": X, "integers": True}, "x must be integers"),
    ],
)
def test_samples_that_cannot_be(change: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"x": X, "y": Y, "clients": WHO, "name": "mine", **change}
    with pytest.raises(DataError, match=f"mine: .*{message}"):
        from_arrays(values.pop("x"), values.pop("y"), **values)


# --- DataFrames


def test_columns_of_a_frame() -> None:
    data = from_pandas(TABLE, label="outcome", client="hospital", scale="none")
    assert data.feature_names == ("age", "weight") and data.x.tolist() == X.tolist()
    assert data.label_names == ("ill", "well") and data.client_names == ("north", "south")
    assert data.y[:4].tolist() == [1, 1, 0, 0]
    turned = from_pandas(
        TABLE, label="outcome", client="hospital", features=["weight", "age"], scale="none"
    )
    assert turned.x.tolist() == X[:, ::-1].tolist() and turned.feature_names == ("weight", "age")
    single = from_pandas(
        TABLE, label="outcome", partition="iid", num_clients=4, features="age", seed=3
    )
    assert single.x.shape == (20, 1) and single.clients == 4


def test_columns_are_listed_in_any_form() -> None:
    """For all options that list columns: a list, an index of pandas, an array or a Series."""
    names = TABLE.columns[:2]
    read: Any = partial(from_pandas, TABLE, label="outcome", client="hospital")
    expected = read(features=["age", "weight"])
    for given in (names, names.to_numpy(), pd.Series(names), tuple(names)):
        assert read(features=given).feature_names == expected.feature_names
    assert read(drop=names[:1]).feature_names == ("weight",)
    known = TABLE.assign(sector=WHO)
    found = from_pandas(
        known, label="outcome", client="hospital", client_columns=known.columns[-1:]
    )
    assert found.client_columns == {"sector": ("north", "south")}
    for option in ("features", "drop", "categories", "client_columns"):
        with pytest.raises(ConfigError, match=rf"{option} must be a list of columns, such"):
            read(**{option: 2.5})
    with pytest.raises(ConfigError, match="time must be a list of columns, such as time ="):
        read(task="forecast", time=2.5)
    with pytest.raises(ConfigError, match=r"time must be a column, or a list"):
        read(task="forecast", time=[])


def test_a_column_may_name_the_test_rows() -> None:
    table = TABLE.assign(part=np.where(Y == 3, "test", "train"))
    data = from_pandas(table, label="outcome", client="hospital", test="part")
    assert data.test[1].tolist() == [3, 7] and data.feature_names == ("age", "weight")


def test_pandas_own_types() -> None:
    table = TABLE.astype(
        {"age": "Int64", "weight": "Float64", "outcome": "category", "hospital": "category"}
    )
    data = from_pandas(table.assign(smokes=Y > 1), label="outcome", client="hospital", scale="none")
    assert data.x[:, :2].tolist() == X.tolist() and data.x[:, 2].tolist() == (Y > 1).tolist()
    assert data.label_names == ("ill", "well") and data.client_names == ("north", "south")
    numbered = from_pandas(pd.DataFrame(X).assign(y=Y, who=WHO), label="y", client="who")
    assert numbered.feature_names == ("0", "1")
    odd = pd.DataFrame(X, index=np.arange(20) * 3).assign(y=Y, who=WHO)
    assert from_pandas(odd, label="y", client="who", scale="none").x.tolist() == X.tolist()


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"label": "outcom"}, "unknown column 'outcom'; did you mean 'outcome'"),
        ({}, {"client": "hospitl"}, "unknown column 'hospitl'; did you mean 'hospital'"),
        ({}, {"features": ["age", "wieght"]}, "unknown column 'wieght'; did you mean 'weight'"),
        (
            {"age": np.full(20, np.nan)},
            {},
            r"column 'age' has no value in any training sample.*drop = \['age'\]",
        ),
        ({"outcome": [None, *TABLE.outcome[1:]]}, {}, "label is missing in row 0"),
        ({"hospital": [*WHO[:-1], None]}, {}, "hospital is empty in row 19"),
        (
            {"sex": list("mf") * 10},
            {},
            "column 'sex' has 2 categories, such as f, m, but none with 10 training samples",
        ),
        ({"sex": pd.Categorical(list("mf") * 10)}, {"min_frequency": 12}, "'sex' has 2 categories"),
        (
            {"day": pd.date_range("2026", periods=20)},
            {},
            r"column day holds dates, such as 2026.*\.dt\.month.*drop = \['day'\]",
        ),
        ({"age": np.where(Y == 1, np.inf, 1)}, {}, "column age, row 1 holds infinity"),
        (
            {"age": np.where(Y == 1, -1e39, 1)},
            {},
            "column age, row 1 holds a number too large for float32",
        ),
        (
            {"age": [*range(18), "<0.5", "?"]},
            {},
            r"age, row 18 \(rows count from 0\) holds '<0.5', .*\(2 such rows\)",
        ),
        (
            {"age": pd.Series(["1"] * 19 + ["<0.5"], dtype="string")},
            {},
            "column age, row 19 .* holds '<0.5'",
        ),
        ({}, {"features": []}, "got none"),
    ],
)
def test_frames_that_cannot_be(
    change: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=f"^frame: .*{message}"):
        from_pandas(
            TABLE.assign(**change), **merged({"label": "outcome", "client": "hospital"}, options)
        )


def test_unusual_classes_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    for y, message in (
        (
            1 + np.arange(20) % 3,
            r"labels are 1 to 3, so no sample has class 0 (1 of the classes 0 to 3 are empty)",
        ),
        (np.ones(20, int), "all labels are 1, so there is only one class"),
        (["ill"] * 20, "all labels are 'ill', so there is only one class"),
    ):
        caplog.clear()
        data = from_arrays(X, y, clients=WHO)
        assert message in caplog.text and len(caplog.records) == 1
        assert data.classes == int(data.y.max()) + 1
    caplog.clear()
    from_arrays(X, np.ones(20, int), clients=WHO, classes=2)
    from_arrays(X, Y, clients=WHO)
    assert not caplog.records


def test_features_labels_and_clients_of_a_frame() -> None:
    with pytest.raises(
        DataError,
        match=r"expected a pandas DataFrame, got ndarray; for arrays use fk\.data\.from_arrays",
    ):
        from_pandas(X, label="a", client="b")
    with pytest.raises(DataError, match="got 'age' twice"):
        from_pandas(pd.concat([TABLE, TABLE[["age"]]], axis=1), label="outcome", client="hospital")
    with pytest.raises(DataError, match="one row per sample, found none"):
        from_pandas(TABLE[:0], label="outcome", client="hospital")
    with pytest.raises(ConfigError, match=r"either client=.* partition=.* got neither"):
        from_pandas(TABLE, label="outcome")
    with pytest.raises(ConfigError, match="got both"):
        from_pandas(TABLE, label="outcome", client="hospital", partition="iid", num_clients=2)
    with pytest.raises(ConfigError, match="'outcome' cannot be a feature and also the label"):
        from_pandas(TABLE, label="outcome", client="hospital", features=["outcome"])
    with pytest.raises(ConfigError, match="must be different columns"):
        from_pandas(TABLE, label="outcome", client="outcome")


def test_a_small_alpha_needs_a_smaller_minimum() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 4))
    y = rng.integers(5, size=3000)
    by_dirichlet = partial(from_arrays, x, y, partition="dirichlet", alpha=0.1, num_clients=30)
    with pytest.raises(DataError, match="a smaller min_samples"):
        by_dirichlet()
    owned = by_dirichlet(min_samples=2)
    assert len(owned.train.sizes) == 30 and (owned.train.sizes + owned.test.sizes).min() >= 2
    with pytest.raises(ConfigError, match="min_samples = 2 does not apply to partition 'iid'"):
        from_arrays(x, y, partition="iid", num_clients=30, min_samples=2)
    with pytest.raises(ConfigError, match="min_samples = 2 applies to a partition"):
        from_arrays(x, y, clients=np.arange(3000) % 30, min_samples=2)


def test_whose_test_samples_change_if_a_client_is_added() -> None:
    """A draw depends on a client's place among the sorted clients. A column of the split does not:
    this is the rule of the documentation."""
    table = pd.DataFrame({"x": np.arange(60.0), "y": np.arange(60) % 2})
    table["client_id"] = np.repeat(["b", "c", "d"], 20)

    def tested(more: str | None, **options: Any) -> dict[str, list[float]]:
        rows = table
        if more is not None:
            new = table.head(20).assign(client_id=more)
            rows = pd.concat([table, new], ignore_index=True)
        marked = rows.assign(part=np.where(rows["x"] % 5 == 0, "test", "train"))
        columns = ["x", "y", "client_id"] + (["part"] if options else [])
        data = from_pandas(marked[columns], label="y", client="client_id", scale="none", **options)
        names = list(data.client_names or ())
        return {name: data.x[data.test[names.index(name)], 0].tolist() for name in "bcd"}

    assert tested("z") == tested(None)
    assert tested("a") != tested(None)
    assert tested("a", test="part") == tested(None, test="part")


def test_equal_labels_name_another_cure_than_their_own_column() -> None:
    table = pd.DataFrame({"age": np.arange(20.0), "score": 50.0, "hospital": ["a", "b"] * 10})
    with pytest.raises(DataError, match="column 'score': all training labels are 50") as caught:
        from_pandas(table, label="score", client="hospital", task="regression")
    assert "score" not in str(caught.value).split("learn;")[1]
