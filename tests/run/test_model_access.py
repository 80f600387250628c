"""What a finished run does with its models: predictions of the run's own accuracy, newcomers,
fine-tuning."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import fedkin as fk
from fedkin import export
from fedkin.config.description import Description
from fedkin.core.method import UNASSIGNED, State
from fedkin.data.client_names import ClientNames
from fedkin.export.predictor import probabilities
from fedkin.methods.flexcfl import FlexCFLState
from fedkin.run.trained.placement import place
from tests.client_tables import with_clients
from tests.option_lists import simulate_arguments

LOCAL = fk.SGD(epochs=2, batch_size=5, lr=0.5)


def simulated(
    method: Any, data: fk.data.FederatedData, model: Any = None, **options: Any
) -> fk.Run:
    options = {"rounds": 3, "cohort": 12, "local": LOCAL} | options
    return fk.simulate(
        method,
        data,
        fk.models.mclr(data) if model is None else model,
        **simulate_arguments(options),
    )


class Net(nn.Module):
    """A user's own module, with running statistics and a counter."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.out = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.norm(x))


def torch_model() -> Any:
    """The module, with weights that are drawn for each initial model."""
    return fk.torch_model(Net)


def accuracies(run: fk.Run, data: fk.data.FederatedData) -> list[float]:
    """Accuracy of every scored client with test samples, by the run's predictions."""
    tested = [int(client) for client in run.clients["client"] if len(data.test[int(client)])]
    rows = {client: data.test[client] for client in tested}
    return [
        float(np.mean(run.predict(data.x[rows[c]], client=c) == data.y[rows[c]])) for c in tested
    ]


def detector() -> Any:
    return fk.as_model(lambda key: eqx.nn.Linear(2, 1, key=key), name="line", detects=True)


CASES = {
    "fedavg": (fk.FedAvg(), None),
    "ifca": (fk.IFCA(clusters=2), None),
    "personal layers": (fk.FedPer(), "mlp"),
    "own models": (fk.Ditto(0.1), None),
    "minimisers": (fk.PFedMe(strength=1.0), None),
    "mixed with the global one": (fk.APFL(), None),
    "peers": (fk.PANM(neighbours=2, candidates=3, stage_one=2), None),
    "detectors": (fk.Athena(assignment=tuple(i % 2 for i in range(12)), calibrate=3), "detector"),
    "pytorch": (fk.IFCA(clusters=2), "torch"),
}


@pytest.mark.parametrize("case", CASES)
def test_predictions_have_the_accuracy_of_the_run(case: str, tiny: fk.data.FederatedData) -> None:
    method, kind = CASES[case]
    models = {
        "mlp": lambda: fk.models.mlp(tiny, hidden=4),
        "detector": detector,
        "torch": torch_model,
    }
    run = simulated(method, tiny, models[kind]() if kind else None)
    known = run.clients["accuracy"][run.clients["test_samples"] > 0].tolist()
    assert accuracies(run, tiny) == pytest.approx(known)
    assert len(set(known)) > 1 or len(set(run.assignment)) > 1  # else any model would do


def test_layers_and_module_are_those_of_the_model(tiny: fk.data.FederatedData) -> None:
    run = simulated(fk.FedAvg(), tiny, fk.models.mlp(tiny, hidden=4))
    predictor = run.model_for(0)
    assert {name: layer.shape for name, layer in predictor.layers.items()} == {
        "layers.0.weight": (4, 2),
        "layers.0.bias": (4,),
        "layers.1.weight": (2, 4),
        "layers.1.bias": (2,),
    }
    np.testing.assert_array_equal(
        np.concatenate([v.ravel() for v in predictor.layers.values()]), run.models[0]
    )
    np.testing.assert_allclose(
        predictor.module(jnp.asarray(tiny.x[:5])), predictor(tiny.x[:5]), atol=1e-6
    )
    weight = predictor.layers["layers.1.weight"]
    bias = predictor.layers["layers.1.bias"]
    hidden = np.maximum(
        tiny.x[:5] @ predictor.layers["layers.0.weight"].T + predictor.layers["layers.0.bias"], 0
    )
    np.testing.assert_allclose(predictor(tiny.x[:5]), hidden @ weight.T + bias, atol=1e-5)


def test_a_module_of_the_users_own_comes_back_whole(tiny: fk.data.FederatedData) -> None:
    mine = eqx.nn.MLP(2, 2, 4, 1, key=jax.random.key(0))  # its activation is no array
    run = simulated(fk.FedAvg(), tiny, fk.as_model(mine))
    module = run.model_for(0).module
    assert isinstance(module, eqx.nn.MLP)
    np.testing.assert_allclose(
        jax.vmap(module)(jnp.asarray(tiny.x[:4])), run.model_for(0)(tiny.x[:4]), atol=1e-6
    )
    network = simulated(fk.FedAvg(), tiny, Net()).model_for(0).module
    assert isinstance(network, Net) and not network.training
    Net().load_state_dict(network.state_dict(), strict=True)
    pair = (lambda key: {"w": jax.random.normal(key, (2, 2))}, lambda p, x, key: x @ p["w"])
    assert set(simulated(fk.FedAvg(), tiny, fk.as_model(pair)).model_for(0).module) == {"w"}


def test_classes_have_their_names_and_probabilities_sum_to_one(tiny: fk.data.FederatedData) -> None:
    data = replace(tiny, label_names=("ill", "well"))
    run = simulated(fk.FedAvg(), data)
    numbers = simulated(fk.FedAvg(), tiny).predict(tiny.x[:9])
    assert run.predict(tiny.x[:9]).tolist() == [("ill", "well")[n] for n in numbers]
    proba = run.predict(tiny.x[:9], cluster=0, proba=True)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (proba.argmax(axis=1) == numbers).all()
    assert run.predict(tiny.x[:0]).shape == (0,)


def test_uint8_are_scaled_where_those_of_training_were_and_refused_elsewhere(
    tmp_path: Path,
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (24, 2), np.uint8)
    y = np.arange(24) % 2
    owners = np.repeat([0, 1], 12)
    images = fk.data.from_arrays(pixels, y, clients=owners)
    table = pd.DataFrame(pixels, columns=["a", "b"]).assign(y=y, c=owners)
    columns = fk.data.from_pandas(table, label="y", client="c", scale="none")
    assert images.from_uint8 and images.select(np.array([1])).from_uint8 and not columns.from_uint8
    run = simulated(fk.FedAvg(), images, rounds=1, cohort=2)
    run.export(tmp_path / "images")
    for model in (
        run.model_for(0),
        export.load(tmp_path / "images", model=fk.models.mclr(images)).model(),
    ):
        np.testing.assert_array_equal(
            model(pixels), model(pixels.astype(np.float32) / np.float32(255))
        )
    other = simulated(fk.FedAvg(), columns, rounds=1, cohort=2)
    other.export(tmp_path / "columns")
    for model in (
        other.model_for(0),
        export.load(tmp_path / "columns", model=fk.models.mclr(columns)).model(),
    ):
        with pytest.raises(fk.DataError, match=r"uint8 samples: .* pass floats"):
            model(pixels)
    # A model of a scaled table takes the table's numbers, of any type.
    scaled = simulated(
        fk.FedAvg(), fk.data.from_pandas(table, label="y", client="c"), rounds=1, cohort=2
    ).model_for(0)
    np.testing.assert_array_equal(scaled(pixels), scaled(pixels.astype(np.float64)))


def test_rows_of_different_lengths_are_refused(tiny: fk.data.FederatedData) -> None:
    with pytest.raises(fk.DataError, match="samples of different shapes"):
        simulated(fk.FedAvg(), tiny, rounds=1).predict([[1.0, 2.0], [1.0]])


def test_probabilities_of_detectors_are_sigmoids_divided_by_their_sum() -> None:
    scores = np.array([[0.0, np.log(3.0), -np.inf]])
    # 1/2 and 3/4 of 5/4.
    np.testing.assert_allclose(probabilities(scores, detects=True), [[0.4, 0.6, 0.0]])
    np.testing.assert_allclose(probabilities(scores), [[0.25, 0.75, 0.0]])


def test_a_client_of_each_kind_is_placed_in_its_cluster(tiny: fk.data.FederatedData) -> None:
    for method in (
        fk.IFCA(clusters=2),
        fk.FlexCFL(clusters=2, steps=20),
        fk.FedGroup(clusters=2),
        fk.IFCA(2, newcomers="loss"),
    ):
        run = simulated(method, tiny, rounds=6)
        assert len(set(run.assignment)) == 2
        for client in (0, 1):
            x = tiny.x[tiny.train[client]]
            y = tiny.y[tiny.train[client]]
            placement = run.place(x, y, resamples=10)
            assert placement.cluster == run.assignment[client] and placement.confidence > 0.6, type(
                method
            )
            assert placement.shares[placement.cluster] == placement.confidence


def test_a_server_optimizer_and_as_many_clusters_as_clients_place_alike(
    tiny: fk.data.FederatedData,
) -> None:
    """The state has moments in addition to the method's own arrays. None of them is taken for one
    of
        clients."""
    run = simulated(fk.IFCA(clusters=12), tiny, options=[fk.FedAdam(lr=0.1)])
    x = tiny.x[tiny.train[0]]
    y = tiny.y[tiny.train[0]]
    plain = replace(run, state=State(run.models, run.assignment))
    assert run.place(x, y, resamples=4).cluster == plain.place(x, y, resamples=4).cluster


def test_placing_changes_nothing_and_repeats_itself(tiny: fk.data.FederatedData) -> None:
    run = simulated(fk.FlexCFL(clusters=2, steps=5), tiny)
    assert isinstance(run.state, FlexCFLState)
    before = copy.deepcopy((run.state, run.memory))
    informed = run.state.informed.copy()
    one, two = (run.place(tiny.x[:15], tiny.y[:15], resamples=5, seed=3) for _ in range(2))
    assert one.cluster == two.cluster and (one.shares == two.shares).all()
    assert (run.state.assignment == before[0].assignment).all() and (
        run.state.informed == informed
    ).all()
    assert run.memory.keys() == before[1].keys()


def test_confidence_is_the_share_of_resamples(tiny: fk.data.FederatedData) -> None:
    """Random newcomers: as many resamples in each cluster as the shares say."""
    run = simulated(fk.IFCA(clusters=3, newcomers="random"), tiny)
    placement = run.place(tiny.x[:15], tiny.y[:15], resamples=40)
    assert placement.shares.sum() == pytest.approx(1) and placement.shares.max() < 0.8
    assert placement.confidence == placement.shares[placement.cluster]


def test_a_schedule_that_has_ended_leaves_newcomers_and_fine_tuning_their_learning_rate(
    tiny: fk.data.FederatedData,
) -> None:
    local = replace(LOCAL, schedule=fk.Schedule("cosine", length=4))  # 0 from round 5 on
    x = tiny.x[tiny.train[0]]
    y = tiny.y[tiny.train[0]]
    for method in (fk.FlexCFL(clusters=2, steps=20), fk.FedGroup(clusters=2)):
        run = simulated(method, tiny, rounds=5, local=local)
        placement = run.place(x, y, resamples=5)
        assert placement.cluster == run.assignment[0] and placement.confidence > 0.6, type(method)
        assert (run.fine_tune(0, 1).vector != run.model_for(0).vector).any()


def test_a_newcomer_without_a_cluster_has_no_confidence(tiny: fk.data.FederatedData) -> None:
    """A learning rate that is too small for float32 gives no direction, to the newcomer or to any
    resample."""
    run = simulated(fk.FlexCFL(clusters=2, steps=20), tiny)
    still = replace(run.trained, parts=replace(run.trained.parts, local=replace(LOCAL, lr=1e-60)))
    placement = place(still, tiny.x[:5], tiny.y[:5], resamples=5)
    assert (
        placement.cluster == UNASSIGNED and placement.confidence == 0 and not placement.shares.any()
    )


def test_one_model_places_all_and_some_methods_none(tiny: fk.data.FederatedData) -> None:
    assert simulated(fk.FedAvg(), tiny).place(tiny.x[:3], tiny.y[:3]).cluster == 0
    with pytest.raises(fk.MethodError, match=r"panm cannot place newcomers: a peer joins"):
        simulated(fk.PANM(neighbours=2, stage_one=2), tiny).place(tiny.x[:3], tiny.y[:3])
    with pytest.raises(fk.MethodError, match=r"fesem with newcomers = 'own' .* newcomers = 'loss'"):
        simulated(fk.FeSEM(clusters=2), tiny).place(tiny.x[:3], tiny.y[:3])
    assert simulated(fk.FeSEM(clusters=2, newcomers="loss"), tiny).place(
        tiny.x[:3], tiny.y[:3]
    ).cluster in (0, 1)
    labels = replace(tiny, label_names=("ill", "well"))
    run = simulated(fk.IFCA(clusters=2), labels)
    assert run.place(tiny.x[:2], ["well", "ill"]).cluster in (0, 1)
    with pytest.raises(fk.DataError, match=r"unknown label 'wel'; did you mean 'well'"):
        run.place(tiny.x[:2], ["well", "wel"])
    with pytest.raises(fk.DataError, match=r"labels must be integers 0\.\.1.*got 2"):
        run.place(tiny.x[:2], [0, 2])
    with pytest.raises(fk.DataError, match="a label for each"):
        run.place(tiny.x[:2], [0])
    with pytest.raises(fk.ConfigError, match="resamples must be"):
        run.place(tiny.x[:2], [0, 1], resamples=0)


def test_fine_tuning_is_local_training_and_leaves_the_run(tiny: fk.data.FederatedData) -> None:
    run = simulated(fk.FedAvg(), tiny, rounds=1)
    before = run.models.copy()
    first = run.model_for(1)
    assert (run.fine_tune(1, 0).vector == first.vector).all()
    tuned = run.fine_tune(1, 5)
    assert (run.models == before).all() and tuned.name == "client-1"
    x = tiny.x[tiny.train[1]]
    y = tiny.y[tiny.train[1]]
    assert np.mean(tuned.predict(x) == y) > np.mean(first.predict(x) == y)
    assert (run.fine_tune(1, 5).vector == tuned.vector).all()
    one_step = simulated(
        fk.FedAvg(), tiny, local=fk.SGD(epochs=1, batch_size=100, lr=0.5), rounds=1
    ).fine_tune(1, 1)
    start = simulated(
        fk.FedAvg(), tiny, local=fk.SGD(epochs=1, batch_size=100, lr=0.5), rounds=1
    ).models[0]
    scores = x @ start[:4].reshape(2, 2).T + start[4:]
    error = probabilities(scores) - np.eye(2)[y]
    gradient = np.concatenate([(error.T @ x / len(x)).ravel(), error.mean(axis=0)])
    np.testing.assert_allclose(one_step.vector, start - 0.5 * gradient, atol=1e-5)
    with pytest.raises(fk.ConfigError, match="epochs must be"):
        run.fine_tune(1, -1)
    athena = simulated(fk.Athena(assignment=(0,) * 12), tiny, detector())
    with pytest.raises(fk.MethodError, match="athena trains detectors"):
        athena.fine_tune(1, 1)


def test_a_newcomer_is_tuned_from_its_cluster_on_its_own_samples(
    tiny: fk.data.FederatedData,
) -> None:
    # One step on all samples, so their order does not matter.
    local = fk.SGD(epochs=1, batch_size=100, lr=0.5)
    run = simulated(fk.IFCA(clusters=2), tiny, local=local)
    client = int(np.flatnonzero(run.assignment == 1)[0])
    rows = tiny.train[client]
    tuned = run.fine_tune(cluster=1, x=tiny.x[rows], y=tiny.y[rows])
    np.testing.assert_allclose(tuned.vector, run.fine_tune(client, 1).vector, atol=1e-6)
    assert (
        tuned.name == "cluster-1-fine-tuned" and np.abs(tuned.vector - run.models[1]).max() > 1e-3
    )
    assert (
        run.fine_tune(epochs=0, cluster=1, x=tiny.x[rows], y=tiny.y[rows]).vector == run.models[1]
    ).all()
    for wrong in (
        {},
        {"client": 1, "cluster": 1},
        {"cluster": 1},
        {"client": 1, "x": tiny.x, "y": tiny.y},
    ):
        with pytest.raises(
            fk.ConfigError, match="fine_tune takes a client of the run, or cluster=, x= and y="
        ):
            run.fine_tune(**wrong)
    with pytest.raises(
        fk.DataError, match="a newcomer needs at least one sample, and a label for each"
    ):
        run.fine_tune(cluster=1, x=tiny.x[rows], y=tiny.y[rows][:1])


def test_one_sample_says_nothing_of_stability(tiny: fk.data.FederatedData) -> None:
    placement = simulated(fk.IFCA(clusters=2), tiny).place(tiny.x[:1], tiny.y[:1])
    assert placement.cluster in (0, 1) and np.isnan(placement.confidence)


def test_clients_have_numbers_or_names(tiny: fk.data.FederatedData) -> None:
    run = simulated(
        fk.IFCA(clusters=2), replace(tiny, client_names=tuple(f"site {i}" for i in range(12)))
    )
    assert (run.model_for("site 3").vector == run.model_for(3).vector).all()
    with pytest.raises(fk.ConfigError, match=r"unknown client 'sit 3'; did you mean 'site 3'"):
        run.model_for("sit 3")
    for wrong in (12, -1, True):
        with pytest.raises(fk.ConfigError, match="client must be a position from 0 to 11"):
            run.model_for(wrong)
    with pytest.raises(fk.ConfigError, match="have positions from 0 to 11, and no names"):
        simulated(fk.FedAvg(), tiny).model_for("a")
    for wrong in (2, -1, True):
        with pytest.raises(fk.ConfigError, match="cluster must be a number from 0 to 1"):
            run.predict(tiny.x, cluster=wrong)
    with pytest.raises(fk.ConfigError, match="has 2 models; choose one"):
        run.predict(tiny.x)
    with pytest.raises(fk.ConfigError, match="not both"):
        run.predict(tiny.x, client=1, cluster=1)
    with pytest.raises(fk.MethodError, match="panm has a model for each client"):
        simulated(fk.PANM(neighbours=2, stage_one=2), tiny).predict(tiny.x, cluster=0)


def test_a_number_is_a_name_first_and_a_position_where_no_name_is_a_number(
    tiny: fk.data.FederatedData,
) -> None:
    """Names in another order: the client named 3 is the first."""
    names = ("3", "01", "1", *(str(number) for number in range(20, 29)))
    run = simulated(fk.FedPer(), replace(tiny, client_names=names), fk.models.mlp(tiny, hidden=4))
    for client, position in ((3, 0), ("3", 0), (1, 2), ("01", 1), (28, 11)):
        assert run.model_for(client).name == f"client-{names[position]}"
        assert (
            run.predict(tiny.x, client=client) == run.trained.of_client(position).predict(tiny.x)
        ).all()
    assert run.fine_tune(1, 1).name == "client-1"
    for wrong in (0, 2, "02"):
        with pytest.raises(fk.ConfigError, match=f"unknown client '{wrong}'"):
            run.model_for(wrong)
    with pytest.raises(fk.ConfigError, match="a number is a name and not a position"):
        run.model_for(0)
    unnamed = simulated(fk.FedAvg(), tiny)
    assert unnamed.trained.client_number("7") == 7
    with pytest.raises(fk.ConfigError, match="have positions from 0 to 11, and no names; got '07'"):
        unnamed.model_for("07")


def test_names_may_be_known_of_some_clients(tiny: fk.data.FederatedData) -> None:
    """As of real clients, which say their names when they are scored. A name goes before a
    position."""
    trained = replace(
        simulated(fk.FedAvg(), tiny).trained,
        named_clients=np.array([1, 4]),
        names=ClientNames.of(("b", "5")),
    )
    assert [trained.client_number(client) for client in ("b", "5", 5, "2", "11")] == [
        1,
        4,
        4,
        2,
        11,
    ]
    assert [trained.client_name(number) for number in (0, 1, 4, 11)] == ["0", "b", "5", "11"]
    for wrong in ("1", "4", "-1", "12", "02"):
        with pytest.raises(fk.ConfigError, match=f"unknown client '{wrong}'"):
            trained.client_number(wrong)


def test_decisions_are_by_scores_where_probabilities_of_sure_detectors_are_equal(
    tiny: fk.data.FederatedData,
) -> None:
    """Sigmoids of 900 and 300 are both 1, and the run itself decides by the scores."""
    run = simulated(
        fk.Athena(assignment=tuple(i % 2 for i in range(12)), calibrate=3), tiny, detector()
    )
    served = run.model_for(0)
    bias = (next(name for name in served.layers if "bias" in name)).split(".", 2)[2]
    vectors = np.zeros((2, 3), np.float32)
    vectors[:, served.model.spec.slices[bias]] = [[300], [900]]
    sure = replace(served, vectors=vectors, positive=np.arange(2))
    np.testing.assert_array_equal(sure(tiny.x[:3]), [[300, 900]] * 3)
    classes, probability = sure.decide(tiny.x[:3])
    assert classes.tolist() == sure.predict(tiny.x[:3]).tolist() == [1, 1, 1]
    np.testing.assert_array_equal(probability, 0.5)


def test_scores_that_are_not_finite_are_refused_with_the_name_of_the_model(
    tiny: fk.data.FederatedData,
) -> None:
    run = simulated(fk.IFCA(clusters=2), tiny)
    broken = replace(
        run, state=replace(run.state, models=run.models * np.array([[1], [np.nan]], np.float32))
    )
    for ask in (broken.evaluate, lambda: broken.predict(tiny.x, cluster=1)):
        with pytest.raises(
            fk.ModelError, match=r"cluster-1: the scores of .* are NaN or infinite, .* sample 0"
        ):
            ask()
    assert len(broken.predict(tiny.x, cluster=0)) == len(tiny.x)


def test_a_client_without_a_cluster_has_no_model(tiny: fk.data.FederatedData) -> None:
    run = simulated(fk.IFCA(clusters=2), tiny, rounds=1, cohort=3)
    client = int(np.flatnonzero(run.assignment == UNASSIGNED)[0])
    with pytest.raises(fk.MethodError, match=rf"client {client} has no cluster .* run\.place"):
        run.model_for(client)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.zeros((2, 3), np.float32), r"shape \[B, 2\].*\[2, 3\]"),
        (np.zeros(2, np.float32), r"for a single sample x, pass x\[None\]"),
        (np.array([["a", "b"]]), "expected samples"),
        (np.array([[0, np.nan]]), "sample 0 holds NaN"),
    ],
)
def test_samples_of_another_kind_are_refused(
    x: np.ndarray, words: str, tiny: fk.data.FederatedData
) -> None:
    with pytest.raises(fk.DataError, match=words):
        simulated(fk.FedAvg(), tiny, rounds=1).predict(x)


def test_a_loaded_run_makes_its_parts_again_or_asks(
    run_folder: Path, tiny: fk.data.FederatedData, tmp_path: Path
) -> None:
    loaded = fk.Run.load(run_folder)
    data = fk.data.digits(clients=8)
    assert accuracies(loaded, data) == pytest.approx(loaded.clients["accuracy"].tolist())
    assert (
        loaded.place(data.x[data.train[2]], data.y[data.train[2]]).cluster == loaded.assignment[2]
    )
    assert loaded.against["fedavg"].predict(data.x[:3]).shape == (3,)

    run = simulated(fk.IFCA(clusters=2), tiny)
    run.save(tmp_path / "python")
    again = fk.Run.load(tmp_path / "python")
    with pytest.raises(
        fk.ConfigError, match=r"started from Python.*model and data.*Run\.load\(path, model"
    ):
        again.model_for(0)
    model = fk.models.mclr(tiny)
    again = fk.Run.load(tmp_path / "python", model=model, data=tiny)
    assert (again.model_for(0).vector == run.model_for(0).vector).all()
    assert (again.fine_tune(0, 2).vector == run.fine_tune(0, 2).vector).all()
    with pytest.raises(fk.CheckpointError, match="6 parameters, but 'mlp-2-4-2' has 22"):
        fk.Run.load(tmp_path / "python", model=fk.models.mlp(tiny, hidden=4), data=tiny).model_for(
            0
        )


def test_a_run_of_a_server_has_models_and_no_data(tiny: fk.data.FederatedData) -> None:
    run = simulated(fk.IFCA(clusters=2), tiny)
    config = {
        "federation": {"name": "trial", "capacity": 12},
        "model": {"name": "mclr"},
        "method": run.config.method,
    }
    config |= {
        "data": {"name": "trial", "clients": 12, "shape": [2], "classes": 2},
        "run": run.config.run,
    }
    config["local"] = {"epochs": 2, "lr": 0.5}
    clients = run.clients.assign(name=[f"site-{n}" for n in run.clients["client"]])
    served = with_clients(run, clients, config=Description(config), made_of=None)
    np.testing.assert_allclose(served.model_for("site-4")(tiny.x[:3]), run.model_for(4)(tiny.x[:3]))
    assert (
        served.place(tiny.x[:15], tiny.y[:15]).cluster
        == run.place(tiny.x[:15], tiny.y[:15]).cluster
    )
    with pytest.raises(fk.DataError, match="are on its clients' machines"):
        served.fine_tune(1, 1)


def test_model_and_data_stay_in_their_process(tiny: fk.data.FederatedData) -> None:
    run = simulated(fk.FedAvg(), tiny, rounds=1)
    assert run.made_of is not None and pickle.loads(pickle.dumps(run)).made_of is None


def test_a_run_of_a_server_knows_the_names_that_its_federation_agreed_upon(
    tiny: fk.data.FederatedData,
) -> None:
    samples = {"shape": [2], "classes": 2, "labels": ["ill", "well"], "features": ["age", "pulse"]}
    run = simulated(fk.IFCA(clusters=2), tiny)
    config = {
        "federation": {"name": "trial", "capacity": 12},
        "model": {"name": "mclr"},
        "data": {"name": "trial", "clients": 12, **samples},
    }
    local = {"epochs": 1, "batch_size": 5, "lr": 0.1}
    server = replace(run, config=run.config.with_sections(config | {"local": local}), made_of=None)
    swapped = pd.DataFrame(tiny.x[:9, ::-1], columns=["pulse", "age"])
    names = server.predict(swapped, cluster=0)
    assert set(names) <= {"ill", "well"}
    assert (names == np.array(samples["labels"])[run.predict(tiny.x[:9], cluster=0)]).all()
