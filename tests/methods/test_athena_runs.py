"""ATHENA-FL in the simulated world and through the runner: bytes, scores by hand, calibration, runs
that go on."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

import fedkin as fk
from fedkin import models as registry
from fedkin.config.plan import Plan
from fedkin.config.run import from_dict, load
from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.core.training import LocalTraining
from fedkin.methods.athena import Athena
from fedkin.models import mclr
from fedkin.run.folder import run_folder
from fedkin.run.loop import run
from fedkin.run.simulate import execute
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.detections import Detections
from fedkin.tasks.evaluate import evaluate
from tests.methods.last_layer_clients import CLIENTS, ROUND, clustered_data, groups, started, world
from tests.methods.test_conformance import assert_same
from tests.option_lists import simulate_arguments
from tests.simulation import numpy_detectors
from tests.simulation.numpy_detectors import linear
from tests.simulation.small_federation import samples

SGD = LocalTraining(epochs=2, batch_size=4, lr=0.3)
KMEANS: dict[str, Any] = {"algorithm": "kmeans", "clusters": 3, "pretraining": 3}
BY_KIND = [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
GIVEN = (0, 1, 2) * 3
EVERYBODY = np.arange(CLIENTS)
P = 7


def simulated(data: Any = None, **options: Any) -> SimulatedWorld:
    return SimulatedWorld(data or clustered_data(), linear(), SGD, **options)


def after(method: Athena, w: SimulatedWorld, rounds: int = 1) -> Any:
    state = started(method, w)
    for r in range(1, rounds + 1):
        state = method.round(w, state, EVERYBODY, ROUND.at(r))
    return state


def scores(assigned: Any, row: int, x: np.ndarray) -> np.ndarray:
    columns = [
        numpy_detectors.scores(assigned.models[d], (6, 1), x)
        if d >= 0
        else np.full(len(x), -np.inf)
        for d in assigned.model_index[row]
    ]
    return np.stack(columns, axis=1)


# --- traffic


@pytest.mark.parametrize(("layer", "numbers"), [("bias", 1), ("last_layer", P)])
def test_the_clustering_round_sends_detectors_down_and_their_last_layers_up(
    layer: Any, numbers: int
) -> None:
    """Every client has two classes, so two detectors, which start from one model."""
    w = simulated()
    started(Athena(**KMEANS, layer=layer), w)
    assert w.ledger.total() == (CLIENTS * P * 4, CLIENTS * 2 * numbers * 4)


def test_true_clusters_are_found() -> None:
    assert groups(started(Athena(**KMEANS, layer="last_layer"), simulated())) == BY_KIND


def test_a_round_sends_the_detectors_of_a_cluster_and_calibration_all_of_them() -> None:
    for calibrate, more in ((0, 0), (1, CLIENTS * 6)):
        w = simulated()
        after(Athena(assignment=GIVEN, calibrate=calibrate), w)
        assert w.ledger.total() == ((CLIENTS * 2 + more) * P * 4, CLIENTS * 2 * P * 4)


# --- results


def test_scores_of_a_run_by_hand() -> None:
    w = simulated()
    track = run(w, Athena(assignment=GIVEN), Plan(3, CLIENTS))
    state: Any = track.state
    assigned = state.models_for(EVERYBODY)
    expected = []
    for row in EVERYBODY.tolist():
        x, y = samples(clustered_data(), row, "test")
        expected.append(int(np.sum(scores(assigned, row, x).argmax(axis=1) == y)))
    assert track.scored is not None
    np.testing.assert_array_equal(track.scored.scores.correct, expected)
    last = track.records[-1]
    assert last["accuracy"] == sum(expected) / (4 * CLIENTS)
    assert len(last["accuracy_by_cluster"]) == 3 and last["cluster_sizes"] == [3, 3, 3]
    by_detector = []
    for d, (positive, home) in enumerate(zip(state.positive, state.home, strict=True)):
        parts = [
            samples(clustered_data(), c, "test")
            for c in np.flatnonzero(state.assignment == home).tolist()
        ]
        right = [
            (numpy_detectors.scores(assigned.models[d], (6, 1), x) >= 0) == (y == positive)
            for x, y in parts
        ]
        by_detector.append(np.mean(np.concatenate(right)))
    np.testing.assert_allclose(last["accuracy_by_detector"], by_detector)


def test_detectors_that_have_met_only_their_cluster_learn_its_classes() -> None:
    """With the detectors of one cluster alone, nearly every sample finds its class."""
    w = simulated()
    state = after(Athena(assignment=GIVEN), w, rounds=10)
    table = np.where(state.home[state.table] == np.arange(3)[:, None], state.table, -1)
    found = evaluate(w, state.models, EVERYBODY, table[state.assignment])
    assert found.correct.sum() > 0.9 * found.examples.sum()


def test_a_cluster_of_one_class_scores_zero() -> None:
    """Clients 2, 5 and 8 are left the class 4 only. Its detector says neither yes nor no, at any
    sample."""
    data = clustered_data()
    y = np.where(data.y == 5, 4, data.y)
    w = simulated(replace(data, y=y))
    method = Athena(assignment=GIVEN)
    state = after(method, w, rounds=2)
    np.testing.assert_array_equal(state.positive, [0, 1, 2, 3, 4])
    np.testing.assert_array_equal(state.trained, [True] * 4 + [False])
    counts = w.run(
        Detections(state.models, np.full(CLIENTS, 4), np.full(CLIENTS, 4)), EVERYBODY
    ).counts
    assert not counts[:, :, :32].any() and not counts[:, :, 33:].any(), "bin 32 begins at zero"
    assigned = state.models_for(EVERYBODY)
    for row in EVERYBODY.tolist():
        x, _ = samples(w.data, row)
        found = scores(assigned, row, x)
        assert not found[:, 4].any()
        no = np.all(found[:, :4] < 0, axis=1)
        np.testing.assert_array_equal(found.argmax(axis=1)[no], 4)
    said = " ".join(method.remarks(state))
    assert "single class" in said and "class 5" in said


def test_calibrated_scores_are_a_s_plus_b() -> None:
    w = simulated()
    state = after(Athena(assignment=GIVEN, calibrate=2), w, rounds=3)
    assert (state.scale != [1, 0]).all()
    raw = state.models_for(EVERYBODY[:1])
    assigned = state.models_for(EVERYBODY[:1])
    raw = replace(raw, models=state.models)
    x, _ = samples(clustered_data(), 0)
    a, b = state.scale[state.table[0]].T
    np.testing.assert_allclose(
        scores(assigned, 0, x), scores(raw, 0, x) * a + b, rtol=1e-5, atol=1e-5
    )


def test_calibration_changes_no_training() -> None:
    plain, calibrated = (
        after(Athena(assignment=GIVEN, calibrate=c), simulated(), rounds=3) for c in (0, 1)
    )
    assert plain.models.tobytes() == calibrated.models.tobytes()
    np.testing.assert_array_equal(plain.scale, np.tile([1, 0], (6, 1)))


def test_calibrated_scores_are_likelier_on_all_clients() -> None:
    """Platt's scale lowers the cross entropy of each detector on the training samples of
    everybody."""
    state = after(Athena(assignment=GIVEN, calibrate=1), simulated(), rounds=2)
    x = clustered_data().x[clustered_data().train.rows]
    y = clustered_data().y[clustered_data().train.rows]
    for d in range(6):
        found = numpy_detectors.scores(state.models[d], (6, 1), x)
        a, b = state.scale[d]
        losses = [
            np.mean(np.logaddexp(0, s) - (y == state.positive[d]) * s)
            for s in (found, a * found + b)
        ]
        assert losses[1] < losses[0]


# --- through the runner


def test_late_arrivals_are_placed_with_their_kind() -> None:
    method = Athena(**KMEANS, layer="last_layer")
    track = run(simulated(population=Population(arrivals={2: 3})), method, Plan(4, CLIENTS))
    assert groups(track.state) == BY_KIND
    assert not any(record["partial"] for record in track.records)


def test_a_silent_client_is_in_no_cluster() -> None:
    """It sends no classes, so it trains no detector, and none of its replies can be missing."""
    w = simulated(population=Population(silent=(0,)))
    state = started(Athena(**KMEANS, layer="last_layer"), w)
    assert groups(state) == [[1, 4, 7], [2, 5, 8], [3, 6]]
    assert state.assignment[0] == UNASSIGNED
    assert np.isnan(state.layers[0]).all()


def test_a_new_client_of_given_clusters_needs_to_name_its_cluster() -> None:
    data = clustered_data()
    run = fk.simulate(Athena(assignment=GIVEN), data, linear(), rounds=1, cohort=9, local=SGD)
    rows = data.train[0]
    message = "clusters are given, so a new client has none; name it with cluster="
    with pytest.raises(MethodError, match=message):
        run.place(data.x[rows], data.y[rows])


def test_a_suspicious_client_is_in_no_score_and_rounds_are_complete() -> None:
    data = clustered_data(strange=True)
    method = Athena(**KMEANS, layer="last_layer", suspicious=2.0)
    result = fk.simulate(method, data, linear(), rounds=2, cohort=10, local=SGD)
    assert groups(result.state) == BY_KIND and result.assignment[9] == UNASSIGNED
    assert [record["excluded"] for record in result.records] == [1] * 3
    assert result.summary()["best_accuracy"] is not None and result.summary()["clusters"] == 3
    assert 9 not in set(result.clients["client"]) and result.summary()["excluded"] == 1


def test_all_clients_with_a_cluster_leave() -> None:
    """Only a client that is excluded is left: nothing to train, to calibrate, or to score."""
    data = clustered_data(strange=True)
    w = simulated(data, population=Population(departures={2: 9}))
    track = run(w, Athena(assignment=(*GIVEN, -1), calibrate=1), Plan(3, 10))
    assert [record["accuracy"] is None for record in track.records] == [False, False, True, True]


def test_dropout_and_stragglers() -> None:
    track = run(
        simulated(population=Population(dropout=0.3, stragglers=0.3)),
        Athena(assignment=GIVEN, calibrate=1),
        Plan(4, CLIENTS),
    )
    state: Any = track.state
    assert np.isfinite(state.models).all() and np.isfinite(state.scale).all()


def test_remarks_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    counts = np.array([[5, 5, 0, 0]] * 2 + [[0, 0, 5, 0]] * 2)
    w = world(np.zeros((4, 2)), counts=counts, detects=True)
    with caplog.at_level(logging.WARNING, logger="fedkin"):
        run(w, Athena(assignment=(0, 0, 1, 1)), Plan(3, 4), name="mine")
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and all(text.startswith("mine: ") for text in said)
    assert "class 3" in said[0] and "cluster 1" in said[1]


def test_other_models_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="detector"):
        fk.simulate(
            Athena(assignment=GIVEN),
            clustered_data(),
            mclr(clustered_data()),
            rounds=1,
            cohort=3,
            out=tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()


# --- runs that go on, and configurations


@pytest.mark.simulation
def test_a_run_that_goes_on_ends_with_the_same_bits(tmp_path: Path) -> None:
    method = Athena(**KMEANS, layer="last_layer", fraction=0.5, calibrate=2, suspicious=2.0)
    data = clustered_data(strange=True)

    def go(rounds: int, out: Path | None = None, resume: bool = False) -> Any:
        settings = {
            "cohort": 7,
            "local": SGD,
            "checkpoint_every": 1,
            "scenario": Population(arrivals={3: 2}),
        }
        return fk.simulate(
            method,
            data,
            linear(),
            rounds=rounds,
            out=out,
            resume=resume,
            **simulate_arguments(settings),
        )

    whole = go(5)
    go(3, tmp_path / "run")
    again = go(5, tmp_path / "run", resume=True)
    assert_same(whole.state, again.state)
    assert whole.records == again.records
    assert (whole.state.scale != [1, 0]).any()


TOML = """
[data]
name = "planted"
base = "digits"
clients = 3
clusters = 3
[model]
name = "tiny"
[method]
name = "athena"
assignment = [0, 0, 1]
calibrate = 1
[run]
rounds = 1
cohort = 3
"""


@pytest.mark.simulation
def test_given_clusters_in_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From TOML, whose lists stand for tuples, and from the run's own config.toml again."""

    def tiny(data: Any) -> Any:
        return linear(int(np.prod(data.x.shape[1:])))

    monkeypatch.setitem(registry.MODELS, "tiny", tiny)
    path = tmp_path / "run.toml"
    path.write_text(TOML)
    config = load(path)
    method = config.method.made
    assert method == Athena(assignment=(0, 0, 1), calibrate=1)
    path.write_text(tomli_w.dumps(config.description().sections))
    assert load(path).method.made == method
    first = execute(config, out=tmp_path / "run")
    kept = from_dict(run_folder.read_config(tmp_path / "run").sections).description()
    again = execute(from_dict(kept.with_run(rounds=2).sections), out=tmp_path / "run", resume=True)
    assert again.records[:2] == first.records and len(again.records) == 3
    assert again.state.assignment.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("assignment = [0, 2]", "assignment"),
        ("assignment = 3", "method.assignment"),
        ("assignment = [0.5]", "method.assignment"),
        ("calibrate = 1.5", "method.calibrate"),
        ("calibrate = -1", "calibrate"),
        ("narrow = true", "method.narrow"),
        ('newcomers = "loss"', "method.newcomers"),
    ],
)
def test_mistakes_in_a_configuration(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(f'[method]\nname = "athena"\n{line}\n')
    with pytest.raises(ConfigError, match=message):
        load(path)
