"""Attacks on the clustering: disguises by hand, lies that keep to the schema, and both in whole
runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float

import fedkin as fk
from fedkin.core.errors import ConfigError
from fedkin.core.schema import Array, Rows, booleans, floats
from fedkin.core.task import Task, shared
from fedkin.data.federated import FederatedData, Ragged
from fedkin.options.attack.byzantine import Byzantine
from fedkin.options.attack.false_reports import lie
from fedkin.options.attack.sleepers import Honest, blob, bridge, imitation, splitting
from fedkin.tasks.train import Train
from tests.option_lists import simulate_arguments

HONEST = Honest(np.array([[1.0, 0], [3, 0], [0, 5], [0, 7]]), np.array([0, 0, 2, 2]))
LIARS = np.array([False, True, False])


def test_disguises_by_hand() -> None:
    # No client has kind 1, so kind 2.
    np.testing.assert_array_equal(imitation(HONEST, 0, 2), [[0, 6], [0, 6]])
    np.testing.assert_array_equal(imitation(HONEST, 2, 1), [[2, 0]])
    np.testing.assert_array_equal(blob(HONEST, 0, 2), [[1, 3], [1, 3]])
    np.testing.assert_allclose(bridge(HONEST, 0, 3), [[1.5, 1.5], [1, 3], [0.5, 4.5]])
    # The mean is (2, 0), and honest rows are 1 from it, along the first axis.
    bundles = splitting(HONEST, 0, 3)
    np.testing.assert_allclose(np.sort(bundles[:2, 0]), [1, 3])
    np.testing.assert_allclose(bundles[2], bundles[0])
    np.testing.assert_allclose(bundles[:, 1], 0, atol=1e-12)


def test_disguised_rows_are_of_their_model_and_kind() -> None:
    updates = np.array([[1.0, 0], [9, 9], [0, 5], [9, 9], [2, 2]], np.float32)
    index = np.array([0, 0, 0, 1, 1])
    attacks = np.array([False, True, False, True, False])
    kinds = np.array([0, 0, 1, 0, 1])
    sent = Byzantine("none", disguise="imitation", start=1).disguised(
        updates, index, attacks, kinds
    )
    np.testing.assert_array_equal(sent[[0, 2, 4]], updates[[0, 2, 4]])
    np.testing.assert_array_equal(sent[1], [0, 5])
    # No honest client of its kind has its model.
    np.testing.assert_array_equal(sent[3], [9, 9])
    with pytest.raises(ConfigError, match=r"attack\.disguise: attackers are disguised before"):
        Byzantine(disguise="blob")


@dataclass(frozen=True)
class Opinions(Task):
    """Three things that a server takes a client's word for."""

    models: Float[np.ndarray, "K P"] = shared("K P")

    up = Rows(
        losses=floats("K"),
        cosine=Array("K", np.float32, low=-1, high=1),
        new_data=booleans(),
        total=floats(missing=0.0),
    )


def test_lies_keep_to_the_schema() -> None:
    task = Opinions(np.zeros((2, 3), np.float32))
    arrays = {
        "losses": np.full((3, 2), 5.0),
        "cosine": np.full((3, 2), 0.5, np.float32),
        "new_data": np.zeros(3, bool),
        "total": np.ones(3),
    }
    low, high, bits = (
        lie(about, task, arrays, liars=LIARS, honest=~LIARS)
        for about in ("lowest", "highest", "bits")
    )
    assert low["losses"].tolist() == [[5, 5], [0, 0], [5, 5]] and low["cosine"][1].tolist() == [
        -1,
        -1,
    ]
    assert high["losses"][1].tolist() == [1e30, 1e30] and high["cosine"].tolist() == [
        [0.5, 0.5],
        [1, 1],
        [0.5, 0.5],
    ]
    assert bits["new_data"].tolist() == [False, True, False]
    for told in (low, high, bits):
        np.testing.assert_array_equal(told["total"], 1)  # says nothing of models
    np.testing.assert_array_equal(arrays["losses"], 5)  # the reply itself is not changed


def test_sizes_and_choices_of_a_training() -> None:
    models = np.zeros((3, 4), np.float32)
    work = fk.SGD(epochs=1, batch_size=1, lr=0.1)
    arrays: dict[str, Any] = {name: np.zeros(3) for name in ("update", "loss", "first_loss")}
    arrays |= {"examples": np.array([7, 7, 7]), "model_index": np.array([0, 0, 2])}
    chosen = Train(models, work)
    given = Train(models, work, np.zeros(3, np.int64))
    lying: dict[str, Any] = {"liars": LIARS, "honest": ~LIARS}
    assert lie("sizes", given, arrays, **lying)["examples"].tolist() == [7, 2**40, 7]
    # No other client chose 1.
    assert lie("choice", chosen, arrays, **lying)["model_index"].tolist() == [0, 1, 2]
    # The server has chosen.
    assert lie("choice", given, arrays, **lying)["model_index"].tolist() == [0, 0, 2]
    # The reply of client 0 is lost, so that its row is no choice of an honest client.
    lying["honest"] = np.array([False, False, True])
    assert lie("choice", chosen, arrays, **lying)["model_index"].tolist() == [0, 0, 2]


@pytest.fixture(scope="module")
def data() -> FederatedData:
    """Two kinds of 8 clients, a quarter of a circle apart."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=16 * 30)
    kinds = np.repeat([0, 1], 8)
    x = rng.normal(size=(len(y), 2)) * 0.3
    x[np.arange(len(y)), np.repeat(kinds, 30)] += 2.0 * y - 1
    rows = np.arange(len(y)).reshape(16, 30)
    return FederatedData(
        name="two kinds",
        x=x.astype(np.float32),
        y=y,
        classes=2,
        train=Ragged.of(list(rows[:, :20])),
        test=Ragged.of(list(rows[:, 20:])),
        true_clusters=kinds,
    )


def go(data: FederatedData, method: Any, **options: Any) -> fk.Run:
    settings: dict[str, Any] = {
        "rounds": 3,
        "cohort": 16,
        "local": fk.SGD(epochs=2, batch_size=10, lr=0.1),
    }
    return fk.simulate(method, data, fk.models.mclr(data), **simulate_arguments(settings | options))


CLUSTERED = fk.FLHC(clusters=2, metric="cosine", linkage="average", cluster_round=1)


def test_imitators_sit_with_the_other_kind_and_attack_it_later(data: FederatedData) -> None:
    attack = fk.Byzantine("stretch", clients=(0, 1), start=2, disguise="imitation")
    honest = go(data, CLUSTERED).assignment
    disguised = go(data, CLUSTERED, attack=attack)
    assert len(set(honest[:8])) == 1 and honest[0] != honest[8]
    assert (disguised.assignment[:2] == disguised.assignment[8]).all()
    summary = disguised.summary()
    assert summary["honest_ari"] == 1 and summary["attackers_alone"] == 0
    sleeping = go(
        data, CLUSTERED, attack=fk.Byzantine("stretch", clients=(0, 1), start=9)
    ).state.models
    np.testing.assert_array_equal(sleeping, go(data, CLUSTERED).state.models)


def test_a_size_that_is_a_lie_wins_a_mean_and_no_robust_rule(data: FederatedData) -> None:
    attackers = np.arange(16) == 0
    liar, other = (
        fk.Byzantine("own_sign_flip", clients=(0,), lie=about) for about in ("sizes", "none")
    )
    local = fk.SGD(epochs=2, batch_size=10, lr=0.5)
    averaged = partial(go, data, fk.FedAvg(), rounds=10, local=local)
    broken = averaged(attack=liar)
    plain = averaged(attack=other)
    held = averaged(attack=liar, robust=fk.RobustAggregation("median"))
    accuracy = [
        float(run.clients["accuracy"].to_numpy()[~attackers].mean())
        for run in (broken, plain, held)
    ]
    assert accuracy[0] < accuracy[1] - 0.1 and accuracy[2] > accuracy[0] + 0.1


def test_of_ifca_attackers_choose_the_rarest_model(data: FederatedData) -> None:
    method = fk.IFCA(clusters=3, weighting="examples")
    attack = fk.Byzantine("none", clients=(3, 9, 12), lie="choice")
    run = go(data, method, attack=attack, rounds=1)
    chosen = run.assignment[[3, 9, 12]]
    honest = np.bincount(np.delete(run.assignment, [3, 9, 12]), minlength=3)
    assert (chosen == np.argmin(honest)).all()


@pytest.mark.parametrize("about", ["lowest", "highest"])
def test_newcomers_that_lie_about_all_models_get_the_first_cluster(
    data: FederatedData, about: str
) -> None:
    late = fk.Population(arrivals={2: 2})  # the last two, of the second kind
    attack = fk.Byzantine("none", clients=(14, 15), lie=about)
    method = fk.FLHC(
        clusters=2, metric="cosine", linkage="average", cluster_round=1, newcomers="loss"
    )
    placed = go(data, method, attack=attack, scenario=late, cohort=14).assignment
    assert placed[14:].tolist() == [0, 0] and placed[13] == 1
    assert go(data, method, scenario=late, cohort=14).assignment[14:].tolist() == [1, 1]


def test_values_that_are_not_finite_do_not_arrive(data: FederatedData) -> None:
    run = go(data, fk.FedAvg(), attack=fk.Byzantine("nan", clients=(0, 1)))
    assert np.isfinite(run.state.models).all()
    gone = go(data, fk.FedAvg(), attack=fk.Byzantine("own_sign_flip", clients=(0, 1)))
    assert run.summary()["honest_accuracy"] >= gone.summary()["honest_accuracy"] - 0.02


def test_noise_is_as_long_as_honest_updates_and_the_same_in_every_run() -> None:
    updates = np.array([[3.0, 4], [0, 5], [9, 9], [9, 9]], np.float32)
    attacks = np.array([False, False, True, True])
    index = np.zeros(4, np.int64)
    sent = [
        Byzantine("gaussian").replies(updates, index, attacks, np.random.default_rng(1))
        for _ in range(2)
    ]
    np.testing.assert_allclose(np.linalg.norm(sent[0][2:], axis=1), 5, rtol=1e-6)
    assert not np.allclose(sent[0][2], sent[0][3])
    np.testing.assert_array_equal(sent[0], sent[1])


def test_a_model_is_replaced_by_updates_times_the_clients_for_each_attacker() -> None:
    updates = np.ones((6, 2), np.float32)
    attacks = np.arange(6) < 2
    sent = Byzantine("backdoor_replacement").replies(updates, np.zeros(6, np.int64), attacks)
    np.testing.assert_array_equal(sent[:2], 3)
    np.testing.assert_array_equal(
        Byzantine("backdoor").replies(updates, np.zeros(6, np.int64), attacks), updates
    )
    stronger = Byzantine("optimal_ipm", against="mean").replies(
        np.arange(12, dtype=np.float32).reshape(6, 2), np.zeros(6, np.int64), attacks
    )
    mean = np.arange(4, 12).reshape(4, 2).mean(axis=0)
    factor = -stronger[0] / mean
    np.testing.assert_allclose(factor, factor[0], rtol=1e-5)
    assert factor[0] > 1000 and (stronger[0] == stronger[1]).all()


@pytest.mark.parametrize("rule", ["krum", "bucketing+trimmed_mean"])
@pytest.mark.parametrize(("honest", "attackers"), [(1, 2), (2, 2), (7, 3), (9, 1)])
def test_optimal_attacks_assume_no_more_attackers_than_the_rule_tolerates(
    rule: str, honest: int, attackers: int
) -> None:
    """Otherwise the rule refuses to aggregate, and the run ends."""
    rng = np.random.default_rng(3)
    updates = rng.normal(size=(honest + attackers, 4)).astype(np.float32)
    attacks = np.arange(honest + attackers) >= honest
    index = np.zeros(honest + attackers, np.int64)
    sent = Byzantine("optimal_alie", against=rule).replies(updates, index, attacks)
    assert np.isfinite(sent).all()
    changed = not np.array_equal(sent[attacks], updates[attacks])
    # Krum needs at least three rows more than there are attackers.
    assert changed == (honest > 2)
