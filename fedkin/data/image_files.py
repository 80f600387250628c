"""Published image sets: pixels and labels, before they are partitioned over clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int, Shaped, UInt8

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data.download import Source, fetch, locate
from fedkin.data.files import read_cifar, read_idx, read_idx_pair

IDX_NAMES = tuple(
    f"{part}-{kind}-ubyte.gz"
    for part in ("train", "t10k")
    for kind in ("images-idx3", "labels-idx1")
)


def _idx_files(*md5: str) -> dict[str, str | None]:
    """The md5 of each of the four idx files, by file name."""
    return dict(zip(IDX_NAMES, md5, strict=True))


MNIST = Source(
    "mnist",
    _idx_files(
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
    folders=("MNIST", "mnist"),
    url="https://ossci-datasets.s3.amazonaws.com/mnist/",
    size="12 MB",
)
FASHION_MNIST = Source(
    "fashion_mnist",
    _idx_files(
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
    folders=("FashionMNIST", "fashion_mnist"),
    url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    size="31 MB",
)
QMNIST_WRITERS = Source(
    "mnist writers",
    {
        "qmnist-train-labels-idx2-int.gz": "0058f8dd561b90ffdd0f734c6a30e5e4",
        "qmnist-test-labels-idx2-int.gz": "5b5b05890a5e13444e108efe57b788aa",
    },
    folders=("QMNIST-labels", "QMNIST"),
    url="https://raw.githubusercontent.com/facebookresearch/qmnist/master/",
    size="1 MB",
)
CIFAR10 = Source(
    "cifar10",
    {**{f"data_batch_{n}.bin": None for n in range(1, 6)}, "test_batch.bin": None},
    folders=("cifar-10-batches-bin", "CIFAR10"),
    url="https://www.cs.toronto.edu/~kriz/",
    archive=("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
    help="With only n of the five training batches, use cifar10(batches=n).",
    size="170 MB",
)


@dataclass(frozen=True)
class Images:
    """M images with labels.

    Attributes:
        name: name of the set.
        pixels: images [M, H, W], or [M, H, W, channels].
        y: labels 0 .. classes-1.
        train: number of official training images, which come first.
        white: largest value of a pixel.
        classes: number of classes C.
    """

    name: str
    pixels: UInt8[np.ndarray, "M ..."]
    y: Int[np.ndarray, "M"]
    train: int
    white: int = 255
    classes: int = 10

    def unit(self, rows: Int[np.ndarray, "n"] | slice = slice(None)) -> Float32[np.ndarray, "..."]:
        """Pixels scaled to 0 .. 1, with the shape of the images."""
        return self.pixels[rows].astype(np.float32) / np.float32(self.white)

    def sample(self, count: int | None, seed: int) -> Images:
        """A random subset of ``count`` images, in their order; None for all."""
        if count is None:
            return self
        if not 1 <= count <= len(self.y):
            raise ConfigError(
                f"samples must be from 1 to the {len(self.y):,} images of {self.name}, got {count}"
            )
        order = Stream(seed, purpose="data/samples").rng().permutation(len(self.y))
        rows = np.sort(order[:count])
        train = int((rows < self.train).sum())
        return replace(self, pixels=self.pixels[rows], y=self.y[rows], train=train)


def digits_images() -> Images:
    """1,797 handwritten digits of 8 x 8 pixels, 0 .. 16, that come with scikit-learn (UCI
    optdigits, test part)."""
    # The package is located without importing it, because the import takes longer than a run on the
    # digits.
    package = find_spec("sklearn")
    assert package is not None and package.submodule_search_locations
    path = Path(package.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    table = np.loadtxt(path, np.int64, delimiter=",")
    x = table[:, :-1].reshape(-1, 8, 8).astype(np.uint8)
    y = table[:, -1]
    return Images(name="digits", pixels=x, y=np.ascontiguousarray(y), train=len(y), white=16)


def mnist_images() -> Images:
    """MNIST (LeCun et al. 1998): 60,000 + 10,000 handwritten digits of 28 x 28 pixels."""
    return _idx_images("mnist", MNIST)


def fashion_mnist_images() -> Images:
    """Fashion-MNIST (Xiao et al. 2017): 60,000 + 10,000 pieces of clothing of 28 x 28 pixels."""
    return _idx_images("fashion_mnist", FASHION_MNIST)


def _idx_images(name: str, source: Source) -> Images:
    """The images of a set that is published as idx files."""
    folder = fetch(source)
    train_x, train_y = read_idx_pair(folder / IDX_NAMES[0], folder / IDX_NAMES[1])
    test_x, test_y = read_idx_pair(folder / IDX_NAMES[2], folder / IDX_NAMES[3])
    return Images(
        name=name,
        pixels=np.concatenate([train_x, test_x]),
        y=np.concatenate([train_y, test_y]),
        train=len(train_y),
    )


def mnist_writers(images: Images) -> Int[np.ndarray, "M"]:
    """The writer of each MNIST image, from QMNIST's labels (Yadav & Bottou 2019).

    QMNIST's first rows are MNIST's images.
    """
    folder = fetch(QMNIST_WRITERS)
    train_file, test_file = QMNIST_WRITERS.files
    train_rows = _writer_rows(folder / train_file, images.train)
    test_rows = _writer_rows(folder / test_file, len(images.y) - images.train)
    table = np.concatenate([train_rows, test_rows])
    if not np.array_equal(table[:, 0], images.y):
        raise DataError(
            f"{folder}: the classes in QMNIST's labels differ from MNIST's, so the files do not "
            "belong together; replace them"
        )
    return table[:, 2].astype(np.int64)


def _writer_rows(path: Path, count: int) -> Shaped[np.ndarray, "n 8"]:
    """The first rows of a QMNIST label file: 8 numbers per image, such as class and writer."""
    table = read_idx(path)
    if table.ndim != 2 or table.shape[1] != 8 or len(table) < count:
        raise DataError(
            f"{path}: expected at least {count} rows of 8 numbers, got shape {table.shape}"
        )
    return table[:count]


def cifar10_images(batches: int = 5) -> Images:
    """CIFAR-10 (Krizhevsky 2009), official binary version: 50,000 + 10,000 colour images of 32 x 32
    pixels.

    Args:
        batches: number of training batches to use, of five. A batch may have fewer than 10,000
            records.
    """
    if not 1 <= batches <= 5:
        raise ConfigError(f"batches must be from 1 to 5, got {batches}")
    names = [*list(CIFAR10.files)[:batches], "test_batch.bin"]
    folder = locate(replace(CIFAR10, files=dict.fromkeys(names))) or fetch(CIFAR10)
    parts = [read_cifar(folder / name) for name in names]
    pixels = np.concatenate([part_pixels for part_pixels, _ in parts])
    y = np.concatenate([part_y for _, part_y in parts])
    _, test_y = parts[-1]
    return Images(name="cifar10", pixels=pixels, y=y, train=len(y) - len(test_y))


IMAGES: dict[str, Callable[[], Images]] = {
    "digits": digits_images,
    "mnist": mnist_images,
    "fashion_mnist": fashion_mnist_images,
    "cifar10": cifar10_images,
}
