"""The non-IID index: against the formula (FedSim, eq. 16 to 18), and the parts that only clients
may compute."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.analysis import non_iid_index as module
from fedkin.analysis.non_iid_index import (
    extreme_clients,
    index_of_world,
    index_table,
    non_iid_index,
)
from fedkin.core.errors import ConfigError, MethodError, ModelError
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.data.federated import FederatedData, Ragged
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.label_errors import LabelErrors
from tests.simulation.small_federation import federation

TARGETS = np.array([0.0, 1.0, 4.0, 9.5])


def world(targets: np.ndarray = TARGETS, **options: Any) -> FakeWorld:
    """Client i answers |targets[i] - model|; the model from seed s is the number s."""
    examples = np.ones(len(targets), np.int64)
    return FakeWorld(
        targets[:, None], examples, start=lambda stream: np.array([float(stream.seed)]), **options
    )


def by_hand(rmse: list[float]) -> list[float]:
    """PNI_i by the letter of eq. 17."""
    return [
        sum((a - b) ** 2 for j, b in enumerate(rmse) if j != i) ** 0.5 for i, a in enumerate(rmse)
    ]


def test_oracle(oracle: Callable[[str], dict[str, Any]]) -> None:
    for vector in oracle("others")["pni"]:
        found = index_of_world(world(np.array(vector["rmse"])))
        np.testing.assert_allclose(found.clients, vector["pni_i"], rtol=1e-6, atol=1e-12)
        assert found.pni == pytest.approx(vector["pni"], rel=1e-6) and found.models == 1


def test_several_models_are_averaged() -> None:
    found = index_of_world(world(), models=3, seed=2)
    rmse = [[abs(target - seed) for target in TARGETS] for seed in (2, 3, 4)]
    each = np.array([by_hand(errors) for errors in rmse])
    np.testing.assert_allclose(found.rmse, np.array(rmse).T, rtol=1e-6)
    np.testing.assert_allclose(found.clients, each.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.by_model, each.mean(axis=1), rtol=1e-6)
    assert found.pni == pytest.approx(each.mean(), rel=1e-6) and (found.models, found.missing) == (
        3,
        0,
    )


def test_silent_clients_are_left_out_and_counted() -> None:
    found = index_of_world(world(silent=frozenset({1})))
    np.testing.assert_allclose(found.clients[[0, 2, 3]], by_hand([0.0, 4.0, 9.5]), rtol=1e-6)
    assert found.pni == pytest.approx(np.mean(by_hand([0.0, 4.0, 9.5])), rel=1e-6)
    assert found.missing == 1 and np.isnan(found.clients[1]) and np.isnan(found.rmse[1]).all()
    assert found.summary()["clients"][1] is None and found.summary()["missing"] == 1
    json.dumps(found.summary(), allow_nan=False)
    assert index_table(found).loc["clients without a reply", "value"] == "1"
    assert index_table(found).loc["error of a client, min / median / max", "value"] == "0 / 4 / 9.5"


def test_no_client_replies() -> None:
    with pytest.raises(MethodError, match="none of 4 clients"):
        index_of_world(world(silent=frozenset(range(4))))


def test_a_single_client_has_index_zero() -> None:
    assert index_of_world(world(np.array([3.0]))).pni == 0


def test_portions_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = index_of_world(world(), models=5)
    asked: list[int] = []
    counted = world()
    run = counted.run

    def run_and_count(task: LabelErrors, clients: np.ndarray) -> Reply:
        asked.append(len(task.models))
        return run(task, clients)

    monkeypatch.setattr(counted, "run", run_and_count)
    monkeypatch.setattr(module, "_PORTION", 2 * 4)  # two models of one float32
    assert np.array_equal(index_of_world(counted, models=5).rmse, whole.rmse)
    assert asked == [2, 2, 1]


@pytest.mark.parametrize("options", [{"models": 0}, {"models": -1}, {"models": True}, {"seed": -1}])
def test_numbers_that_are_none(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=rf"{next(iter(options))} must be an integer"):
        index_of_world(world(), **options)


# --- with real models


def test_the_formula_on_a_real_model() -> None:
    """Predictions of the random models by NumPy: the largest of W x + b."""
    data = federation()
    model = fk.models.mclr(data)
    found = non_iid_index(data, model, models=2, seed=5)
    drawn = fk.SimulatedWorld(data, model)
    for d in range(2):
        flat = drawn.initial(Stream(5 + d, 0, "non-iid index"))
        W, b = (flat[part] for part in model.spec.slices.values())
        predicted = np.argmax(data.x @ W.reshape(data.classes, -1).T + b, axis=1)
        rmse = [
            np.sqrt(np.mean((predicted[data.train[u]] - data.y[data.train[u]]) ** 2.0))
            for u in range(data.clients)
        ]
        np.testing.assert_allclose(found.rmse[:, d], rmse, rtol=1e-6)
        assert found.by_model[d] == pytest.approx(np.mean(by_hand(rmse)), rel=1e-6)
    assert not np.array_equal(found.rmse[:, 0], found.rmse[:, 1])  # two models, not one twice


def test_it_grows_with_the_root_of_the_number_of_clients() -> None:
    """Every client four times: four times the sum of eq. 17, since a twin adds nothing."""
    data = federation()
    four = np.tile(np.arange(data.clients), 4)
    crowd = data.with_rows(data.train.select(four), data.test.select(four))
    model = fk.models.mclr(data)
    assert non_iid_index(crowd, model).pni == pytest.approx(
        2 * non_iid_index(data, model).pni, rel=1e-9
    )


def test_equal_clients_have_none() -> None:
    data = federation()
    same = np.zeros(5, np.int64)
    alike = data.with_rows(data.train.select(same), data.test.select(same))
    assert non_iid_index(alike, fk.models.mclr(alike), models=2).pni == pytest.approx(0, abs=1e-9)


def test_it_grows_with_the_spread_of_the_features() -> None:
    """FedSim, figure 10: with beta of Synthetic(alpha, beta)."""
    federations = [fk.data.synthetic(alpha=0.5, beta=beta, seed=0) for beta in (0.0, 0.5, 1.0)]
    low, middle, high = (
        non_iid_index(data, fk.models.mclr(data), models=20).pni for data in federations
    )
    assert low < middle < high


def test_text_is_welcome() -> None:
    rng = np.random.default_rng(0)
    rows = [np.arange(4), np.arange(4, 9), np.arange(9, 12)]
    x = rng.integers(0, 5, (12, 6))
    y = rng.integers(0, 3, 12)
    data = FederatedData(
        name="words",
        x=x,
        y=y,
        classes=3,
        train=Ragged.of(rows),
        test=Ragged.of(rows),
        vocabulary=("", "a", "b", "c", "d"),
    )
    assert np.isfinite(
        non_iid_index(data, fk.models.rnn(data, hidden=4, embedding=2), models=2).clients
    ).all()


def test_exposures_are_no_labels() -> None:
    """Counts have a column of offsets. Class 0, the only one, is what a model predicts."""
    counts = fk.data.from_arrays(
        np.zeros((4, 1), np.float32),
        np.array([3, 4, 0, 5]),
        clients=np.array([0, 0, 1, 1]),
        test=np.zeros(4, bool),
        task="count",
        exposure=np.array([1.0, 2.0, 3.0, 4.0]),
        name="counts",
    )
    found = non_iid_index(counts, fk.models.mclr(counts))
    np.testing.assert_allclose(found.rmse[:, 0], np.sqrt([12.5, 12.5]), rtol=1e-6)


def test_a_model_that_does_not_fit() -> None:
    with pytest.raises(ModelError, match="does not take small's samples"):
        non_iid_index(federation(), fk.models.mclr(federation(features=7)))


def test_newcomers_are_not_asked_and_nothing_is_charged() -> None:
    data = federation()
    model = fk.models.mclr(data)
    simulated = fk.SimulatedWorld(data, model, population=fk.Population(arrivals={3: 2}))
    found = index_of_world(simulated, models=3)
    assert np.flatnonzero(np.isnan(found.clients)).tolist() == [5, 6] and found.missing == 2
    assert simulated.ledger.total() == (0, 0)
    assert simulated.ledger.down == {"scoring.label_errors": 5 * 3 * model.spec.parameters * 4}
    # No model comes back, one number each.
    assert simulated.ledger.up == {"scoring.label_errors": 0}


def test_same_seed_same_index() -> None:
    data = federation()
    model = fk.models.mclr(data)
    assert non_iid_index(data, model, seed=1).pni == non_iid_index(data, model, seed=1).pni
    assert non_iid_index(data, model, seed=1).pni != non_iid_index(data, model, seed=2).pni


# --- display


def test_figures_by_hand() -> None:
    shown = index_table(index_of_world(world(np.array([0.0, 3.0, 4.0])), models=2))[
        "value"
    ].to_dict()
    # seed 0: errors 0 3 4, indices 5 sqrt(10) sqrt(17); seed 1: errors 1 2 3, indices sqrt(5)
    # sqrt(2) sqrt(5)
    first = (5 + 10**0.5 + 17**0.5) / 3
    second = (2 * 5**0.5 + 2**0.5) / 3
    assert shown["non-IID index (PNI)"] == f"{(first + second) / 2:.4g}"
    middle = (first + second) / 2
    assert (
        shown["index by model, min / median / max"] == f"{second:.4g} / {middle:.4g} / {first:.4g}"
    )
    assert shown["index by model, standard deviation"] == f"{(first - second) / 2**0.5:.4g}"
    assert shown["error of a client, min / median / max"] == "0.5 / 2.5 / 3.5"
    assert (
        index_table(index_of_world(world())).loc["index by model, standard deviation", "value"]
        == "-"
    )


def test_extreme_clients_by_hand() -> None:
    """Errors 0 1 4 9.5: client 2 has the lowest index, client 3 the highest, client 1 the lower of
    the middle two."""
    rows = [np.arange(4), np.array([4]), np.arange(5, 8), np.arange(8, 10)]
    y = np.array([0, 0, 1, 1, 0, 0, 1, 2, 1, 1])
    train = Ragged.of(rows)
    data = FederatedData(
        name="toy",
        x=np.zeros((10, 1), np.float32),
        y=y,
        classes=3,
        train=train,
        test=train,
        client_names=("a", "b", "c", "d"),
    )
    table = extreme_clients(index_of_world(world()), data)
    assert table["index"].tolist() == ["lowest", "median", "highest"]
    assert table["client"].tolist() == ["c", "b", "d"]
    assert table["training samples"].tolist() == ["3", "1", "2"] and table["classes"].tolist() == [
        "3",
        "1",
        "1",
    ]
    assert table["error"].tolist() == ["4", "1", "9.5"]
    assert table["PNI_i"].tolist() == [f"{by_hand(TARGETS.tolist())[u]:.4g}" for u in (2, 1, 3)]
    silent = extreme_clients(index_of_world(world(silent=frozenset({3}))), data)
    assert "d" not in silent["client"].tolist()
