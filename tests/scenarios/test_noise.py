"""Noise in labels and features: which samples it is in, how much of it, and refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.options.with_options import by_section, simulated
from fedkin.scenarios.noise import flip_labels
from tests.scenarios.other_labels import other_labels

CLIENTS = 4
EACH = 3_000  # training samples of a client


def federation(classes: int = 5, features: int = 2) -> FederatedData:
    """Clients with many training samples, and ten test and validation samples each."""
    sizes = (EACH, 10, 10)
    rows = np.arange(CLIENTS * sum(sizes)).reshape(CLIENTS, -1)
    train, validation, test = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
    return FederatedData(
        name="noisy",
        x=np.zeros((rows.size, features), np.float32),
        y=np.arange(rows.size) % classes,
        classes=classes,
        train=Ragged.of(list(train)),
        test=Ragged.of(list(test)),
        validation=Ragged.of(list(validation)),
        true_clusters=np.array([0, 0, 1, 1]),
    )


DATA = federation()


def noisy(option: fk.Option, data: FederatedData = DATA, seed: int = 0) -> FederatedData:
    return simulated(by_section([option]), data, None, seed)[0]


@pytest.mark.parametrize("task", ["regression", "survival"])
def test_labels_that_are_no_classes_have_no_wrong_ones(task: str) -> None:
    data = other_labels(task)
    with pytest.raises(ConfigError, match=f"label_noise changes labels that are cl.*{task}"):
        noisy(fk.SymmetricFlips(0.2), data)
    with pytest.raises(ConfigError, match=f"label noise changes labels that are cl.*{task}"):
        flip_labels(data, np.full(data.clients, 0.2), Stream(0))


def wrong_share(data: FederatedData, client: int, split: str = "train") -> float:
    """The share of a client's samples whose labels differ from the labels without noise."""
    rows = data.part(split)[client]
    return float((data.y[rows] != DATA.y[rows]).mean())


def test_the_variance_of_client_i_is_level_times_i_over_n() -> None:
    """NIID-Bench's Gau(sigma i / N), whose second argument is the variance. A deviation of sigma
    i / N would give variances of 0.25, 1, 2.25 and 4 here."""
    data = noisy(fk.GaussianNoise(level=2.0))
    variances = [data.x[data.train[client]].var() for client in range(CLIENTS)]
    np.testing.assert_allclose(variances, [0.5, 1.0, 1.5, 2.0], rtol=0.06)
    means = [data.x[data.train[client]].mean() for client in range(CLIENTS)]
    np.testing.assert_allclose(means, 0, atol=0.06)


def test_as_coded_deviations_grow_from_zero() -> None:
    """NIID-Bench's code: std = noise / (n_parties - 1) * net_id, with net_id from 0."""
    noise = fk.GaussianNoise(level=3.0, as_coded=True)
    assert noise.deviations(CLIENTS).tolist() == [0, 1, 2, 3]
    assert noise.deviations(1).tolist() == [0]
    data = noisy(noise)
    assert not data.x[data.train[0]].any()
    assert data.x[data.train[2]].std() == pytest.approx(2, rel=0.03)


@pytest.mark.parametrize(
    ("noise", "deviations"),
    [
        (fk.GaussianNoise(level=4.0, grows=False), [2, 2, 2, 2]),
        (fk.GaussianNoise(level=4.0, grows=False, as_coded=True), [4, 4, 4, 4]),
        (fk.GaussianNoise(levels=(0, 1, 4, 9)), [0, 1, 2, 3]),
        (fk.GaussianNoise(levels=(0, 1, 4, 9), as_coded=True), [0, 1, 4, 9]),
    ],
)
def test_levels_of_clients(noise: fk.GaussianNoise, deviations: list[float]) -> None:
    assert noise.deviations(CLIENTS).tolist() == deviations


def test_symmetric_flips_hit_each_other_class_alike() -> None:
    """A flip that may draw the true label again would change only 4/5 of the samples drawn."""
    data = noisy(fk.SymmetricFlips(rate=0.4))
    for client in range(CLIENTS):
        assert wrong_share(data, client) == pytest.approx(0.4, abs=0.03)
    rows = data.train[0]
    steps = (data.y[rows] - DATA.y[rows]) % 5
    counts = np.bincount(steps, minlength=5)
    np.testing.assert_allclose(counts[1:] / counts[1:].sum(), 0.25, atol=0.03)


def test_every_label_is_wrong_at_a_rate_of_one() -> None:
    symmetric = noisy(fk.SymmetricFlips(rate=1.0))
    assert [wrong_share(symmetric, client) for client in range(CLIENTS)] == [1, 1, 1, 1]
    pairs = noisy(fk.PairFlips(rate=1.0))
    rows = DATA.train.rows
    np.testing.assert_array_equal(pairs.y[rows], (DATA.y[rows] + 1) % 5)


def test_rates_of_clients() -> None:
    growing = noisy(fk.PairFlips(rate=0.8, grows=True))
    shares = [wrong_share(growing, client) for client in range(CLIENTS)]
    np.testing.assert_allclose(shares, [0.2, 0.4, 0.6, 0.8], atol=0.03)
    given = noisy(fk.SymmetricFlips(rates=(0.0, 1.0, 0.0, 0.5)))
    shares = [wrong_share(given, client) for client in range(CLIENTS)]
    np.testing.assert_allclose(shares, [0, 1, 0, 0.5], atol=0.03)


@pytest.mark.parametrize(
    "option", [fk.SymmetricFlips(rate=0.9), fk.PairFlips(rate=0.9), fk.GaussianNoise(level=1.0)]
)
def test_validation_samples_have_noise_and_test_samples_have_none(option: fk.Option) -> None:
    data = noisy(option)
    changed = (data.x != DATA.x).any(axis=1) | (data.y != DATA.y)
    assert changed[data.part("validation").rows].mean() > 0.7
    assert not changed[data.test.rows].any()
    np.testing.assert_array_equal(data.true_clusters, DATA.true_clusters)
    for split in ("train", "validation", "test"):
        np.testing.assert_array_equal(data.part(split).rows, DATA.part(split).rows)


def test_a_client_has_the_same_noise_whatever_others_have() -> None:
    """Each client has a separate stream, and only its rate decides how many labels are wrong."""
    all_clients = noisy(fk.SymmetricFlips(rate=0.3))
    one = noisy(fk.SymmetricFlips(rates=(0, 0, 0.3, 0)))
    rows = DATA.train[2]
    np.testing.assert_array_equal(one.y[rows], all_clients.y[rows])
    # Of 3,000 samples, with the rate 0.3 and seed 0: another way to draw them gives another number.
    assert int((one.y[rows] != DATA.y[rows]).sum()) == 895


def test_shared_samples_get_noise_for_one_owner_alone() -> None:
    """Two clients own the same samples, and these are test samples as well."""
    rows = [np.arange(50), np.arange(50)]
    shared = replace(
        DATA,
        train=Ragged.of(rows),
        test=Ragged.of(rows),
        validation=None,
        true_clusters=None,
    )
    data = noisy(fk.PairFlips(rates=(0.0, 1.0)), shared)
    np.testing.assert_array_equal(data.y[data.train[0]], DATA.y[:50])
    np.testing.assert_array_equal(data.y[data.train[1]], (DATA.y[:50] + 1) % 5)
    np.testing.assert_array_equal(data.y[data.test[1]], DATA.y[:50])


def test_the_given_data_stay_as_they_are() -> None:
    before = DATA.x.copy(), DATA.y.copy()
    noisy(fk.GaussianNoise(level=1.0))
    noisy(fk.PairFlips(rate=1.0))
    np.testing.assert_array_equal(DATA.x, before[0])
    np.testing.assert_array_equal(DATA.y, before[1])


def test_seeds_draw_other_noise() -> None:
    own = noisy(fk.SymmetricFlips(seed=1))
    run = fk.SymmetricFlips(seed="run")
    np.testing.assert_array_equal(noisy(run, seed=1).y, own.y)
    assert (noisy(run, seed=2).y != own.y).any()
    assert (noisy(fk.SymmetricFlips(), seed=1).y != own.y).any()


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (fk.SymmetricFlips, {"rate": 1.2}, r"rate must be a fraction in \[0, 1\], got 1\.2"),
        (fk.PairFlips, {"rates": (0.1, -1.0)}, r"rates must be a fraction"),
        (fk.PairFlips, {"seed": -1}, r"seed must be an integer of at least 0, got -1"),
        (fk.GaussianNoise, {"level": -0.1}, r"level must be a number from 0 up, such as 0\.1; got"),
        (fk.GaussianNoise, {"level": np.nan}, r"level must be a number from 0 up"),
        (fk.GaussianNoise, {"levels": (1.0, np.inf)}, r"levels must be a number from 0 up"),
    ],
)
def test_invalid_options(kind: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kind(**options)


def test_refusals() -> None:
    with pytest.raises(
        ConfigError,
        match=r"^label_noise\.rates: expected a number for each of 4 clients, such as "
        r"\[0\.1, 0\.2, \.\.\.\], got 2",
    ):
        noisy(fk.PairFlips(rates=(0.1, 0.2)))
    with pytest.raises(ConfigError, match=r"^feature_noise\.levels: expected a number for each"):
        noisy(fk.GaussianNoise(levels=(0.1, 0.2)))
    with pytest.raises(DataError, match="there is only one class"):
        noisy(fk.SymmetricFlips(), federation(classes=1))
    words = replace(DATA, x=np.zeros((len(DATA.y), 3), np.int64), vocabulary=("a",))
    with pytest.raises(DataError, match=r"features that are real numbers, got int64; use label_n"):
        noisy(fk.GaussianNoise(), words)
