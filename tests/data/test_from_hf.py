from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError, DataError
from fedkin.data import from_hf
from tests.mappings import merged
from tests.models.tiny_bert import write_bert

hf = pytest.importorskip("datasets", reason="pip install 'fedkin[hf]'")

WHO = ["south"] * 10 + ["north"] * 10
COLUMNS = {
    "age": [float(i) for i in range(20)],
    "weight": list(range(20)),
    "label": ["ill", "well"] * 10,
    "who": WHO,
}


def rows(**change: Any) -> Any:
    return hf.Dataset.from_dict({**COLUMNS, **change})


def test_clients_by_a_column() -> None:
    data = from_hf(rows(), by="who", test=0.2, scale="none")
    assert data.client_names == ("north", "south") and data.label_names == ("ill", "well")
    assert (
        data.feature_names == ("age", "weight")
        and data.x[3].tolist() == [3, 3]
        and data.y[:2].tolist() == [0, 1]
    )
    assert sorted([*data.train[1], *data.test[1]]) == list(
        range(10)
    ) and data.test.sizes.tolist() == [2, 2]
    single = from_hf(rows(), by="who", features="weight")
    assert single.x.shape == (20, 1) and from_hf(rows(), by="who", features=["weight"]).x.shape == (
        20,
        1,
    )


def test_client_is_the_same_as_by() -> None:
    data = from_hf(rows(), by="who")
    same = from_hf(rows(), client="who")
    assert same.client_names == data.client_names and same.columns == data.columns
    assert same.train.rows.tolist() == data.train.rows.tolist() and same.feature_names == (
        "age",
        "weight",
    )
    with pytest.raises(ConfigError, match="client and by are the same option"):
        from_hf(rows(), by="who", client="who")


def test_lists_of_uint8_stay_as_they_are() -> None:
    column = hf.Sequence(hf.Value("uint8"))
    lists = hf.Dataset.from_dict(
        {"x": [[0, 254]] * 20, "label": [0, 1] * 10, "who": WHO}
    ).cast_column("x", column)
    assert from_hf(lists, client="who").x[0].tolist() == [0, 254]


def test_columns_keep_their_names() -> None:
    """So exports know them."""
    data = from_hf(rows(), by="who", features=["weight"])
    assert data.columns == {
        "label": "label",
        "client": "who",
        "labels": "names",
    } and data.feature_names == ("weight",)
    renamed = from_hf(
        rows().rename_column("label", "state"),
        label="state",
        partition="iid",
        num_clients=2,
        features="age",
    )
    assert renamed.columns == {"label": "state", "labels": "names"} and renamed.feature_names == (
        "age",
    )
    arrays = hf.Dataset.from_dict({"x": [[1.0], [2.0]] * 10, "label": [0, 1] * 10, "who": WHO})
    assert from_hf(arrays, by="who").feature_names is None


def test_names_of_a_class_label() -> None:
    labels = hf.ClassLabel(names=["well", "ill", "dead"])
    data = from_hf(rows(label=[0, 1] * 10).cast_column("label", labels), by="who")
    assert (data.classes, data.label_names, data.y[:2].tolist()) == (
        3,
        ("well", "ill", "dead"),
        [0, 1],
    )
    missing = rows(label=[0, -1] * 10).cast_column("label", labels)
    with pytest.raises(DataError, match="0 to 2, but row 1 has -1"):
        from_hf(missing, by="who")


def test_images_and_arrays() -> None:
    pixels = np.full((20, 4, 4, 3), 51, np.uint8)
    from PIL import Image

    images = hf.Dataset.from_dict(
        {"image": [Image.fromarray(p) for p in pixels], "label": [0, 1] * 10, "who": WHO}
    )
    data = from_hf(images.cast_column("image", hf.Image()), by="who")
    assert data.x.shape == (20, 4, 4, 3) and (data.x == np.float32(0.2)).all()
    lists = hf.Dataset.from_dict(
        {"x": np.ones((20, 2, 2)).tolist(), "label": [True, False] * 10, "who": WHO}
    )
    assert from_hf(lists, by="who").x.shape == (20, 2, 2) and from_hf(
        lists, by="who"
    ).label_names == ("False", "True")
    tokens = hf.Dataset.from_dict({"x": [[1, 2]] * 20, "label": [0] * 20, "who": WHO})
    assert from_hf(tokens, by="who", integers=True).x.dtype == np.int64


def test_partitioners_of_flwr_datasets() -> None:
    partitioners = pytest.importorskip("flwr_datasets.partitioner")
    iid = partitioners.IidPartitioner(num_partitions=4)
    data = from_hf(rows(), by=iid, features=["age", "weight"], test=0, scale="none")
    for client in range(4):
        expected = sorted(iid.load_partition(client)["age"])
        assert sorted(data.x[data.train[client], 0].tolist()) == expected
    pathological = partitioners.PathologicalPartitioner(
        2, partition_by="label", num_classes_per_partition=1
    )
    one_each = from_hf(rows(), by=pathological, features=["age"], test=0)
    assert (one_each.label_counts() > 0).sum(axis=1).tolist() == [1, 1]
    with pytest.raises(ConfigError, match="already divides another data set"):
        from_hf(rows(), by=iid, features=["age"])
    many = partitioners.IidPartitioner(num_partitions=22)
    with pytest.raises(DataError, match="by: the IidPartitioner cannot divide these data"):
        from_hf(rows(), by=many, features=["age"])
    skewed = partitioners.DirichletPartitioner(
        15, "label", 0.001, min_partition_size=0, self_balancing=False
    )
    with pytest.raises(
        DataError,
        match=r"the DirichletPartitioner gives client \d+ no samples \(\d+ such clients\)",
    ):
        from_hf(rows(), by=skewed, features=["age"])
    same = rows()
    natural = partitioners.NaturalIdPartitioner(partition_by="who")
    natural.dataset = same
    assert from_hf(same, by=natural, features=["age"]).clients == 2
    with pytest.raises(
        DataError, match=r"by: the NaturalIdPartitioner cannot divide these data: .*absent"
    ):
        from_hf(
            rows(), by=partitioners.NaturalIdPartitioner(partition_by="absent"), features=["age"]
        )


def test_own_partitions_and_test_sets() -> None:
    data = from_hf(
        rows(), partition="shards", num_clients=2, classes_per_client=1, features=["age"], test=0
    )
    assert (data.label_counts() > 0).sum(axis=1).tolist() == [1, 1]
    later = rows(age=[100.0] * 20, who=["north"] * 20).select(range(3))
    data = from_hf(rows(), by="who", test=later, scale="none")
    assert data.train.sizes.tolist() == [10, 10] and data.test.sizes.tolist() == [3, 0]
    assert (data.x[data.test[0], 0] == 100).all()
    with pytest.raises(ConfigError, match="a data set as test= needs by="):
        from_hf(rows(), partition="iid", num_clients=2, features=["age"], test=later)
    with pytest.raises(DataError, match="test has the columns"):
        from_hf(rows(), by="who", test=later.remove_columns("age"))


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"label": "lable"}, "unknown column 'lable'; did you mean 'label'"),
        ({}, {"by": "whom"}, "unknown column 'whom'; did you mean 'who'"),
        ({}, {"features": ["wieght"]}, "unknown column 'wieght'; did you mean 'weight'"),
        ({"age": [1.0, None] * 10}, {}, r"column age, row 1 is missing \(10 such rows\)"),
        ({"label": ["a", None] * 10}, {}, "label is missing in row 1"),
        ({"age": ["x"] * 20}, {}, r"column age holds text, such as \['x'\]; convert it to numbers"),
        (
            {"age": [[1.0], [1.0, 2.0]] * 10},
            {"features": "age"},
            r"row 1 has shape \(2,\), but row 0 has \(1,\); resize or pad",
        ),
        (
            {"age": [[1.0, 2.0]] * 20},
            {},
            r"age has shape \(2,\) next to 1 other columns; name it alone with features=",
        ),
        ({}, {"features": []}, "got none"),
    ],
)
def test_columns_that_cannot_be(
    change: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=f"^hf: .*{message}"):
        from_hf(rows(**change), **merged({"by": "who"}, options))


def test_objects_that_are_no_data_set() -> None:
    with pytest.raises(
        DataError,
        match=r"expected one split, got a DatasetDict with train; choose one.*\['train'\]",
    ):
        from_hf(hf.DatasetDict(train=rows()), by="who")
    with pytest.raises(DataError, match=r"expected a datasets\.Dataset of Hugging Face, got list"):
        from_hf([], by="who")
    with pytest.raises(DataError, match="found none"):
        from_hf(rows().select([]), by="who")
    with pytest.raises(ConfigError, match=r"either by=.* got neither"):
        from_hf(rows())
    with pytest.raises(ConfigError, match="got both"):
        from_hf(rows(), by="who", partition="iid", num_clients=2)


def test_clients_that_are_classes_keep_their_names() -> None:
    hospitals = ["10", "2", "7"]
    table = hf.Dataset.from_dict({**COLUMNS, "who": [2] * 10 + [0] * 10})
    table = table.cast_column("who", hf.ClassLabel(names=hospitals))
    data = from_hf(table, by="who", scale="none")
    assert data.client_names == ["10", "7"]  # and not the numbers of their classes
    assert data.x[data.train[0], 0].min() >= 10
    table = hf.Dataset.from_dict({**COLUMNS, "who": [-1] + [0] * 19}).cast_column(
        "who", hf.ClassLabel(names=hospitals)
    )
    with pytest.raises(
        DataError, match=r"column who, row 0 has no client: -1 is not a class of its ClassLabel"
    ):
        from_hf(table, by="who")


def test_natural_partitions_keep_their_names() -> None:
    partitioners = pytest.importorskip(
        "flwr_datasets.partitioner", reason="pip install 'fedkin[hf]'"
    )
    data = from_hf(
        rows(), by=partitioners.NaturalIdPartitioner("who"), features=["age"], scale="none"
    )
    assert sorted(data.client_names or ()) == ["north", "south"]
    south = data.client_names.index("south")  # type: ignore[union-attr]
    assert data.x[data.train[south], 0].max() < 10  # the ages of south are 0 to 9


def test_natural_partitions_by_classes_keep_their_names() -> None:
    partitioners = pytest.importorskip(
        "flwr_datasets.partitioner", reason="pip install 'fedkin[hf]'"
    )
    table = hf.Dataset.from_dict({**COLUMNS, "who": [1] * 10 + [0] * 10})
    table = table.cast_column("who", hf.ClassLabel(names=["10", "7"]))
    data = from_hf(table, by=partitioners.NaturalIdPartitioner("who"), features=["age"])
    assert sorted(data.client_names or ()) == ["10", "7"]


def test_clients_that_are_bytes_are_named_by_their_text() -> None:
    data = from_hf(rows(who=[name.encode() for name in WHO]), by="who")
    assert data.client_names == ["north", "south"]


def test_a_missing_client_is_refused() -> None:
    with pytest.raises(DataError, match="who is empty in row 19"):
        from_hf(rows(who=[*WHO[:-1], None]), by="who")


def test_a_missing_client_is_named_by_its_column() -> None:
    with pytest.raises(DataError, match="hf: who is empty in row 0"):
        from_hf(rows(who=[None, *WHO[1:]]), by="who")


def test_columns_of_numbers_are_scaled() -> None:
    data = from_hf(rows(), by="who", test=0)
    assert data.transform is not None and data.transform.kind == "standard"
    np.testing.assert_allclose(data.x.mean(axis=0), 0, atol=1e-6)
    given = from_hf(rows(), by="who", scale_from={"mean": [1, 2], "scale": [3, 4]})
    assert given.x[3].tolist() == pytest.approx([(3 - 1) / 3, (3 - 2) / 4])
    with pytest.raises(ConfigError, match="scale = 'standard' applies to the columns of a table"):
        from_hf(rows(), by="who", integers=True, scale="standard")
    infinite = rows(age=[*COLUMNS["age"][:-1], float("inf")])
    for test in (0, 0.2):
        with pytest.raises(DataError, match="row 19 holds NaN or infinity"):
            from_hf(infinite, by="who", test=test)


def test_texts_become_token_numbers(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="texts need pip install 'fedkin[text]'")
    folder = write_bert(tmp_path / "tiny")
    said = ["the red cat", "blue dog sat"] * 10
    data = from_hf(rows(said=said), by="who", text="said", tokenizer=folder, length=6, test=0.2)
    backbone = fk.models.from_transformers(folder)
    np.testing.assert_array_equal(data.x, backbone.tokens(said, 6))
    assert data.x.dtype == np.int32 and data.feature_names is None
    assert data.columns is not None
    roles = {"label": "label", "client": "who", "text": "said"}
    assert {role: data.columns[role] for role in roles} == roles
    frame = pd.DataFrame({**COLUMNS, "said": said})
    same = fk.data.texts(
        frame, text="said", label="label", client="who", tokenizer=backbone, length=6
    )
    np.testing.assert_array_equal(same.x, data.x)
    assert fk.lora(data, backbone, rank=2).spec.factors

    with pytest.raises(DataError, match="the text in row 3 of column 'said' is None"):
        from_hf(rows(said=[*said[:3], None, *said[4:]]), by="who", text="said", tokenizer=folder)
    with pytest.raises(DataError, match="spoken"):
        from_hf(rows(said=said), by="who", text="spoken", tokenizer=folder)
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"text": "said"}, "text needs tokenizer=: a local folder"),
        ({"text": "said", "tokenizer": folder, "features": "age"}, "leave out features='age'"),
        ({"text": "said", "tokenizer": folder, "scale": "standard"}, "scale"),
        ({"tokenizer": folder}, "tokenizer applies to texts; name their column"),
        ({"length": 5}, "length applies to texts"),
    )
    for options, message in refused:
        with pytest.raises(ConfigError, match=message):
            from_hf(rows(said=said), by="who", **options)
