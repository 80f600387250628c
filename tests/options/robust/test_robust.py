"""Robust rules and attackers in whole runs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Int

import fedkin as fk
from fedkin.config.run import load
from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.method import State
from fedkin.core.randomness import Stream
from fedkin.core.requirements import DataNeeds, Requirements
from fedkin.core.world import World
from fedkin.data.federated import FederatedData, Ragged
from fedkin.measures.cluster_agreement import adjusted_rand_index
from fedkin.methods.fedavg import train_and_average
from fedkin.options.attack.byzantine import Byzantine
from fedkin.options.robust.robust import RobustAggregation
from tests.option_lists import simulate_arguments


@dataclass(frozen=True)
class TrueClusters:
    """A model for each true cluster, from one start."""

    def requirements(self) -> Requirements:
        return Requirements(data=DataNeeds(true_clusters=True))

    def init(self, world: World, stream: Stream) -> State:
        assert world.true_clusters is not None
        models = np.stack(
            [world.initial(stream.child("model"))] * (int(world.true_clusters.max()) + 1)
        )
        return State(models, world.true_clusters.astype(np.int64))

    def round(
        self, world: World, state: State, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> State:
        return replace(
            state,
            models=train_and_average(
                world=world, state=state, cohort=cohort, work=world.work, stream=stream
            ),
        )

    def place(
        self, world: World, state: State, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> State:
        return state


@pytest.fixture(scope="module")
def data() -> FederatedData:
    """Two kinds of 10 clients: of the second the two classes are swapped."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=600)
    x = (rng.normal(size=(600, 2)) + 4.0 * y[:, None]).astype(np.float32)
    rows = np.arange(600).reshape(20, 30)
    kinds = np.repeat([0, 1], 10)
    labels = np.where(np.repeat(kinds, 30) == 1, 1 - y, y)
    return FederatedData(
        name="two kinds",
        x=x,
        y=labels,
        classes=2,
        train=Ragged.of(list(rows[:, :20])),
        test=Ragged.of(list(rows[:, 20:])),
        true_clusters=kinds,
    )


def go(data: FederatedData, method: Any = None, **options: Any) -> fk.Run:
    settings: dict[str, Any] = {
        "rounds": 3,
        "cohort": 20,
        "local": fk.SGD(epochs=2, batch_size=10, lr=0.1),
    }
    return fk.simulate(
        method or TrueClusters(),
        data,
        fk.models.mclr(data),
        **simulate_arguments(settings | options),
    )


def failing(record: Any) -> None:
    if record["round"] == 2:
        raise RuntimeError


def accuracy(run: fk.Run, attackers: np.ndarray) -> float:
    """Mean accuracy of honest clients."""
    return float(run.clients["accuracy"].to_numpy()[~attackers].mean())


def test_attackers_are_as_many_as_asked_for_and_spread() -> None:
    kinds = np.repeat([0, 1, 2, 3], 25)
    evenly = Byzantine(share=0.3).attackers(100, kinds)
    assert evenly.sum() == 30 and np.bincount(kinds[evenly]).tolist() == [8, 7, 7, 8]
    anyhow = Byzantine(share=0.3, spread="random").attackers(100, kinds)
    assert anyhow.sum() == 30 and (anyhow != evenly).any()
    assert Byzantine(clients=(3, 5)).attackers(6, None).nonzero()[0].tolist() == [3, 5]
    with pytest.raises(ConfigError, match="there is no client at position 6; positions are 0 to 5"):
        Byzantine(clients=(6,)).attackers(6, None)


@pytest.mark.parametrize(
    ("clients", "shown"),
    [(("3",), "'3'"), ((0, 1.5), "1.5"), ((True,), "True"), (3, "3"), ("3", "'3'")],
)
def test_attackers_are_positions(clients: Any, shown: str) -> None:
    untyped: Any = Byzantine
    with pytest.raises(ConfigError) as refused:
        untyped(clients=clients)
    assert "attack.clients: expected positions of clients, whole numbers from 0" in str(
        refused.value
    )
    assert f"got {shown}." in str(refused.value) and "data.client_names.index(" in str(
        refused.value
    )
    assert Byzantine(clients=()).attackers(2, None).tolist() == [False, False]


def test_the_position_of_a_named_attacker() -> None:
    data = fk.data.from_arrays(np.eye(6), np.arange(6) % 2, clients=np.arange(6) + 1, test=0)
    assert data.client_names is not None
    position = data.client_names.index("6")
    assert Byzantine(clients=(position,)).attackers(6, None).tolist() == [False] * 5 + [True]


def test_attackers_send_updates_made_of_honest_updates_of_their_model() -> None:
    updates = np.array([[1.0, 0], [3, 0], [9, 9], [0, 4], [9, 9]], np.float32)
    index = np.array([0, 0, 0, 1, 1])
    attacks = np.array([False, False, True, False, True])
    sent = Byzantine("sign_flip").replies(updates, index, attacks)
    np.testing.assert_array_equal(sent, [[1, 0], [3, 0], [-2, 0], [0, 4], [0, -4]])
    np.testing.assert_array_equal(
        Byzantine("stretch").replies(updates, index, attacks)[2], [-90, -90]
    )
    np.testing.assert_array_equal(
        Byzantine("own_sign_flip").replies(updates, index, attacks)[2], [-9, -9]
    )
    alone = Byzantine("alie").replies(updates, index, attacks)
    np.testing.assert_allclose(alone[2], [2 - 1.5 * np.sqrt(2), 0], rtol=1e-6)
    np.testing.assert_array_equal(alone[4], updates[4])  # of one honest row there is no deviation


def test_a_rule_holds_where_the_mean_breaks(data: FederatedData) -> None:
    attack = fk.Byzantine("stretch", share=0.3)
    attackers = attack.attackers(20, data.true_clusters)
    plain = accuracy(go(data), attackers)
    broken = accuracy(go(data, attack=attack), attackers)
    held = accuracy(go(data, attack=attack, robust=fk.RobustAggregation("median")), attackers)
    assert broken < 0.5 < plain - 0.2 and held > plain - 0.05


def test_a_rule_without_attack_is_near_the_mean_and_the_mean_is_the_mean(
    data: FederatedData,
) -> None:
    plain = go(data).state.models
    np.testing.assert_allclose(
        go(data, robust=RobustAggregation("mean", 0.0)).state.models, plain, atol=1e-5
    )
    median = go(data, robust=RobustAggregation("median")).state.models
    assert 0 < np.abs(median - plain).max() < 0.5


def test_too_few_replies_leave_a_model_as_it_is(data: FederatedData) -> None:
    rule = RobustAggregation("median", least=11)  # ten clients in each cluster
    few = [go(data, robust=rule, rounds=rounds).state.models for rounds in (1, 3)]
    np.testing.assert_array_equal(few[0], few[1])
    assert (go(data, robust=RobustAggregation("median", least=10)).state.models != few[0]).any()


def test_flipped_labels_are_in_the_data(data: FederatedData) -> None:
    attack = fk.Byzantine("label_flip", clients=(0,))
    poisoned = go(data, attack=attack, rounds=1)
    plain = go(data, rounds=1)
    # One cluster's model.
    assert (poisoned.state.models != plain.state.models).any(axis=1).tolist().count(True) == 1
    later = [
        go(data, attack=fk.Byzantine("label_flip", clients=(0,), start=3), rounds=r).state.models
        for r in (2, 3)
    ]
    honest = [go(data, rounds=r).state.models for r in (2, 3)]
    np.testing.assert_array_equal(later[0], honest[0])
    assert (later[1] != honest[1]).any()
    with pytest.raises(ConfigError, match="cannot be combined with another shift"):
        go(data, attack=fk.Byzantine("label_flip", start=3), shift=fk.SwapAll())


@pytest.mark.parametrize(
    "kind", ["sign_flip", "own_sign_flip", "ipm", "alie", "stretch", "label_flip"]
)
def test_clusters_by_the_silhouette_hold_no_attacker(kind: str) -> None:
    """The attackers are left alone, and the kinds whole."""
    rotated = fk.planted(
        "digits", "rotation", clusters=3, clients=30, samples=30, test_samples=10, seed=0
    )
    assert rotated.true_clusters is not None
    attackers = fk.Byzantine().attackers(30, rotated.true_clusters)
    method = fk.FLHC(distance="silhouette", metric="cosine", linkage="average", cluster_round=1)
    work = fk.SGD(epochs=5, batch_size=10, lr=0.1)
    run = go(rotated, method, attack=fk.Byzantine(kind), rounds=1, cohort=30, local=work)
    honest = run.assignment[~attackers]
    assert adjusted_rand_index(honest, rotated.true_clusters[~attackers]) == 1
    assert not np.isin(run.assignment[attackers], honest).any()


def test_sleepers_are_honest_at_first(data: FederatedData) -> None:
    sleeping = go(data, attack=fk.Byzantine("stretch", start=9)).state.models
    np.testing.assert_array_equal(sleeping, go(data).state.models)


def test_a_run_under_attack_resumes_to_the_bit(data: FederatedData, tmp_path: Path) -> None:
    attacked = partial(
        go,
        data,
        attack=fk.Byzantine("alie", start=2),
        robust=fk.RobustAggregation("krum"),
        rounds=4,
        checkpoint_every=1,
    )
    whole = attacked(out=tmp_path / "whole")
    with pytest.raises(RuntimeError):
        attacked(out=tmp_path / "parts", on_round=failing)
    parts = attacked(out=tmp_path / "parts", resume=True)
    np.testing.assert_array_equal(parts.state.models, whole.state.models)
    assert parts.summary()["rule_weights"] == whole.summary()["rule_weights"]
    assert (
        whole.config.section("robust")["rule"] == "krum"
        and whole.config.section("attack")["start"] == 2
    )


def test_the_summary_is_of_honest_clients_and_names_the_attackers(
    data: FederatedData, tmp_path: Path
) -> None:
    # All of the first cluster.
    attack = fk.Byzantine("stretch", clients=(0, 1, 2, 3, 4, 5, 6, 7, 8, 9))
    run = go(data, attack=attack, out=tmp_path / "run")
    summary = run.summary()
    honest = run.clients["accuracy"].to_numpy()[10:]
    assert summary["honest_accuracy"] == pytest.approx(honest.mean())
    assert summary["honest_bottom_decile"] == honest.min()
    assert summary["attackers_alone"] == 1 and summary["honest_ari"] == 1
    assert summary["attackers"] == list(range(10))
    assert fk.Run.load(tmp_path / "run").summary() == summary
    mixed = go(data, fk.FedAvg(), attack=attack).summary()
    assert mixed["attackers_alone"] == 0 and "rule_weights" not in mixed


def test_without_attack_none_is_recorded_and_the_rule_still_suspects(
    data: FederatedData,
) -> None:
    run = go(data, robust=RobustAggregation("median"))
    assert not {"honest_accuracy", "attackers"} & run.summary().keys()
    assert "rule_weights" not in go(data).summary()
    rows = data.train[3]
    labels = data.y.copy()
    labels[rows] = 1 - labels[rows]  # a client with data unlike the rest of its cluster
    odd = go(dataclasses.replace(data, y=labels), robust=RobustAggregation("multi_krum", 0.1))
    weight = odd.summary()["rule_weights"]
    assert weight[3] == 0 and "the rule suspects" in repr(odd)


def test_clients_that_a_rule_left_out_are_remembered_and_the_models_are_the_same(
    data: FederatedData, tmp_path: Path
) -> None:
    attack = fk.Byzantine("stretch", clients=(2, 13))
    rule = RobustAggregation("multi_krum", 0.2)
    run = go(data, attack=attack, robust=rule, out=tmp_path / "run")
    weight = np.array(run.summary()["rule_weights"])
    assert weight[[2, 13]].tolist() == [0, 0] and weight.sum() == pytest.approx(20, abs=0.01)
    assert fk.Run.load(tmp_path / "run").summary() == run.summary()
    few = go(data, attack=attack, robust=RobustAggregation("median", least=11))
    assert few.summary()["rule_weights"] == [None] * 20  # it never judged


def test_attackers_stay_the_same_clients_when_true_clusters_change(data: FederatedData) -> None:
    attack = fk.Byzantine("stretch", share=0.3)
    run = go(
        data,
        fk.FedAvg(),
        attack=attack,
        shift=fk.SwapAll(),
        robust=RobustAggregation("multi_krum", 0.3),
    )
    weight = np.array(run.summary()["rule_weights"])
    assert np.flatnonzero(weight == 0).tolist() == run.summary()["attackers"]
    assert (
        run.summary()["attackers"] == attack.attackers(20, data.true_clusters).nonzero()[0].tolist()
    )


def test_options_that_exclude_each_other_are_refused_by_name(data: FederatedData) -> None:
    rule = fk.RobustAggregation("median")
    with pytest.raises(ConfigError, match=r"robust.*PANM has no server"):
        go(data, fk.PANM(), robust=rule)
    with pytest.raises(ConfigError, match=r"attack.*PENS has no server"):
        go(data, fk.PENS(), attack=fk.Byzantine())
    with pytest.raises(MethodError, match="SattlerCFL averages single updates by itself"):
        go(data, fk.SattlerCFL(), robust=rule)
    with pytest.raises(ConfigError, match="a robust rule reads single updates, but privacy"):
        private = fk.ClientDP(noise_multiplier=1.0)
        go(data, fk.FedAvg(), robust=rule, privacy=private, selection="poisson", cohort=5)
    with pytest.raises(MethodError, match=r"robust.byzantine = 0\.5"):
        fk.RobustAggregation("median", 0.5)


def test_in_a_configuration() -> None:
    config = load(
        None,
        [
            "robust.name=aggregation",
            "robust.rule=arc+median",
            "attack.name=byzantine",
            "attack.share=0.1",
        ],
    )
    assert (
        config.option_entries["robust"].values["rule"] == "arc+median"
        and config.option_entries["attack"].values["share"] == 0.1
    )
    with pytest.raises(ConfigError, match="did you mean 'median'"):
        load(None, ["robust.name=aggregation", "robust.rule=medain"])
    with pytest.raises(ConfigError, match="attack"):
        load(None, ["attack.name=byzantine", "attack.attack=ali"])
