"""Noise that clients add to secret sums: as much as the mechanism's, from n_min clients on; and
none without."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.client_memory import ClientMemory, OwnMemory
from fedkin.core.errors import TaskError
from fedkin.core.randomness import Stream
from fedkin.core.task import fields_down
from fedkin.models import mclr
from fedkin.options.journal import Journal
from fedkin.options.privacy.private_world import PrivateWorld
from fedkin.options.privacy.randomness import SeededRandomness, SystemRandomness
from fedkin.options.privacy.secret_noise import noise_share
from fedkin.secret.client import MaskingError
from fedkin.secret.quantization import EXTRA, IntegerGrid, NoiseShare
from fedkin.tasks.secret_training import SecretTrain, masked_form
from fedkin.tasks.train import Train, train
from tests.simulation.small_federation import federation

SIZES = (3, 5, 8, 13, 4, 6, 9, 2)
DATA = federation(sizes=SIZES, test_sizes=(2,) * len(SIZES))
N = len(SIZES)
EVERYONE = np.arange(N)
PAIR = np.arange(N) % 2
SETTINGS = fk.ClientDP(noise_multiplier=1.0, delta=1e-3, clip=0.3, testing_only_seeded_noise=True)
SECRET = fk.SecretSums(least=3)


def world(
    settings: fk.ClientDP = SETTINGS, secret: fk.SecretSums | None = SECRET, seeded: bool = True
) -> PrivateWorld:
    simulated = fk.SimulatedWorld(DATA, mclr(DATA), fk.SGD(lr=0.1))
    randomness = SeededRandomness(np.random.default_rng(0)) if seeded else SystemRandomness()
    return PrivateWorld(
        world=simulated,
        mechanism=settings.mechanism(N, N, 5, "uniform"),
        journal=Journal(),
        randomness=randomness,
        round=1,
        cohort=np.arange(N),
        secret=secret,
    )


def update(own: PrivateWorld, count: int = 2, clients: np.ndarray = EVERYONE) -> np.ndarray:
    models = np.stack([own.initial(Stream(0, 0, f"model{k}")) for k in range(count)])
    return train(
        own, models, clients, PAIR[clients] % count, reduce=True, stream=Stream(0, 1, "train")
    ).update


def test_without_noise_it_is_the_sum_that_a_trusted_server_has() -> None:
    quiet = replace(SETTINGS, noise_multiplier=0.0)
    for secret in (SECRET, replace(SECRET, hide_choice=True)):
        np.testing.assert_allclose(
            update(world(quiet, secret)), update(world(quiet, None)), atol=1e-6
        )
    capped = replace(quiet, examples_cap=10)
    np.testing.assert_allclose(update(world(capped)), update(world(capped, None)), atol=1e-6)


@pytest.mark.parametrize("hide_choice", [False, True])
@pytest.mark.parametrize("seeded", [False, True])
def test_a_sum_of_n_min_has_the_noise_of_the_mechanism(hide_choice: bool, seeded: bool) -> None:
    """Each of the K sums, also of a model that no client has chosen; more clients add more."""
    rng = np.random.default_rng(0)
    mechanism = SETTINGS.mechanism(N, N, 5, "uniform")
    numbers = 200_000
    for members, factor in ((4, 1.0), (16, 2.0)):  # one more answers, and knows its own share
        grid, share = noise_share(
            mechanism=mechanism, least=5, members=members, numbers=numbers, seeded=seeded
        )
        total = np.zeros(numbers + EXTRA, np.uint32)
        for _ in range(members):
            total += grid.noisy(
                update=None if hide_choice else np.zeros(numbers, np.float32),
                examples=5,
                share=share,
                rng=rng,
                numbers=numbers,
            )
        noise = total.view(np.int32)[:-EXTRA] / grid.scale
        assert noise.std() == pytest.approx(factor * 1.0 * 0.3, rel=0.01)
        assert abs(noise.mean()) < 5 * noise.std() / np.sqrt(numbers)
        assert not total[-EXTRA:].any()  # no count, no weight, nothing else


@pytest.mark.parametrize("seeded", [False, True])
def test_where_the_choice_is_hidden_all_models_get_the_full_noise(seeded: bool) -> None:
    """The noise that a client adds to the sums of three models, after it has trained the second: as
    much to each, and different noise to each."""
    models = np.zeros((3, 20_000), np.float32)
    grid = IntegerGrid(4, 2.0, 10)
    share = NoiseShare(0.3, 0.15, seeded)
    none = np.zeros((1, 0), np.int64)
    task: Any = masked_form(
        Train(models, fk.SGD(), None, reduce=True),
        sum_id="x",
        group=np.zeros(1, np.int64),
        holders=none,
        partners=none.astype(bool),
        announced=np.zeros((1, 0, 96), np.int64),
        members=4,
        limit=2.0,
        cap=10,
        hide_choice=True,
        **asdict(share),
    )
    update = np.zeros(20_000, np.float32)
    update[0] = 3.0  # clipped to 0.3; a client with 5 of 10 examples adds half of it
    sent = {"update": update, "examples": 5, "model_index": 1}
    vectors = task._vectors(sent, np.random.default_rng(0))
    noise = vectors.view(np.int32)[:, :-EXTRA] / grid.scale
    noise[1, 0] -= 0.15
    assert noise.shape == (3, 20_000) and not vectors[:, -EXTRA:].any()
    np.testing.assert_allclose(noise.std(axis=1), 0.15, rtol=0.03)
    assert np.abs(noise).max() < 6 * 0.15
    correlation = np.corrcoef(noise)[np.triu_indices(3, 1)]
    assert np.abs(correlation).max() < 5 / np.sqrt(20_000)


def test_a_client_that_is_shown_fewer_holders_than_the_noise_is_for_sends_nothing() -> None:
    """Five are said to answer, each with a quarter of the noise's variance; two holders are no
    five."""
    holders = np.array([[0, 1]])
    task: Any = masked_form(
        Train(np.zeros((1, 9), np.float32), fk.SGD(), np.zeros(1, np.int64), reduce=True),
        sum_id="x",
        group=np.zeros(1, np.int64),
        least=5,
        announced=np.zeros((1, 2, 96), np.int64),
        members=4,
        limit=2.0,
        cap=10,
        holders=holders,
        partners=holders >= 0,
        hide_choice=False,
        **asdict(NoiseShare(0.3, 0.15, True)),
    )
    sent = {"update": np.zeros(9, np.float32), "examples": 5, "model_index": 0}
    kept = OwnMemory(ClientMemory(1), 0, task.name, task.memory)
    with pytest.raises(
        MaskingError, match="in a sum of at least 5 clients, but the server's request names only 2"
    ):
        task._masked(sent, 0, kept, np.random.default_rng(0))


def test_noise_of_a_seed_is_never_asked_of_a_site() -> None:
    assert dict(fields_down(SecretTrain))["seeded"].kind == "stays"


def test_rounding_is_in_the_noise() -> None:
    """s = z (C + sqrt(p) / scale) / sqrt(n_min - 1), worked by hand for a coarse grid."""
    mechanism = SETTINGS.mechanism(N, N, 5, "uniform")
    grid, share = noise_share(mechanism=mechanism, least=5, members=2**16, numbers=50, seeded=True)
    assert grid.bits == 16 and grid.limit == pytest.approx(0.3 * (1 + 8 * 1.05 / 2))
    step = grid.limit / (2**15 - 1)
    assert share.deviation == pytest.approx((0.3 + np.sqrt(50) * step) / 2)
    with pytest.raises(TaskError, match="too few bits"):
        noise_share(mechanism=mechanism, least=4, members=2**20, numbers=3_000_000, seeded=True)


def test_updates_are_clipped_by_their_norm_and_values_not_finite_become_zero() -> None:
    share = NoiseShare(0.3, 0.0)
    np.testing.assert_allclose(share.clipped(np.array([3.0, 4.0], np.float32)), [0.18, 0.24])
    np.testing.assert_allclose(share.clipped(np.array([0.03, 0.04], np.float32)), [0.03, 0.04])
    for bad in (np.nan, np.inf):
        assert not share.clipped(np.array([bad, 1.0], np.float32)).any()
    vector = IntegerGrid(3, 1.0, 10).noisy(
        np.array([0.3, 0.0], np.float32), 5, share, np.random.default_rng(0)
    )
    assert vector[0] / IntegerGrid(3, 1.0, 10).scale == pytest.approx(
        0.15, abs=1e-8
    )  # of half the weight


def test_fewer_than_n_min_are_no_sum_and_the_round_is_charged_nevertheless() -> None:
    own = world(secret=fk.SecretSums(least=5))
    assert not update(own).any()  # four in each cluster
    assert own._journal.rounds == 1 and own._journal.entries[-1]["lost"].keys() == {"0", "1"}
    assert update(world(secret=fk.SecretSums(least=4))).all()


def test_a_round_without_clients_has_no_sum_and_is_charged() -> None:
    own = world()
    assert not update(own, clients=np.zeros(0, np.int64)).any()
    assert own._journal.rounds == 1


def test_noise_of_the_system_is_another_each_time_and_seeded_noise_is_not() -> None:
    assert (update(world(seeded=False)) != update(world(seeded=False))).all()
    np.testing.assert_array_equal(update(world()), update(world()))
