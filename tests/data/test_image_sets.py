from __future__ import annotations

import gzip
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fedkin.core.errors import ChecksumError, ConfigError, DataError
from fedkin.data import DATASETS, cifar10, digits, fashion_mnist, load, mnist
from fedkin.data.federated import FederatedData
from fedkin.data.image_files import Images, cifar10_images, mnist_images, mnist_writers
from fedkin.data.partition_options import POOLED
from fedkin.data.transforms import resize
from fedkin.scenarios.planted_clusters import planted


def same(a: FederatedData, b: FederatedData) -> bool:
    parts = ((a.train, b.train), (a.test, b.test))
    return all(
        np.array_equal(p.rows, q.rows) and np.array_equal(p.offsets, q.offsets) for p, q in parts
    )


def owned_once(data: FederatedData) -> bool:
    rows = np.concatenate([data.train.rows, data.test.rows])
    return len(np.unique(rows)) == len(rows)


# -- digits: always there
# --------------------------------------------------------------------------------------------


def test_digits_by_default() -> None:
    data = digits()
    pixels, labels = load_digits(return_X_y=True)
    np.testing.assert_array_equal(data.x, (pixels / 16).astype(np.float32))
    np.testing.assert_array_equal(data.y, labels)
    assert data.clients == 60 and data.classes == 10 and owned_once(data)
    assert ((data.label_counts("train") + data.label_counts("test")) > 0).sum(axis=1).max() == 2
    assert data.test.sizes.min() >= 1


@pytest.mark.parametrize("partition", ["power_law", "dirichlet", "shards", "iid", "blocks"])
def test_digits_by_any_partition_repeats_itself(partition: str) -> None:
    data = digits(partition=partition, clients=20, seed=5)
    assert (
        data.clients == 20
        and owned_once(data)
        and same(data, digits(partition=partition, clients=20, seed=5))
    )
    assert not same(data, digits(partition=partition, clients=20, seed=6))


def test_options_reach_the_partition() -> None:
    for k in (1, 3, 5):
        assert (digits(classes_per_client=k, clients=30).label_counts() > 0).sum(axis=1).max() == k
    even, uneven = (
        digits(partition="dirichlet", clients=10, alpha=alpha) for alpha in (100.0, 0.1)
    )
    assert (even.label_counts() > 0).sum() > (uneven.label_counts() > 0).sum()
    assert digits(train_fraction=1.0).test.sizes.sum() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partition": "dirchlet"}, "did you mean 'dirichlet'"),
        ({"partition": "writer"}, "unknown partition 'writer'"),
        ({"partition": "ditto"}, "unknown partition 'ditto'"),
        ({"partition": "iid", "alpha": 0.5}, "alpha = 0.5 does not apply to partition 'iid'"),
        ({"alpha": 0.5}, "does not apply to partition 'power_law'"),
        (
            {"partition": "dirichlet", "classes_per_client": 2},
            "classes_per_client = 2 does not apply",
        ),
        ({"clients": 0}, "clients must be from 1 to"),
        ({"clients": 1798}, "clients must be from 1 to the number of samples, 1797"),
        ({"classes_per_client": 11}, "classes_per_client must be from 1 to 10"),
        ({"partition": "blocks", "alpha": 0.5}, "alpha = 0.5 does not apply to partition 'blocks'"),
        (
            {"partition": "blocks", "classes_per_client": 4},
            r"must divide the 10 classes \(1, 2, 5, 10\), got 4",
        ),
        ({"partition": "blocks", "clients": 4}, "at least 5 clients; got 4"),
        ({"tested": "idd"}, "unknown value of tested 'idd'; did you mean 'iid'"),
        ({"size": 0}, "size must be from 1 to 256"),
        ({"augment": ("flip",)}, "set size=8"),
        ({"size": 8, "augment": ("flop",)}, "did you mean 'flip'"),
        ({"train_fraction": 0.0}, "train_fraction"),
        ({"seed": -1}, "seed"),
    ],
)
def test_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        digits(**options)


def test_truth_is_the_block_and_nothing_else_has_one() -> None:
    data = digits(partition="blocks", clients=11)
    assert data.true_clusters is not None and data.true_clusters.tolist() == [
        0,
        0,
        0,
        1,
        1,
        2,
        2,
        3,
        3,
        4,
        4,
    ]
    for client, block in enumerate(data.true_clusters):
        for split in ("train", "test"):
            assert np.flatnonzero(data.label_counts(split)[client]).tolist() == [
                2 * block,
                2 * block + 1,
            ]
    assert owned_once(data) and sum(data.train.sizes) + sum(data.test.sizes) == 1797
    assert all(
        digits(partition=partition, clients=20).true_clusters is None
        for partition in POOLED
        if partition != "blocks"
    )


@pytest.mark.parametrize("partition", POOLED)
def test_tested_on_all_classes(partition: str) -> None:
    own, all_classes = (
        digits(partition=partition, clients=10, tested=tested) for tested in ("own", "iid")
    )
    assert np.array_equal(own.train.rows, all_classes.train.rows)
    # So that none of them trains.
    assert np.array_equal(np.sort(own.test.rows), np.sort(all_classes.test.rows))
    assert (
        np.ptp(all_classes.test.sizes) <= 1
        and (all_classes.label_counts("test") > 0).sum(axis=1).min() >= 8
    )
    assert not same(all_classes, digits(partition=partition, clients=10, tested="iid", seed=1))


def test_digits_of_another_size() -> None:
    data = digits(size=16, augment=("flip",))
    plain = digits()
    assert data.x.shape == (1797 + plain.train.sizes.sum(), 16, 16) and data.x.max() <= 1
    np.testing.assert_allclose(digits(size=8).x.reshape(1797, 64), plain.x, atol=1e-7)


# -- the idx sets: miniatures for the way, the real ones for the numbers
# ----------------------------------------------


def test_images_scaled_to_one() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 3, 3), dtype=np.uint8)
    images = Images("toy", pixels, np.zeros(5, np.int64), train=3)
    np.testing.assert_array_equal(
        images.unit(np.array([4]))[0], (pixels[4] / 255).astype(np.float32)
    )


def test_some_of_the_images() -> None:
    pixels = np.arange(50, dtype=np.uint8).repeat(9).reshape(50, 3, 3)
    images = Images("toy", pixels, np.arange(50), train=30)
    some = images.sample(20, seed=3)
    # None twice, in their order.
    assert len(np.unique(some.y)) == 20 and (np.diff(some.y) > 0).all()
    assert (some.pixels[:, 0, 0] == some.y).all() and some.train == (some.y < 30).sum()
    assert images.sample(None, seed=3) is images
    assert not np.array_equal(images.sample(20, seed=4).y, some.y)
    for wrong in (0, 51):
        with pytest.raises(
            ConfigError, match=f"samples must be from 1 to the 50 images of toy, got {wrong}"
        ):
            images.sample(wrong, seed=0)


def test_some_samples_of_little_mnist(little_mnist: Path) -> None:
    data = mnist(clients=10, partition="blocks", samples=200)
    assert data.train.sizes.sum() + data.test.sizes.sum() == len(data.x) == 200
    with pytest.raises(ConfigError, match="samples = 200 does not apply to partition 'writer'"):
        mnist(partition="writer", samples=200)


def test_little_mnist_pools_train_and_test(little_mnist: Path) -> None:
    data = mnist(clients=40)
    assert (
        data.x.shape == (700, 784)
        and data.x.dtype == np.float32
        and data.clients == 40
        and owned_once(data)
    )
    np.testing.assert_allclose(data.x.mean(axis=0), 0, atol=1e-5)
    assert data.train.rows.max() >= 600 > data.train.rows.min()
    assert same(data, mnist(clients=40)) and not same(data, mnist(clients=40, seed=1))


def test_little_fashion_mnist_keeps_train_and_test_apart(little_mnist: Path) -> None:
    data = fashion_mnist(clients=20)
    assert data.train.rows.max() < 600 <= data.test.rows.min()
    np.testing.assert_allclose(data.x[:600].mean(axis=0), 0, atol=1e-5)
    assert fashion_mnist(partition="iid", clients=7).train.sizes.tolist() == [90] * 7
    other = fashion_mnist(clients=20, seed=1)  # the seed shuffles, no more
    assert np.array_equal(other.label_counts(), data.label_counts()) and not same(data, other)
    with pytest.raises(ConfigError, match="train_fraction does not apply to partition 'ditto'"):
        fashion_mnist(train_fraction=0.5)


def raw(folder: Path, name: str) -> np.ndarray:
    """The 700 images of the miniature, read past the format's header."""
    parts = [
        gzip.decompress((folder / name / f"{part}-images-idx3-ubyte.gz").read_bytes())
        for part in ("train", "t10k")
    ]
    return np.concatenate(
        [np.frombuffer(part, np.uint8, offset=16).reshape(-1, 28, 28) for part in parts]
    )


def test_scales_of_little_mnist(little_mnist: Path) -> None:
    pixels = raw(little_mnist, "MNIST")
    np.testing.assert_array_equal(mnist(clients=40, scale="bytes").x, pixels.reshape(700, 784))
    np.testing.assert_allclose(
        mnist(clients=40, scale="unit").x, pixels.reshape(700, 784) / 255, rtol=1e-6
    )
    large = mnist(clients=40, size=32, scale="bytes").x
    np.testing.assert_array_equal(large, resize(pixels, 32))
    wide = mnist(clients=40, size=32).x  # standardised after it was resized
    np.testing.assert_allclose(
        wide, (large - large.mean(axis=0)) / (large.std(axis=0) + 0.001), atol=1e-3
    )
    np.testing.assert_array_equal(
        mnist(clients=40, size=28).x.reshape(700, 784), mnist(clients=40).x
    )


def test_standardised_copies_of_little_fashion_mnist(little_mnist: Path) -> None:
    """By the moments of the official training images alone, whatever is resized or added; black is
    standardised too."""
    pixels = raw(little_mnist, "FashionMNIST").astype(np.float64)
    mean = pixels[:600].mean(axis=0)
    deviation = pixels[:600].std(axis=0) + 0.001
    data = fashion_mnist(clients=20, size=28, augment=("rotation", "flip"))
    np.testing.assert_allclose(data.x[:700], (pixels - mean) / deviation, atol=1e-4)
    own = fashion_mnist(clients=20).train
    assert data.train.sizes.tolist() == (3 * own.sizes).tolist() and data.test.rows.max() < 700
    for client in (0, 19):
        rotated, flipped = data.train[client].reshape(3, -1)[1:]
        np.testing.assert_allclose(
            data.x[rotated, 0, 0], np.tile(-mean[0, 0] / deviation[0, 0], len(rotated)), atol=1e-4
        )
        expected = (pixels[own[client]][:, ::-1] - mean) / deviation
        np.testing.assert_allclose(data.x[flipped], expected, atol=1e-4)


def test_little_fashion_mnist_tested_on_all_classes(little_mnist: Path) -> None:
    own = fashion_mnist(clients=20)
    data = fashion_mnist(clients=20, tested="iid")
    assert np.array_equal(data.train.rows, own.train.rows) and np.ptp(data.test.sizes) <= 1
    # An image of two owners occurs once.
    assert np.array_equal(np.sort(data.test.rows), np.unique(own.test.rows))


def test_damaged_mnist_is_noticed(little_mnist: Path) -> None:
    path = little_mnist / "MNIST" / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ChecksumError, match="train-images"):
        mnist()


def test_real_mnist(real: Path) -> None:
    data = mnist()
    assert np.bincount(data.y).tolist() == [
        6903,
        7877,
        6990,
        7141,
        6824,
        6313,
        6876,
        7293,
        6825,
        6958,
    ]
    assert (data.clients, data.train.sizes.sum(), data.test.sizes.sum()) == (1000, 61_673, 7_373)
    assert owned_once(data) and data.x.shape == (70_000, 784) and np.abs(data.x.mean()) < 1e-4


def test_real_fashion_mnist(real: Path) -> None:
    data = fashion_mnist()
    assert (data.clients, data.train.sizes.sum(), data.test.sizes.sum()) == (500, 61_251, 11_254)


def test_real_mnist_by_writer(real: Path) -> None:
    data = mnist(partition="writer")
    assert data.clients == 539 + 297 and data.train.sizes.sum() + data.test.sizes.sum() == 70_000
    assert owned_once(data)
    train_part = [
        (data.train[u] < 60_000).all() or (data.train[u] >= 60_000).all()
        for u in range(data.clients)
    ]
    assert all(train_part)  # no writer is in both official parts
    assert mnist(partition="writer", clients=9).clients == 9
    with pytest.raises(ConfigError, match="from 1 to 836"):
        mnist(partition="writer", clients=837)


def test_writers_of_another_set_are_refused(real: Path) -> None:
    images = mnist_images()
    swapped = Images(images.name, images.pixels, images.y[::-1].copy(), images.train)
    with pytest.raises(DataError, match="differ from MNIST's"):
        mnist_writers(swapped)


# -- CIFAR-10: the official binary version
# ---------------------------------------------------------------------------


@pytest.fixture
def little_cifar(places: Path) -> Path:
    """Batches of 30 records, the test batch of 20, in the official layout."""
    rng = np.random.default_rng(0)
    folder = places / "cifar-10-batches-bin"
    folder.mkdir()
    for name, count in [
        *((f"data_batch_{n}.bin", 30) for n in range(1, 6)),
        ("test_batch.bin", 20),
    ]:
        records = rng.integers(0, 256, (count, 3073)).astype(np.uint8)
        records[:, 0] = np.arange(count) % 10
        (folder / name).write_bytes(records.tobytes())
    return folder


def test_little_cifar(little_cifar: Path) -> None:
    data = cifar10(clients=10)
    assert data.x.shape == (170, 32, 32, 3) and data.x.dtype == np.float32
    assert data.train.sizes.sum() + data.test.sizes.sum() == 170
    np.testing.assert_allclose(data.x[:150].mean(axis=(0, 1, 2)), 0, atol=1e-4)
    np.testing.assert_allclose(data.x[:150].std(axis=(0, 1, 2)), 1, atol=1e-3)


def test_looks_of_little_cifar(little_cifar: Path) -> None:
    pixels = cifar10_images().pixels
    np.testing.assert_allclose(cifar10(clients=10, scale="unit").x, pixels / 255, rtol=1e-6)
    small = resize(pixels, 8)
    np.testing.assert_array_equal(cifar10(clients=10, size=8, scale="bytes").x, small)
    data = cifar10(
        clients=10, partition="blocks", size=8, augment=("noise", "flip"), train_fraction=0.5
    )
    head = small[:150].astype(np.float64)  # the training images; copies have no part in it
    expected = (small - head.mean(axis=(0, 1, 2))) / (head.std(axis=(0, 1, 2)) + 0.001)
    np.testing.assert_allclose(data.x[:170], expected, atol=1e-4)
    kept = data.train[3].reshape(3, -1)
    S = (len(data.x) - 170) // 2
    assert kept[0].max() < 170 <= kept[1].min() and kept[1].max() < 170 + S <= kept[2].min()
    np.testing.assert_array_equal(data.x[kept[2]], data.x[kept[0]][:, ::-1])
    noise = (data.x[kept[1]] - data.x[kept[0]]) * head.std(axis=(0, 1, 2)) / 255
    assert 0.05 < noise.std() < 0.105 and np.isfinite(data.x).all()


def test_cifar_with_fewer_batches_only_when_asked(
    little_cifar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(cifar10(clients=5, batches=2).y) == 80
    for wrong in (0, 6):
        with pytest.raises(ConfigError, match="batches must be from 1 to 5"):
            cifar10(batches=wrong)
    (little_cifar / "data_batch_3.bin").unlink()
    assert len(cifar10(clients=5, batches=2).y) == 80

    def unreachable(*args: object, **kwargs: object) -> None:
        raise DataError("asked the web")

    monkeypatch.setattr("fedkin.data.image_files.fetch", unreachable)
    with pytest.raises(DataError, match="asked the web"):
        cifar10(clients=5)


def test_planted_clusters_of_cifar_with_fewer_batches(little_cifar: Path) -> None:
    sizes: dict[str, Any] = {"clusters": 2, "clients": 4, "samples": 10, "test_samples": 5}
    (little_cifar / "data_batch_3.bin").unlink()
    data = planted("cifar10", "rotation", **sizes, batches=2)
    assert data.x.shape == (60, 32, 32, 3) and data.train.sizes.tolist() == [10] * 4
    with pytest.raises(DataError, match="need 50"):
        # 80 images, 40 of a cluster.
        planted("cifar10", "rotation", **sizes | {"samples": 20}, batches=2)
    with pytest.raises(
        ConfigError, match="batches is an option of cifar10: digits has no batch files"
    ):
        planted("digits", batches=2)
    with pytest.raises(ConfigError, match="batches must be from 1 to 5, got 6"):
        planted("cifar10", batches=6)


def test_truncated_cifar_is_refused_by_name(little_cifar: Path) -> None:
    path = little_cifar / "data_batch_4.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="data_batch_4"):
        cifar10()


def test_real_cifar(shared_data: Path, places: Path) -> None:
    """The real images, written in the official binary version by the script in the same
    folder."""
    script = shared_data / "cifar10_to_binary.py"
    if not script.is_file():
        pytest.skip(f"{script} is not there to write CIFAR-10's binary version")
    subprocess.run(
        [sys.executable, script, places / "cifar-10-batches-bin"], check=True, capture_output=True
    )
    data = cifar10(batches=2)
    assert (
        data.clients == 100
        and data.train.sizes.sum() + data.test.sizes.sum() == len(data.y) == 19_985 + 9_979
    )
    # published moments of the training images, in units of 1/255 (here, of two batches)
    pixels = cifar10_images(2).pixels[:19_985].reshape(-1, 3) / 255
    np.testing.assert_allclose(pixels.mean(axis=0), [0.4914, 0.4821, 0.4464], atol=0.003)
    np.testing.assert_allclose(pixels.std(axis=0), [0.2470, 0.2435, 0.2616], atol=0.003)
    shutil.rmtree(places)


def test_every_set_has_its_name_and_a_docstring() -> None:
    assert {"digits", "mnist", "shakespeare", "tcga_brca", "sea"} <= DATASETS.keys()
    assert not {"load", "pack", "augmented", "from_arrays"} & DATASETS.keys()
    assert all(make.__name__ == name and make.__doc__ for name, make in DATASETS.items())


# -- every set, and whatever is made of one
# ---------------------------------------------------------------------------


MAKERS: dict[str, Callable[..., FederatedData]] = DATASETS | {
    "load": partial(load, "no.npz"),
    "planted": planted,
}
WRONG: dict[str, list[Any]] = {
    "int": [2.5, "ten", True],
    "float": ["half", False],
    "bool": [1, "yes"],
    "str": [3, True],
    "str | int": [2.5, True],  # the name of a column
    "Any": [2.5],  # one column, or several
    "tuple[str,": ["flip", 3, ["flip"], ("flip", 3)],
    "Sequence[str]": ["flip", 3, ["flip", 3]],
}


# Options that another task refuses, whatever their values are.
OF_FORECASTS = ("time", "lags", "test_from", "validation_from")


@pytest.mark.parametrize("maker", MAKERS)
def test_options_of_the_wrong_type_are_refused_by_name(maker: str, places: Path) -> None:
    """Before any file is looked for, and by us: Python would fail inside, or take 2.5 clients for
    2."""
    make = MAKERS[maker]
    options = [p for p in inspect.signature(make).parameters.values() if p.name != "path"]
    assert options
    for option in options:
        annotation = str(option.annotation).removesuffix(" | None")
        for value in WRONG.get(annotation) or WRONG[annotation.split(" ")[0]]:
            reason = rf"^{option.name} must be .*, got {re.escape(repr(value))}$"
            if option.name in OF_FORECASTS:
                reason = f"^{option.name} = {value!r} applies to forecasts only"
            with pytest.raises(ConfigError, match=reason):
                make(**{option.name: value})


@pytest.mark.parametrize(
    "maker", [name for name, make in MAKERS.items() if "seed" in inspect.signature(make).parameters]
)
def test_negative_seeds_are_refused_alike(maker: str, places: Path) -> None:
    choices: list[dict[str, Any]] = [{}]
    if maker == "digits":
        choices = [{"partition": partition} for partition in POOLED]
    for options in choices + ([{"writer": True}] if maker == "femnist" else []):
        with pytest.raises(ConfigError, match=r"^seed must be an integer of at least 0, got -1$"):
            MAKERS[maker](seed=-1, **options)


def test_arguments_by_position_are_checked_and_unknown_ones_are_pythons() -> None:
    with pytest.raises(ConfigError, match=r"^path must be text, got 5$"):
        load(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^kind must be text, got 4$"):
        planted("digits", 4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="client"):
        digits(client=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        digits("iid", 5, None, None, "own", None, (), 0.8, 0, 1)  # type: ignore[misc]


def test_numpys_numbers_serve_for_pythons(plainly: Callable[[Sequence[str]], list[str]]) -> None:
    options = "clients=np.int64(20), train_fraction=np.float32(0.5), seed=np.uint8(3)"
    assert plainly(
        [f"digits({options})", "digits(clients=np.float64(2.5))", "synthetic(iid=np.bool_(True))"]
    ) == [
        "made digits",
        "ConfigError: clients must be an integer, got 2.5",
        "made synthetic(iid)",
    ]
