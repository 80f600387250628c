"""Statistics of labels that are numbers: computed or given, of counts with exposures, without
weights, and of the samples that remain for training."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.config.registry import datasets, make_site_data, resolve
from fedkin.config.server_settings import SiteSettings
from fedkin.core.errors import ConfigError, DataError
from fedkin.data.digest import data_digest
from fedkin.data.label_statistics import RawLabels, with_given_constant, with_pooled
from fedkin.data.label_tasks import RAW, task_type_of
from fedkin.data.packed import open_packed, pack
from fedkin.export import load
from fedkin.measures.number_bins import bins_of, quantile_edges
from fedkin.server.deploy.build_node import build_node
from fedkin.task_types.catalogue import task_type_from, values_of
from fedkin.task_types.task_type import LabelScale

ROWS = 80
CLIENTS = np.arange(ROWS) % 4
X = np.random.default_rng(0).normal(size=(ROWS, 2)).astype(np.float32)
GIVEN = {"mean": 100.0, "scale": 25.0}


def numbers(**options: Any) -> fk.FederatedData:
    labels = 50 + 10 * X[:, 0].astype(np.float64)
    return fk.data.from_arrays(X, labels, clients=CLIENTS, task="regression", **options)


def counts(labels: Any, **options: Any) -> fk.FederatedData:
    return fk.data.from_arrays(X, labels, clients=CLIENTS, task="count", test=0, **options)


def test_equal_training_labels_have_the_scale_1() -> None:
    """The remaining training labels after the split may be equal, and their mean differ from them
    by rounding."""
    raw = RawLabels(label=np.full(12, 0.1))
    assert raw.label.std() > 0
    task_type = task_type_of("regression")
    assert task_type is not None
    assert with_pooled(task_type, raw, np.arange(12), "d").label.scale == 1.0


def test_given_statistics_are_used_as_they_are_and_travel_with_the_models(tmp_path: Path) -> None:
    data = numbers(label_scale_from=GIVEN)
    assert data.task_type.label == LabelScale(100.0, 25.0)
    labels = 50 + 10 * X[:, 0].astype(np.float64)
    np.testing.assert_allclose(data.y, (labels - 100) / 25, rtol=1e-6)
    run = fk.simulate(
        fk.FedAvg(),
        data,
        fk.models.mclr(data),
        rounds=10,
        cohort=4,
        local=fk.LocalTraining(epochs=5, batch_size=10, lr=0.1),
        out=tmp_path / "run",
    )
    predicted = run.predict(X, cluster=0)
    assert np.abs(predicted - labels).mean() < 5
    run.export(tmp_path / "models")
    exported = load(tmp_path / "models").model(cluster=0).predict(X)
    np.testing.assert_allclose(exported, predicted, rtol=1e-5)
    assert load(tmp_path / "models").samples.task_type.label == LabelScale(100.0, 25.0)

    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=labels, who=CLIENTS)
    options: dict[str, Any] = {"label": "y", "client": "who", "task": "regression"}
    frame = fk.data.from_pandas(table, label_scale_from=GIVEN, scale="none", **options)
    np.testing.assert_allclose(frame.y, data.y, rtol=1e-6)
    rates = counts(np.arange(ROWS), label_scale_from={"rate": 2.5})
    assert rates.task_type.rate == 2.5
    np.testing.assert_allclose(rates.y[:, 1], np.log(2.5), rtol=1e-6)


def test_statistics_that_cannot_be_given() -> None:
    with pytest.raises(
        ConfigError, match=r"label_scale_from must be \{mean = 50.0, scale = 12.0\}"
    ):
        numbers(label_scale_from={"mean": 3.0})
    with pytest.raises(ConfigError, match="label_scale_from must be left out for labels that are"):
        fk.data.from_arrays(X, CLIENTS % 2, clients=CLIENTS, label_scale_from=GIVEN)
    table = pd.DataFrame({"t": np.arange(20), "y": np.arange(20.0) ** 2, "who": 0})
    with pytest.raises(ConfigError, match="label_scale_from does not apply to forecasts"):
        fk.data.from_pandas(
            table, label="y", client="who", task="forecast", time="t", label_scale_from=GIVEN
        )


def test_equal_counts_of_different_exposures_have_a_rate() -> None:
    exposure = np.linspace(0.5, 2, ROWS)
    data = counts(np.ones(ROWS), exposure=exposure)
    assert data.task_type.rate == pytest.approx(ROWS / exposure.sum(), rel=1e-12)
    assert data.task_type.deviation == 1.0  # no test divides by 0
    assert np.isfinite(data.y).all()
    run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=4)
    assert np.isfinite(run.predict(X, cluster=0)).all()
    for labels, options in (
        (np.zeros(ROWS), {"exposure": exposure}),
        (np.ones(ROWS), {"exposure": np.full(ROWS, 2.0)}),
        (np.ones(ROWS), {}),
    ):
        with pytest.raises(DataError, match="all training labels are"):
            counts(labels, **options)


def test_weights_are_not_part_of_a_rate() -> None:
    """The rate is the sum of labels over the sum of exposures."""
    labels = np.arange(ROWS) % 7
    exposure = np.linspace(0.5, 2, ROWS)
    weight = np.linspace(0.1, 9, ROWS)
    data = counts(labels, exposure=exposure, weight=weight)
    assert data.task_type.rate == pytest.approx(labels.sum() / exposure.sum(), rel=1e-12)
    np.testing.assert_allclose(data.y[:, 2], weight, rtol=1e-6)


def test_validation_samples_are_not_in_the_statistics(tmp_path: Path) -> None:
    split = numbers(test=0).with_validation(0.25)
    labels = split.task_type.labels_of(split.y)
    of_training = labels[split.train.rows]
    assert split.task_type.label.mean == pytest.approx(of_training.mean(), rel=1e-6)
    assert split.task_type.label.scale == pytest.approx(of_training.std(), rel=1e-6)
    assert split.y[split.train.rows].mean() == pytest.approx(0, abs=1e-5)
    np.testing.assert_allclose(labels, 50 + 10 * X[:, 0], rtol=1e-5)

    exposure = np.linspace(0.5, 2, ROWS)
    rates = counts(np.arange(ROWS) % 7, exposure=exposure).with_validation(0.25)
    rows = rates.train.rows
    expected = (rows % 7).sum() / exposure[rows].sum()
    assert rates.task_type.rate == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(np.exp(rates.y[:, 1]), exposure * expected, rtol=1e-5)

    given = numbers(test=0, label_scale_from=GIVEN)
    assert given.with_validation(0.25).task_type.label == LabelScale(100.0, 25.0)
    # Packed data remember that their statistics were given.
    pack(given, tmp_path / "packed")
    packed = open_packed(tmp_path / "packed").with_validation(0.25)
    assert packed.task_type.label == LabelScale(100.0, 25.0)


def test_a_partition_of_numbers_has_the_bins_of_the_measures() -> None:
    """A number that equals an edge is above it, everywhere."""
    labels = np.repeat([0, 1, 2, 5], 20)
    edges = quantile_edges(labels)
    for edge in edges:
        below, at = bins_of(np.array([edge - 1e-9, edge]), edges)
        assert at == below + 1
    data = fk.data.from_arrays(
        X, labels, partition="shards", num_clients=4, classes_per_client=1, task="count", test=0
    )
    of_clients = [set(labels[data.train[client]]) for client in range(4)]
    assert sorted(map(len, of_clients)) == [1, 1, 1, 1]


def test_a_client_keeps_its_facts_whichever_rows_are_left_out() -> None:
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=X[:, 0], who=CLIENTS)
    table["region"] = np.array(["north", "south"])[CLIENTS % 2]
    options: dict[str, Any] = {"label": "y", "client": "who", "client_columns": ["region"]}
    unlabelled = table.assign(y=table["y"].where(table.index >= 8))
    data = fk.data.from_pandas(unlabelled, task="regression", **options)
    assert data.client_columns == {"region": ("north", "south", "north", "south")}
    differs = unlabelled.copy()
    differs.loc[0, "region"] = "east"
    with pytest.raises(DataError, match="'region' has 2 values in the samples of client 0"):
        fk.data.from_pandas(differs, task="regression", **options)
    # A client without any label is named, with or without facts.
    empty = table.assign(y=table["y"].where(table["who"] != 2))
    with pytest.raises(DataError, match="client 2"):
        fk.data.from_pandas(empty, task="regression", **options)
    series = {"task": "forecast", "time": "t", "lags": [1]}
    timed = table.assign(t=np.arange(ROWS) // 4)
    assert fk.data.from_pandas(timed, **options, **series).client_columns == data.client_columns
    timed.loc[0, "region"] = "east"  # it has no lag, so it is no sample
    with pytest.raises(DataError, match="'region' has 2 values in the samples of client 0"):
        fk.data.from_pandas(timed, **options, **series)


def test_labels_that_a_server_scales_later_can_be_divided_for_validation() -> None:
    """A site's labels are columns in their own unit, without an offset: one or two."""
    for task, exposure, columns in (
        ("regression", None, 1),
        ("count", None, 1),
        ("count", np.ones(ROWS), 2),
    ):
        data = fk.data.from_arrays(
            X,
            np.arange(ROWS),
            clients=CLIENTS,
            task=task,
            exposure=exposure,
            label_scale_from=RAW,
        )
        assert data.y.shape == (ROWS, columns)
        divided = data.with_validation(0.25)
        assert divided.validation is not None
        assert (divided.validation.sizes > 0).all()
        assert divided.y is data.y


@pytest.mark.parametrize(
    ("task", "loss", "given"),
    [
        ("regression", "squared_error", GIVEN),
        ("regression", "absolute_error", GIVEN),
        ("quantile", None, GIVEN),
        ("count", "poisson", {"rate": 300.0}),
        ("count", "negative_binomial", {"rate": 300.0}),
    ],
)
def test_models_are_compared_with_the_training_labels_whatever_is_given(
    task: str, loss: str | None, given: dict[str, float]
) -> None:
    """The sums of the constant model, in units of the label, are those without given numbers, which
    a far mean or rate would make much larger. They survive a validation split and JSON."""
    labels = np.round(50 + 10 * X[:, 0].astype(np.float64) ** 2)
    options: dict[str, Any] = {"clients": CLIENTS, "task": task, "loss": loss, "test": 0.25}
    own = fk.data.from_arrays(X, labels, **options)
    other = fk.data.from_arrays(X, labels, label_scale_from=given, **options)
    pairs = [(own, other), (own.with_validation(0.25), other.with_validation(0.25))]
    stored = task_type_from(json.loads(json.dumps(values_of(other.task_type))), "card.json")
    pairs.append((own, replace(other, task_type=stored)))
    for computed, found in pairs:
        rows = computed.test.rows
        expected = [part.sum() for part in computed.task_type.constant_scores(computed.y[rows])]
        sums = [part.sum() for part in found.task_type.constant_scores(found.y[rows])]
        ratio = computed.task_type.label.scale / found.task_type.label.scale
        powers = {"regression": (2, 1), "quantile": (1,), "count": (1, 1)}[task]
        for power, one, another in zip(powers, expected, sums, strict=True):
            assert another == pytest.approx(one * ratio**power, rel=1e-5)
    # By hand: R2 is measured about the mean of the training labels.
    if loss == "squared_error":
        about_mean = labels[own.test.rows] - labels[own.train.rows].mean()
        found = other.task_type.constant_scores(other.y[own.test.rows])[0].sum()
        assert found == pytest.approx((about_mean**2).sum() / 25**2, rel=1e-5)


def test_packed_data_stay_packed_without_a_computed_constant(tmp_path: Path) -> None:
    """Nothing but the constant model changes: samples stay in their files, and are not read."""
    data = numbers(label_scale_from=GIVEN)
    packed = fk.data.pack(data, tmp_path / "packed")
    private, _ = fk.ClientDP(noise_multiplier=1.0).simulated(packed, None)
    for found in (private, with_given_constant(packed)):
        assert found.packed is packed.packed and found.x is packed.x
        assert found.task_type.centre == 0 and packed.task_type.centre < -1
        # The files have the same digest as the data.
        assert data_digest(found) == data_digest(replace(data, task_type=found.task_type))


def test_sites_and_private_runs_compare_with_the_given_numbers(tmp_path: Path) -> None:
    """A site knows its own training labels only, and those of a private run must not be stored with
    its models."""
    data = numbers(label_scale_from=GIVEN)
    assert data.task_type.centre < -1
    private, _ = fk.ClientDP(noise_multiplier=1.0).simulated(data, None)
    node = build_node(fk.models.mclr(data), data, SiteSettings(name="a"))
    pd.DataFrame(X, columns=["a", "b"]).assign(y=X[:, 0]).to_csv(tmp_path / "t.csv", index=False)
    values = {
        "name": "file",
        "path": str(tmp_path / "t.csv"),
        "task": "regression",
        "partition": "iid",
        "clients": 2,
        "label_scale_from": GIVEN,
    }
    of_peer = make_site_data(resolve("data set", datasets(), values, str))
    world: Any = node.world(np.arange(4))
    for found in (private, world.data, of_peer):
        assert found.task_type.label == LabelScale(100.0, 25.0)
        assert found.task_type.centre == 0 and found.task_type.constant == (0.0,)
