"""A validation split: drawn from each client's training samples, read from a file, kept by whatever
changes data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.config import registry
from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data import augmented, from_arrays, load, table
from fedkin.data.digest import data_digest
from fedkin.data.federated import FederatedData, Ragged, check_validation
from fedkin.scenarios.drift import Relabel
from fedkin.scenarios.shift import Incremental, ShiftedData
from fedkin.scenarios.swaps import swap_all, swap_labels
from tests.data.test_leaf import TEST, TRAIN, content
from tests.data.test_leaf import write as write_leaf
from tests.data.test_load import FORMATS, write


def data(sizes: tuple[int, ...] = (20, 7, 2, 1)) -> FederatedData:
    """Clients with so many training samples and one test sample each; two classes, one to three."""
    M = sum(sizes)
    rows = np.split(np.arange(M), np.cumsum(sizes)[:-1])
    test = [np.array([M + client]) for client in range(len(sizes))]
    y = np.concatenate([np.arange(M) % 4 > 0, np.zeros(len(sizes), bool)]).astype(np.int64)
    x = np.arange(2 * len(y), dtype=np.float32).reshape(-1, 2)
    return FederatedData(
        name="toy",
        x=x,
        y=y,
        classes=2,
        train=Ragged.of(rows),
        test=Ragged.of(test),
        true_clusters=np.arange(len(sizes)) % 2,
    )


def test_every_client_gives_its_share_and_keeps_a_training_sample() -> None:
    """ceil(n / 10), and at most n - 1."""
    split = data().with_validation(0.1)
    assert split.validation is not None
    assert split.validation.sizes.tolist() == [2, 1, 1, 0] and split.train.sizes.tolist() == [
        18,
        6,
        1,
        1,
    ]
    # 0.1 x 30 is 3.0000000000000004.
    assert data((30,)).with_validation(0.1).part("validation").sizes.tolist() == [3]
    assert data().with_validation(0.99).train.sizes.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("labels", ["classes", "numbers"])
def test_only_a_stratified_draw_keeps_the_mean_label(labels: str) -> None:
    """100 samples, 20 of them drawn. The mean label of a random draw has the variance
    v / 20 (1 - 20 / 100), with v the variance of the labels (n - 1). A stratified draw has nearly
    the same mean each time."""
    made = data((100,))
    if labels == "numbers":
        y = np.random.default_rng(0).normal(size=101)
        part = np.arange(101) == 100
        made = from_arrays(y[:, None], y, clients=np.zeros(101, int), test=part, task="regression")
    # The feature is the label, since labels that are numbers are scaled again after each draw.
    value = made.x[:, 0] if labels == "numbers" else made.y
    variance = value[made.train.rows].var(ddof=1)
    means = {}
    for stratified in (True, False):
        drawn = [made.with_validation(0.2, seed, stratified=stratified) for seed in range(400)]
        means[stratified] = [value[split.part("validation").rows].mean() for split in drawn]
        assert {len(split.part("validation").rows) for split in drawn} == {20}
    assert np.var(means[False]) == pytest.approx(0.8 * variance / 20, rel=0.25)
    assert np.var(means[True]) < 0.2 * np.var(means[False])
    assert np.mean(means[False]) == pytest.approx(value[made.train.rows].mean(), abs=0.03)


def test_a_sample_moves_from_training_to_validation_and_the_rest_stays() -> None:
    before = data()
    after = before.with_validation(0.3)
    for client in range(before.clients):
        both = np.concatenate([after.train[client], after.part("validation")[client]])
        assert sorted(both) == before.train[client].tolist() and len(set(both)) == len(both)
        # In the order that they had.
        assert after.train[client].tolist() == sorted(after.train[client])
    assert (
        after.test is before.test
        and after.x is before.x
        and after.true_clusters is before.true_clusters
    )


def test_the_draw_is_stratified_by_class() -> None:
    """5 of 20 samples are of class 0: of 8 validation samples 2, of 6 one or two. Without strata,
    numbers vary."""
    counts = {0.4: set[int](), 0.3: set[int]()}
    for fraction, seen in counts.items():
        for seed in range(20):
            seen.add(
                int(data((20,)).with_validation(fraction, seed).label_counts("validation")[0, 0])
            )
    assert counts == {0.4: {2}, 0.3: {1, 2}}


def test_the_draw_depends_on_seed_and_client_alone() -> None:
    first, again, other = (
        data().with_validation(0.5, seed).part("validation") for seed in (3, 3, 4)
    )
    assert first.rows.tolist() == again.rows.tolist() != other.rows.tolist()
    fewer = data((20, 7)).with_validation(0.5, 3).part("validation")
    assert fewer.rows.tolist() == first.rows[: first.offsets[2]].tolist()


def test_splits_by_name() -> None:
    assert data().splits == ("train", "test") and data().scored_split == "test"
    split = data().with_validation(0.2)
    assert split.splits == ("train", "validation", "test") and split.scored_split == "validation"
    assert (
        split.label_counts() + split.label_counts("validation")
    ).tolist() == data().label_counts().tolist()
    assert table(split).columns.tolist() == ["train", "validation", "test"]
    assert table(split).loc["samples"].tolist() == ["23", "7", "4"]
    with pytest.raises(
        DataError, match=r"toy has no validation split: .*with_validation\(0\.1\).*data\.validation"
    ):
        data().part("validation")


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, True, "0.1", float("nan")])
def test_no_fraction(fraction: Any) -> None:
    with pytest.raises(ConfigError, match="validation must be a fraction above 0 and below 1"):
        check_validation(fraction)
    with pytest.raises(ConfigError, match=r"got 1\.5"):
        data().with_validation(1.5)


def test_no_second_validation_split() -> None:
    with pytest.raises(DataError, match="already has a validation split"):
        data().with_validation(0.1).with_validation(0.1)
    with pytest.raises(ConfigError, match="seed must be an integer of at least 0, got -1"):
        data().with_validation(0.1, -1)


def test_a_validation_split_is_checked() -> None:
    with pytest.raises(DataError, match="train has 4 clients, but validation has 1"):
        data().with_rows(data().train, data().test, validation=Ragged.of([np.array([0])]))
    with pytest.raises(DataError, match=r"validation\.offsets must rise from 0 to 1"):
        data().with_rows(
            data().train, data().test, validation=Ragged(np.array([0]), np.array([0, 1, 1, 1, 2]))
        )


def test_runs_without_one_keep_their_digest_and_others_have_another() -> None:
    split = data().with_validation(0.2)
    bare = split.with_rows(split.train, split.test)
    assert data_digest(split) == data_digest(bare) != data_digest(data())
    moved = split.with_rows(
        split.train, split.test, validation=data().with_validation(0.2, 1).validation
    )
    assert data_digest(moved) != data_digest(split)


def test_some_clients_keep_all_splits() -> None:
    some = data().with_validation(0.3).select(np.array([1, 0]))
    whole = data().with_validation(0.3)
    for split in ("train", "validation", "test"):
        assert [some.part(split)[u].tolist() for u in (1, 0)] == [
            whole.part(split)[u].tolist() for u in (0, 1)
        ]
    assert some.true_clusters is None


# --- configurations and files


def make(**options: Any) -> FederatedData:
    return registry.resolve(
        "data set", registry.datasets(), options, lambda key: f"data.{key}"
    ).make()


@pytest.mark.parametrize(
    "options", [{"name": "digits", "clients": 6, "seed": 3}, {"name": "synthetic", "clients": 6}]
)
def test_every_named_set_takes_a_fraction(options: dict[str, Any]) -> None:
    split = make(**options, validation=0.25)
    whole = make(**options)
    expected = whole.with_validation(0.25, options.get("seed", 0))
    assert split.part("validation").rows.tolist() == expected.part("validation").rows.tolist()
    assert split.train.rows.tolist() == expected.train.rows.tolist()
    assert whole.validation is None


def test_planted_clusters_and_files_take_one_too(tmp_path: Path) -> None:
    planted = make(name="planted", base="digits", clients=8, validation=0.1)
    assert (
        planted.part("validation").sizes.tolist() == [6] * 8 and planted.true_clusters is not None
    )
    mine = make(name="file", path=str(write(tmp_path / "mine.csv")), validation=0.5)
    assert mine.part("validation").sizes.tolist() == [0, 1, 0]


def test_a_configuration_without_one_says_nothing() -> None:
    values = registry.resolve("data set", registry.datasets(), {"name": "digits"}, str).values
    assert "validation" not in values
    values = registry.resolve(
        "data set", registry.datasets(), {"name": "digits", "validation": 0.1}, str
    ).values
    assert values["validation"] == 0.1


@pytest.mark.parametrize("wrong", ["a tenth", True, [0.1]])
def test_a_configuration_is_checked(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"data\.validation: expected a valid number"):
        make(name="digits", validation=wrong)
    with pytest.raises(ConfigError, match=r"data\.validtion: unknown key.*validation"):
        make(name="digits", validtion=0.1)


def test_windows_that_overlap_are_no_validation_split() -> None:
    with pytest.raises(ConfigError, match="overlapping windows of each client's text"):
        registry.datasets()["shakespeare"](validation=0.1)


def test_copies_of_images_do_not_validate(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"validation and augment exclude each other.*augmented\("
    ):
        make(name="digits", augment=["noise"], size=8, validation=0.1)
    split = make(name="digits", clients=6, size=8, validation=0.1)
    more = augmented(split, ["flip"], high=1.0)
    assert (
        more.train.sizes.tolist() == (2 * split.train.sizes).tolist()
        and more.validation is split.validation
    )


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_may_have_its_own(name: str, tmp_path: Path) -> None:
    words = np.array(["train", "train", "test", "test", "validation", "train"])
    mine = load(write(tmp_path / name, split=words))
    assert [mine.part("validation")[u].tolist() for u in range(3)] == [[], [4], []]
    assert [mine.train[u].tolist() for u in range(3)] == [[1], [0], [5]]
    numbers = load(write(tmp_path / f"n{name}", split=np.array([0, 0, 1, 1, 2, 0])))
    assert numbers.part("validation").rows.tolist() == [4]
    with pytest.raises(DataError, match="already has a validation split"):
        make(name="file", path=str(tmp_path / name), validation=0.1)


@pytest.mark.parametrize("folder", ["val", "validation"])
def test_leaf_may_have_a_third_folder(folder: str, tmp_path: Path) -> None:
    (write_leaf(tmp_path) / folder).mkdir()
    (tmp_path / folder / "all.json").write_text(
        json.dumps(content({"a": ([[9, 9], [8, 8]], [0, 2])}))
    )
    mine = load(tmp_path)
    assert [mine.part("validation")[u].tolist() for u in range(2)] == [[], [4, 5]]
    assert mine.x[mine.part("validation")[1]].tolist() == [[9, 9], [8, 8]] and mine.y[
        [4, 5]
    ].tolist() == [0, 2]
    assert [mine.test[u].tolist() for u in range(2)] == [[3], []]
    (tmp_path / folder / "all.json").write_text(json.dumps(content({"c": ([[9, 9]], [0])})))
    with pytest.raises(DataError, match="user 'c' has validation samples but no training samples"):
        load(tmp_path)
    assert len(TRAIN) == 2 and len(TEST) == 1


# --- data that shift


def test_whoever_swaps_everything_swaps_validation_samples() -> None:
    before = data((6, 5, 4)).with_validation(0.4)
    after, _ = swap_all(before, np.array([[0, 2]]))
    for split in before.splits:
        assert [after.part(split)[u].tolist() for u in (2, 1, 0)] == [
            before.part(split)[u].tolist() for u in range(3)
        ]


def test_whoever_swaps_a_label_swaps_it_for_validation() -> None:
    """Client 0 has class 0 alone, client 1 class 1; they swap them."""
    y = np.array([0, 0, 0, 1, 1, 1])
    parts = [Ragged.of([np.array([first]), np.array([first + 3])]) for first in range(3)]
    x = np.zeros((6, 2), np.float32)
    before = FederatedData(
        name="toy", x=x, y=y, classes=2, train=parts[0], test=parts[1], validation=parts[2]
    )
    after, _ = swap_labels(before, before, np.array([[0, 1]]), np.array([[0, 1]]))
    for split in before.splits:
        assert after.label_counts(split).tolist() == [[0, 1], [1, 0]]


def test_all_validation_samples_are_there_from_the_start() -> None:
    split = data((20, 8)).with_validation(0.25)
    now, _ = ShiftedData(split, Incremental(), lambda _: np.arange(2)).at(Stream(0, 1, "scenario"))
    assert now.train.sizes.tolist() == [4, 2] and now.validation is split.validation


def test_labels_drift_for_validation_as_for_test() -> None:
    split = data((20, 8)).with_validation(0.25)
    shift = Relabel(kinds=2, at=1, fraction=1.0)
    rounds = ShiftedData(split, shift, lambda _: np.arange(2))
    stream = Stream(0, 0, "scenario")
    start = rounds.at(stream)[0]
    later = rounds.at(stream.at(1))[0]
    for part in split.splits:
        assert start.x[start.part(part).rows].tolist() == split.x[split.part(part).rows].tolist()
        assert later.label_counts(part).tolist() == start.label_counts(part)[:, ::-1].tolist()
