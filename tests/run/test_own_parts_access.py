"""Models that users get of mixtures, and of clients that never trained their own part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.export import write_model
from fedkin.export.predictor import probabilities
from tests.option_lists import simulate_arguments


def simulated(
    method: Any, data: fk.data.FederatedData, model: Any = None, **options: Any
) -> fk.Run:
    asked: dict[str, Any] = {"rounds": 2, "cohort": 12, **options}
    return fk.simulate(
        method,
        data,
        model or fk.models.mclr(data),
        local=fk.SGD(lr=0.3),
        **simulate_arguments(asked),
    )


@pytest.mark.parametrize("method", [fk.FedEM(clusters=2), fk.FedRC(clusters=3)])
def test_a_mixture_predicts_by_mixed_probabilities(
    method: Any, tiny: fk.data.FederatedData
) -> None:
    run = simulated(method, tiny)
    state: Any = run.state
    served = run.model_for(3)
    alone = [run.trained._predictor("k", model[None], 0) for model in state.models]
    mixed = sum(
        pi * probabilities(one(tiny.x)) for pi, one in zip(state.membership[3], alone, strict=True)
    )
    np.testing.assert_allclose(run.predict(tiny.x, client=3, proba=True), mixed, atol=1e-6)
    np.testing.assert_array_equal(run.predict(tiny.x, client=3), np.argmax(mixed, axis=1))
    assert set(served.layers) == {
        f"components.{k}.{n}" for k in range(method.clusters) for n in alone[0].layers
    }
    assert run.evaluate().summary["accuracy"] == pytest.approx(run.summary()["final_accuracy"])


def test_a_mixture_is_no_single_model(tiny: fk.data.FederatedData, tmp_path: Path) -> None:
    run = simulated(fk.FedEM(clusters=2), tiny)
    with pytest.raises(fk.ModelError, match="is a mixture of 2 models"):
        _ = run.model_for(0).vector
    with pytest.raises(fk.MethodError, match="fedem trains mixtures, with several models"):
        run.fine_tune(0)
    with pytest.raises(fk.MethodError, match="fedem trains mixtures"):
        run.evaluate(fine_tune_epochs=1)
    with pytest.raises(
        fk.MethodError,
        match=r"no export format supports; predict with run\.predict\(x, client=\.\.\.\)",
    ):
        run.export(tmp_path / "out")
    for format in ("safetensors", "torch"):
        with pytest.raises(fk.MethodError, match="mixture of 2 models, which no export format"):
            write_model(run.model_for(0), tmp_path / "out", format=format)
    assert not (tmp_path / "out").exists()
    assert simulated(fk.FedRC(clusters=2, hard=True), tiny).export(tmp_path / "hard").exists()


@pytest.mark.parametrize(
    ("method", "options"), [(fk.FedRep(head_epochs=1), []), (fk.FedAvg(), [fk.PersonalHead(1)])]
)
def test_a_client_that_never_trained_has_no_head(
    method: Any, options: Any, tiny: fk.data.FederatedData
) -> None:
    """The message says how to get one, and it can be done;
    with those that trained nothing changes."""
    run = simulated(
        method, tiny, fk.models.mlp(tiny, hidden=4), rounds=1, cohort=4, options=options
    )
    kept = run.memory["clients/personal_head.kept"].astype(bool)
    assert kept.sum() == 4
    without = int(np.flatnonzero(~kept)[0])
    own = int(np.flatnonzero(kept)[0])
    with pytest.raises(
        fk.MethodError, match=rf"client {without} has no personal last layer, .*run\.fine_tune"
    ):
        run.predict(tiny.x, client=without)
    assert run.predict(tiny.x, client=own).shape == (len(tiny.x),)
    assert run.fine_tune(without, epochs=1).predict(tiny.x).shape == (len(tiny.x),)


def test_a_client_that_never_trained_has_dittos_shared_model(tiny: fk.data.FederatedData) -> None:
    run = simulated(fk.Ditto(), tiny, rounds=1, cohort=4)
    kept = run.memory["clients/own_model.kept"].astype(bool)
    without = int(np.flatnonzero(~kept)[0])
    own = int(np.flatnonzero(kept)[0])
    np.testing.assert_array_equal(run.model_for(without).vector, run.state.models[0])
    assert (run.model_for(own).vector != run.state.models[0]).any()


def test_a_newcomer_has_dittos_shared_model_and_trains_a_head(tiny: fk.data.FederatedData) -> None:
    """The paper's newcomers: Ditto's global model; FedPer's body, with a head that it trains on its
    labels."""
    rows = tiny.train[0]
    x = tiny.x[rows]
    y = tiny.y[rows]
    run = simulated(fk.Ditto(), tiny)
    placed = run.place(x, y)
    shared = run.trained._predictor("shared", run.state.models, 0)
    np.testing.assert_array_equal(
        run.predict(x, cluster=placed.cluster, proba=True), shared.predict(x, True)
    )
    heads = simulated(fk.FedPer(), tiny, fk.models.mlp(tiny, hidden=4))
    with pytest.raises(
        fk.MethodError, match=r"fedper has a model for each client, .*run\.fine_tune\(cluster="
    ):
        heads.predict(x, cluster=heads.place(x, y).cluster)
    tuned = heads.fine_tune(cluster=0, x=x, y=y, epochs=5)
    assert tuned.vector.shape == heads.state.models[0].shape
    assert (
        tuned.vector[heads.trained.spec.head] != heads.state.models[0][heads.trained.spec.head]
    ).any()
    with pytest.raises(fk.MethodError, match="last layers are personal"):
        heads.fine_tune(cluster=0, x=x, y=y, epochs=0)
    with pytest.raises(fk.ConfigError, match="cluster must be a number from 0 to 0, got 3"):
        heads.fine_tune(cluster=3, x=x, y=y, epochs=1)
