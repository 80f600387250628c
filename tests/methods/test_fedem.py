"""FedEM: components of all clients, weights of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float
from scipy.special import softmax

import fedkin as fk
from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.synthetic_mixture import synthetic_mixture
from fedkin.methods.fedem import FedEM, MixtureState
from fedkin.models.model import Model
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.fedem import EvaluateMixture, MixtureWeights, TrainMixture
from tests.option_lists import simulate_arguments

Oracle = Callable[[str], Any]
STREAM = Stream(3, 1, "method")
CLOSE: dict[str, Any] = {"rtol": 0, "atol": 2e-5}


def logistic(features: int) -> Model:
    """One weight for each feature, and a bias: the score of class 1. The score of class 0 is 0."""

    def apply(parameters: Any, x: Any, key: Any) -> Any:
        score = x @ parameters[0] + parameters[1]
        return jnp.stack([jnp.zeros_like(score), score], axis=1)

    return fk.as_model((lambda key: (jax.random.normal(key, (features,)), jnp.zeros(1)), apply))


def of_oracle(case: dict[str, Any]) -> tuple[SimulatedWorld, MixtureState]:
    """The clients of a case, and its components before the round."""
    x = np.concatenate(case["X"]).astype(np.float32)
    y = np.concatenate(case["Y"])
    sizes = np.array([len(own) for own in case["Y"]])
    rows = Ragged(np.arange(len(y)), np.concatenate([[0], np.cumsum(sizes)]))
    data = FederatedData(name="oracle", x=x, y=y, classes=2, train=rows, test=rows)
    work = LocalTraining(case["local_epochs"], batch_size=100, lr=case["lr"])
    components = np.column_stack([case["W0"], case["b0"]]).astype(np.float32)
    total = len(sizes)
    state = MixtureState(
        components, np.zeros(total, np.int64), np.array(case["pi0"]), np.zeros(total, np.int64)
    )
    return SimulatedWorld(data, logistic(x.shape[-1]), work), state


def test_a_round_equals_the_authors_code(oracle: Oracle) -> None:
    for case in oracle("methods2")["fedem"]:
        world, state = of_oracle(case)
        everyone = np.arange(world.total_clients)
        after = FedEM(len(state.models)).round(world, state, everyone, STREAM)
        np.testing.assert_allclose(after.membership, case["pi_after"], **CLOSE)
        np.testing.assert_allclose(after.models[:, :-1], case["global_w"], **CLOSE)
        np.testing.assert_allclose(after.models[:, -1], case["global_b"], **CLOSE)
        np.testing.assert_array_equal(after.assignment, np.argmax(case["pi_after"], axis=1))
        own = world.run(
            TrainMixture(state.models.reshape(1, -1), world.work, state.membership[:1]),
            everyone[:1],
            STREAM,
        )
        local = state.models + own.update.reshape(state.models.shape)
        for component, (w, b) in zip(
            local, case["local_w_b_per_client_per_component"][0], strict=True
        ):
            np.testing.assert_allclose(component, [*w, *np.ravel(b)], **CLOSE)
        scores = world.run(EvaluateMixture(after.models, after.membership, "train"), everyone)
        for client, (p, y) in enumerate(
            zip(
                map(np.array, case["mixture_probability_on_own_training_data"]),
                map(np.array, case["Y"]),
                strict=True,
            )
        ):
            np.testing.assert_allclose(
                scores.loss[client], -np.log(np.where(y == 1, p, 1 - p)).mean(), atol=1e-4
            )
            assert scores.sums[client, 0] == ((p > 0.5) == y).sum()


def test_clients_that_were_not_selected_count_with_the_models_as_they_are(oracle: Oracle) -> None:
    world, state = of_oracle(oracle("methods2")["fedem"][0])
    one = np.array([1])
    alone, of_all = (
        FedEM(3, average_over=over).round(world, state, one, STREAM) for over in ("cohort", "all")
    )
    np.testing.assert_allclose(
        of_all.models - state.models, (alone.models - state.models) / 3, atol=1e-6
    )
    # Theirs stay as they were.
    np.testing.assert_array_equal(of_all.membership[[0, 2]], state.membership[[0, 2]])
    assert of_all.samples.tolist() == [0, 5, 0]


def test_the_weights_of_a_sample_are_of_the_old_membership_and_a_weight_of_zero_stays() -> None:
    target = np.array([[0.0, 0.0], [4.0, 0.0]], np.float32)
    world = FakeWorld(target, np.array([1, 3]), LocalTraining(1, lr=0.5))
    models = np.array([[1.0, 0.0], [3.0, 0.0]], np.float32)
    state = MixtureState(
        models, np.zeros(2, np.int64), np.array([[0.9, 0.1], [0.0, 1.0]]), np.zeros(2, np.int64)
    )
    after = FedEM(2).round(world, state, np.arange(2), STREAM)
    q = 0.9 * np.exp(-0.5) / (0.9 * np.exp(-0.5) + 0.1 * np.exp(-4.5))  # losses |w - target|^2 / 2
    np.testing.assert_allclose(after.membership, [[q, 1 - q], [0, 1]], atol=1e-12)
    # Lr q (target - w), by client and component.
    steps = 0.5 * np.array([[q * -1, (1 - q) * -3], [0, 1]])
    np.testing.assert_allclose(
        after.models[:, 0], models[:, 0] + np.array([1, 3]) @ steps / 4, atol=1e-6
    )


def test_a_newcomer_gets_its_weights_by_one_e_step_and_trains_nothing() -> None:
    target = np.array([[0.0], [4.0], [4.0]], np.float32)
    world = FakeWorld(target, np.ones(3, np.int64), LocalTraining(1, lr=0.5))
    models = np.array([[1.0], [3.0]], np.float32)
    nothing = np.full((3, 2), np.nan)
    state = MixtureState(models, np.array([0, 1, -1]), nothing, np.zeros(3, np.int64))
    after = FedEM(2).place(world, state, np.array([2]), STREAM)
    q = np.exp(-0.5) / (np.exp(-0.5) + np.exp(-4.5))
    np.testing.assert_allclose(after.membership[2], [1 - q, q], atol=1e-12)
    assert after.assignment.tolist() == [0, 1, 1] and after.models is models
    assert set(world.ledger.down) == {"mixture_weights"}


def test_probabilities_are_mixed_and_not_scores() -> None:
    x = np.ones((1, 1), np.float32)
    rows = Ragged.of([np.array([0])])
    data = FederatedData(
        name="one sample", x=x, y=np.zeros(1, np.int64), classes=2, train=rows, test=rows
    )
    # Scores of class 1: 9 and -1, whose mean is 4.
    models = np.array([[9.0, 0.0], [-1.0, 0.0]], np.float32)
    reply = SimulatedWorld(data, logistic(1)).run(
        EvaluateMixture(models, np.array([[0.4, 0.6]])), np.array([0])
    )
    p = 0.4 / (1 + np.exp(-9.0)) + 0.6 / (1 + np.exp(1.0))
    np.testing.assert_allclose(reply.loss, [-np.log(1 - p)], rtol=1e-5)
    assert reply.sums[0, 0] == int(p < 0.5)


def test_components_that_start_equal_are_refused() -> None:
    world = FakeWorld(
        np.zeros((4, 2), np.float32), np.ones(4, np.int64), start=lambda stream: np.ones(2)
    )
    with pytest.raises(MethodError, match=r"must start from different models.*drawn at random"):
        FedEM(2).init(world, STREAM)
    FedEM(1).init(world, STREAM)


def test_more_components_than_clients_are_refused() -> None:
    data = small()
    with pytest.raises(
        ConfigError, match=r"FedEM needs at least 41 clients \(clusters = 41\), and there are 40"
    ):
        fk.simulate(FedEM(41), data, fk.models.mclr(data), rounds=1, cohort=4)


def small() -> FederatedData:
    return synthetic_mixture(
        clients=40, features=10, components=2, test_samples=100, concentration=0.2, seed=1
    )


def accuracy(run: fk.Run) -> float:
    return float(run.summary()["final_accuracy"])


def test_it_finds_the_components_and_each_clients_shares() -> None:
    data = small()
    local = fk.SGD(epochs=1, batch_size=32, lr=1.0)
    run = fk.simulate(
        FedEM(2),
        data,
        fk.models.mclr(data),
        rounds=40,
        cohort=40,
        local=local,
        against=[fk.FedAvg()],
        scoring=fk.Scoring(evaluate_every=40),
    )
    assert run.summary()["ari"] > 0.5 and accuracy(run) > accuracy(run.against["fedavg"]) + 0.05
    np.testing.assert_allclose(soft(run).sum(axis=1), 1)


def test_resume_is_exact(tmp_path: Path) -> None:
    data = small()
    options: dict[str, Any] = {
        "rounds": 4,
        "cohort": 12,
        "local": fk.SGD(epochs=1, lr=0.5),
        "checkpoint_every": 1,
    }
    whole = fk.simulate(
        FedEM(2), data, fk.models.mclr(data), out=tmp_path / "whole", **simulate_arguments(options)
    )

    def stop(record: dict[str, Any]) -> None:
        if record["round"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fk.simulate(
            FedEM(2),
            data,
            fk.models.mclr(data),
            out=tmp_path / "cut",
            **simulate_arguments({"callbacks": stop} | options),
        )
    resumed = fk.simulate(
        FedEM(2),
        data,
        fk.models.mclr(data),
        out=tmp_path / "cut",
        resume=True,
        **simulate_arguments(options),
    )
    for name in ("models", "assignment", "membership", "samples"):
        np.testing.assert_array_equal(getattr(resumed.state, name), getattr(whole.state, name))


def test_a_newcomer_is_placed_by_its_largest_weight() -> None:
    data = small()
    local = fk.SGD(epochs=1, batch_size=32, lr=1.0)
    run = fk.simulate(
        FedEM(2),
        data,
        fk.models.mclr(data),
        rounds=40,
        cohort=40,
        local=local,
        scoring=fk.Scoring(evaluate_every=40),
    )
    client = int(soft(run)[:, 1].argmax())
    rows = data.train[client]
    placement = run.place(data.x[rows], data.y[rows])
    assert placement.cluster == 1


def test_a_newcomer_is_served_all_models_mixed_by_its_own_shares() -> None:
    """Not the largest component alone: probabilities of FedEM and FedRC, parameters of FedSoft."""
    data = small()
    model = fk.models.mclr(data)
    local = fk.SGD(epochs=1, batch_size=32, lr=1.0)
    for method in (FedEM(2), fk.FedRC(2), fk.FedSoft(2)):
        run = fk.simulate(
            method,
            data,
            model,
            rounds=4,
            cohort=40,
            local=local,
            scoring=fk.Scoring(evaluate_every=4),
        )
        rows = data.train[3]
        x = data.x[rows]
        placement = run.place(x, data.y[rows])
        pi = placement.membership
        assert pi is not None and placement.model is not None and pi.sum() == pytest.approx(1)
        assert 0.01 < pi.min(), "a mixture that is none shows nothing"
        alone = [run.trained._shared(k) for k in range(2)]
        scores = [np.asarray(one(x), np.float64) for one in alone]
        if isinstance(method, fk.FedSoft):
            # Scores are linear in the parameters.
            expected = softmax(pi[0] * scores[0] + pi[1] * scores[1], axis=1)
        else:
            expected = pi[0] * softmax(scores[0], axis=1) + pi[1] * softmax(scores[1], axis=1)
        np.testing.assert_allclose(placement.model.predict(x, proba=True), expected, atol=1e-5)
    plain = fk.simulate(fk.IFCA(clusters=2), data, model, rounds=2, cohort=40, local=local)
    assert plain.place(x, data.y[rows]).model is None


def soft(run: fk.Run) -> Float[np.ndarray, "N K"]:
    assert isinstance(run.state, MixtureState)
    return run.state.membership


def weights(reply: Any) -> Float[np.ndarray, "n K"]:
    return reply.membership


def test_membership_alone_equals_the_membership_of_training() -> None:
    data = small()
    world = SimulatedWorld(data, fk.models.mclr(data))
    state = FedEM(2).init(world, STREAM)
    trained = world.run(
        TrainMixture(state.models.reshape(1, -1), world.work, state.membership),
        np.arange(40),
        STREAM,
    )
    np.testing.assert_allclose(
        weights(world.run(MixtureWeights(state.models, state.membership), np.arange(40))),
        weights(trained),
        atol=1e-12,
    )
