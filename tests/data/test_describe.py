from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from fedkin.core import storage
from fedkin.core.columns import raw_labels
from fedkin.core.errors import DataError, StorageError
from fedkin.data import (
    DATASETS,
    available,
    digits,
    from_arrays,
    from_pandas,
    from_patients,
    picture,
    table,
)
from fedkin.data.describe import number_labels
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.label_figure import _draw, _grouped


def toy(true_clusters: bool = False) -> FederatedData:
    """Three clients: one of two classes, one of a single sample, one with a shared sample; class 3
    is empty."""
    return FederatedData(
        name="toy",
        x=np.zeros((6, 2, 3), np.float32),
        y=np.array([0, 0, 1, 2, 1, 0]),
        classes=4,
        train=Ragged.of([np.array([0, 1, 2]), np.array([3]), np.array([2, 4])]),
        test=Ragged.of([np.array([5]), np.array([], np.int64), np.array([], np.int64)]),
        true_clusters=np.array([1, 0, 1]) if true_clusters else None,
    )


def test_table_by_hand() -> None:
    figures = table(toy(true_clusters=True))
    assert figures.loc["clients"].tolist() == ["3", "3"]
    assert figures.loc["clients without samples"].tolist() == ["0", "2"]
    assert figures.loc["samples"].tolist() == ["6", "1"]
    assert figures.loc["samples owned more than once"].tolist() == ["1", "0"]
    assert figures.loc["samples per client, min / median / mean / max", "train"] == "1 / 2 / 2 / 3"
    assert figures.loc["classes"].tolist() == ["3 of 4", "1 of 4"]
    assert figures.loc["classes per client, min / median / max", "train"] == "1 / 1 / 2"
    assert figures.loc["features", "train"] == "2 x 3"
    assert figures.loc["clients per true cluster", "train"] == "1, 2"
    assert "labels" not in figures.index
    named = table(replace(toy(), label_names=("a", "b", "c", "d")))
    assert named.loc["labels"].tolist() == ["a, b, c, d"] * 2


def text(vocabulary: tuple[str, ...], vectors: np.ndarray | None = None) -> FederatedData:
    """Two clients with a sample or two of four words each; word 0 is padding where the vocabulary
    says so."""
    x = np.array([[1, 2, 0, 0], [2, 2, 2, 1], [1, 0, 0, 0], [0, 0, 0, 0]], np.int32)
    train = Ragged.of([np.array([0, 1]), np.array([2])])
    test = Ragged.of([np.array([3]), np.array([3])])
    y = np.array([0, 1, 0, 1])
    return FederatedData(
        name="words",
        x=x,
        y=y,
        classes=2,
        train=train,
        test=test,
        vocabulary=vocabulary,
        vectors=vectors,
    )


def test_table_of_text() -> None:
    figures = table(text(("", "so", "it")))
    assert figures.loc["length of a sample, in words"].tolist() == ["4", "4"]
    assert figures.loc["known words of a sample, min / median / mean / max"].tolist() == [
        *("1 / 2 / 2.3 / 4", "0 / 0 / 0 / 0"),
    ]
    assert figures.loc["words in the vocabulary", "train"] == "2"  # padding is no word
    assert figures.loc["word vectors", "train"] == "none" and "features" not in figures.index
    untested = replace(text(("", "so", "it")), test=Ragged.of([np.array([], np.int64)] * 2))
    known = table(untested).loc["known words of a sample, min / median / mean / max"]
    assert known["train"] == figures.loc[known.name, "train"] and pd.isna(known["test"])
    figures = table(text(("", "so", "it"), np.zeros((3, 50), np.float32)))
    assert figures.loc["word vectors", "train"] == "50 numbers each"


def test_table_of_characters() -> None:
    figures = table(text((" ", "a", "b")))
    assert figures.loc["length of a sample, in characters", "train"] == "4"
    assert figures.loc["characters in the vocabulary", "train"] == "3"  # a blank is a character
    assert not [name for name in figures.index if "known" in name]


def stays(task: str, shift: float = 0.0) -> FederatedData:
    """Three clients with labels 1 to 3, 11 to 13 and 6, and a test sample of 20 for the first."""
    return from_arrays(
        np.arange(8, dtype=np.float32)[:, None],
        np.array([11.0, 12, 13, 1, 2, 3, 6, 20]) + shift,
        clients=np.array(["b", "b", "b", "a", "a", "a", "c", "b"]),
        test=np.arange(8) == 7,
        task=task,
        name="stays",
    )


@pytest.mark.parametrize("task", ["count", "regression"])
def test_table_of_numbers_by_hand(task: str) -> None:
    """In the user's units, whether or not labels are scaled."""
    figures = table(stays(task))
    assert figures.loc["task type", "train"] == task
    spread = "labels, min / median / mean / max"
    assert figures.loc[spread].tolist() == ["1 / 6 / 6.857 / 13", "20 / 20 / 20 / 20"]
    means = figures.loc["mean label of a client, min / median / max"]
    assert means.tolist() == ["2 / 6 / 12", "20 / 20 / 20"]
    # One client with a test sample has no share between clients. By hand: MSB 150.857 / 2,
    # MSW 4 / 4, n0 = (7 - 19 / 7) / 2.
    share = (75.4286 - 1) / (75.4286 + (2.142857 - 1) * 1)
    found = figures.loc["intraclass correlation of labels"]
    assert float(found["train"]) == pytest.approx(share, abs=6e-4)
    assert found.isna()["test"]
    assert not [name for name in figures.index if name.startswith("classes") or "per class" in name]


def test_numbers_near_zero_stay_zero() -> None:
    """Scaled labels are float32 inside."""
    figures = table(stays("regression", shift=-6.0))
    assert figures.loc["labels, min / median / mean / max", "train"] == "-5 / 0 / 0.8571 / 7"


def test_labels_of_a_forecast_are_in_their_own_unit() -> None:
    """Each client has a scale. Without it, all labels would be near 0."""
    sales = np.arange(40.0) ** 2
    shops = pd.concat(
        [
            pd.DataFrame({"shop": shop, "month": np.arange(40), "sales": factor * sales})
            for shop, factor in (("small", 0.01), ("large", 100.0))
        ]
    )
    data = from_pandas(
        shops, label="sales", client="shop", task="forecast", time="month", lags=[1], test=0.2
    )
    expected = np.concatenate([factor * sales[1:] for factor in (100.0, 0.01)])
    assert sorted(number_labels(data)) == pytest.approx(sorted(expected), rel=1e-3, abs=1e-3)
    assert raw_labels(data.task_type, data.y)[:, 0] == pytest.approx(number_labels(data), abs=1e-5)
    statistics: Any = table(data)["train"]
    assert statistics["labels, min / median / mean / max"].startswith("0.01 /")


def test_figure_of_numbers(tmp_path: Path) -> None:
    """Clients by their medians, with lines from the 10th to the 90th percentile."""
    data = stays("regression")
    figure = _draw(data, "train")
    axes = figure.axes[-1]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["a", "c", "b"]
    assert "median of their labels" in axes.get_xlabel()
    (medians,) = axes.lines
    assert medians.get_ydata() == pytest.approx([2, 6, 12], abs=1e-5)
    outer = axes.collections[0].get_paths()[0].vertices
    assert np.asarray(outer)[:, 1] == pytest.approx([1.2, 2.8], abs=1e-5)
    # Clients without samples in a split have no line.
    medians_of_test = _draw(data, "test").axes[-1].lines[0].get_ydata()
    assert np.isfinite(np.asarray(medians_of_test, float)).sum() == 1
    assert len(picture(data, tmp_path / "numbers")) == 2


def test_the_figure_of_survival_data_has_the_times_of_patients(tmp_path: Path) -> None:
    """A label is a place in a risk set, which is no class."""
    rng = np.random.default_rng(0)
    times = rng.exponential(size=60)
    data = from_patients(
        rng.normal(size=(60, 2)), times, times < 1, clients=np.repeat([0, 1], [20, 40])
    )
    assert data.patients is not None
    axes = _draw(data, "train").axes
    assert axes[0].get_title(loc="left") == "patients, train: 2 clients, 48 patients"
    assert axes[0].get_ylabel() == "patients\nof a client"
    of_clients = [data.patients.times[data.patients.train[client]] for client in range(2)]
    medians = sorted(float(np.median(own)) for own in of_clients)
    np.testing.assert_allclose(np.asarray(axes[1].lines[0].get_ydata(), float), medians)
    assert len(picture(data, tmp_path / "patients", split="test")) == 2
    unknown = replace(data, patients=None)
    with pytest.raises(DataError, match="the patients of the train samples are not known"):
        picture(unknown, tmp_path / "unknown")


def test_clients_are_grouped_by_cluster_and_main_class() -> None:
    data = toy()
    assert _grouped(data, data.label_counts()).tolist() == [0, 2, 1]
    data = toy(true_clusters=True)
    assert _grouped(data, data.label_counts()).tolist() == [1, 0, 2]


@pytest.mark.parametrize("name", ["who", "who.png", "who.svg", "who.v2"])
def test_picture_is_a_png_and_an_svg(name: str, tmp_path: Path) -> None:
    paths = picture(digits(), tmp_path / name)
    stem = "who.v2" if name == "who.v2" else "who"
    assert [path.name for path in paths] == [f"{stem}.png", f"{stem}.svg"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{stem}.png", f"{stem}.svg"]
    assert imread(paths[0]).std() > 0.1  # something is drawn
    assert ElementTree.parse(paths[1]).getroot().tag.endswith("svg")


@pytest.mark.parametrize("split", ["train", "test"])
def test_odd_clients_can_be_drawn(split: str, tmp_path: Path) -> None:
    assert len(picture(toy(true_clusters=True), tmp_path / "odd", split=split)) == 2


def test_unwritable_folder_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nowhere"):
        picture(toy(), tmp_path / "nowhere" / "who")
    assert not list(tmp_path.iterdir())


def test_available_names_every_set_without_downloading(little_mnist: Path) -> None:
    shelf = available().set_index("name")
    assert list(shelf.index) == list(DATASETS)
    assert (
        shelf.loc["digits", "where"] == "embedded"
        and shelf.loc["synthetic", "where"] == "generated"
    )
    assert shelf.loc["mnist", "where"] == str(little_mnist / "MNIST")
    assert shelf.loc["cifar10", "where"] == "download, 170 MB"
    assert shelf.loc["femnist", "where"] == "not found; set FEDKIN_DATA"
    assert shelf.loc["digits", "clients"] == digits().clients


def test_forms_of_mex(places: Path) -> None:
    def place() -> str:
        return available().set_index("name").loc["mex", "where"]

    assert place() == "download, 9 MB"
    folder = places / "FedMEx"
    folder.mkdir()
    (folder / "fed_mex_TESTONLY.npz").write_bytes(b"")
    assert place() == f"{folder} (test part only)"
    for name in ("my_train_1.json", "my_test_1.json"):
        (folder / name).write_bytes(b"")
    assert place() == f"{folder} (LEAF's layout)"
    for name in ("train.json", "test.json"):
        (folder / name).write_bytes(b"")
    assert place() == f"{folder} (published files)"


def test_forms_of_goodreads(places: Path) -> None:
    def place() -> str:
        return available().set_index("name").loc["goodreads", "where"]

    folder = places / "FedGoodreads"
    folder.mkdir()
    for name in ("fed_goodreads_text_train.json", "fed_goodreads_text_test.json"):
        (folder / name).write_bytes(b"")
    assert place() == f"{folder} (text)"
    (folder / "fed_goodreads_counts.npz").write_bytes(b"")
    assert place() == f"{folder} (word counts, text)"
    (folder / "fed_goodreads_text_test.json").unlink()
    assert place() == f"{folder} (word counts)"


def test_the_table_of_data_sets_equals_the_real_sets(real: Path) -> None:
    shelf = available().set_index("name")
    for name in ("goodreads", "shakespeare"):
        data = DATASETS[name]()
        assert shelf.loc[name, "clients"] == data.clients
        assert shelf.loc[name, "samples"] == f"{data.train.sizes.sum() + data.test.sizes.sum():,}"
    assert shelf.loc["mex", "clients"] == DATASETS["mex"]().clients


def test_a_name_with_dollars_is_no_formula(tmp_path: Path) -> None:
    paths = picture(replace(toy(), name="a$b_{c$"), tmp_path / "who")
    assert len(paths) == 2 and all(path.stat().st_size for path in paths)


def test_failure_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A figure is synced before it has its name, as all files are."""
    (tmp_path / "who.png").mkdir()
    with pytest.raises(StorageError, match=r"who\.png is a folder"):
        picture(toy(), tmp_path / "who")
    assert [path.name for path in tmp_path.iterdir()] == ["who.png"]

    def failing(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage.file_system, "sync", failing)
    with pytest.raises(StorageError, match=r"other\.png.*No space left"):
        picture(toy(), tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["who.png"]


def written(data: FederatedData, folder: Path) -> set[str]:
    """All texts of the figure."""
    picture(data, folder / "a")
    tree = ElementTree.parse(folder / "a.svg")
    return {text.text or "" for text in tree.iter("{http://www.w3.org/2000/svg}text")}


def test_the_figure_has_ids_of_clients_and_numbers_of_classes(tmp_path: Path) -> None:
    """Columns are in the order of the majority class, so their places are no ids."""
    axes = _draw(toy(), "train").axes[1]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0", "2", "1"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["0", "1", "2", "3"]
    assert "ids of the clients, grouped by majority class" in written(toy(), tmp_path)


def test_the_figure_has_names_of_clients_and_classes(tmp_path: Path) -> None:
    long = "a hospital with a very long name"
    data = replace(
        toy(), client_names=("Bonn", long, "$x$"), label_names=("ill", "well", "old", "new")
    )
    texts = written(data, tmp_path)
    assert {"Bonn", f"{long[:17]}...", "$x$", "ill", "well", "old", "new"} <= texts
    assert "names of the clients, grouped by majority class" in texts
    assert table(data).loc["names of clients", "train"] == f"Bonn, {long}, $x$"
    assert "names of clients" not in table(toy()).index


def test_many_clients_and_classes_are_named_in_equal_steps() -> None:
    rows = np.arange(400)
    data = FederatedData(
        name="many",
        x=np.zeros((400, 1), np.float32),
        y=rows % 100,
        classes=100,
        train=Ragged.of(list(rows.reshape(200, 2))),
        test=Ragged.of([rows[:0]] * 200),
    )
    axes = _draw(data, "train").axes[0]
    assert 40 < len(axes.get_xticks()) <= 60 and set(np.diff(axes.get_xticks())) == {4}
    assert len(axes.get_yticks()) <= 24 and set(np.diff(axes.get_yticks())) == {5}
