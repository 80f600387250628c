"""Losses, gradients, scores, the choice of a model and the ledger, against NumPy and numbers worked
by hand."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from fedkin.core.errors import DataError, MethodError
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import as_model, mlp
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.jax import scoring
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.losses import Losses
from fedkin.tasks.shift import Note, Shifted
from fedkin.tasks.similarities import Directions, Similarities
from fedkin.tasks.train import train
from tests.simulation import numpy_reference
from tests.simulation.small_federation import EVERYONE, SIZES, federation, models, samples

WIDTHS = (6, 64, 3)
DATA = federation(test_sizes=(3, 0, 1, 20, 0, 5, 40))
MODEL = mlp(DATA, hidden=64)
START = models(MODEL, 3)
WHICH = np.array([2, 0, 1, 1, 2, 0, 2])
STREAM = Stream(1, 4, "run/train")
BYTES = 4 * (6 * 64 + 64 + 64 * 3 + 3)  # one model of float32


def world(**options: Any) -> SimulatedWorld:
    return SimulatedWorld(DATA, MODEL, LocalTraining(epochs=1, batch_size=10, lr=0.05), **options)


def expected_losses() -> np.ndarray:
    rows = [
        [numpy_reference.cross_entropy(w, WIDTHS, *samples(DATA, c)) for w in START]
        for c in EVERYONE.tolist()
    ]
    return np.array(rows)


def test_losses() -> None:
    np.testing.assert_allclose(
        world().run(Losses(START), EVERYONE).losses, expected_losses(), rtol=1e-5
    )


def test_losses_count_the_penalty_that_training_adds() -> None:
    # Without the biases.
    kernels = [w[:-3][np.r_[0 : 6 * 64, 6 * 64 + 64 : 6 * 64 + 64 + 64 * 3]] for w in START]
    expected = expected_losses() + 0.05 * np.array([np.sum(k**2) for k in kernels])
    penalised = SimulatedWorld(DATA, mlp(DATA, hidden=64, l2=0.05))
    np.testing.assert_allclose(penalised.run(Losses(START), EVERYONE).losses, expected, rtol=1e-5)


def test_gradients() -> None:
    got = world().run(Gradients(START, WHICH), EVERYONE).gradients
    for row, client in enumerate(EVERYONE.tolist()):
        _, gradient = numpy_reference.loss_and_gradient(
            START[WHICH[row]], WIDTHS, *samples(DATA, client)
        )
        np.testing.assert_allclose(got[row], gradient, rtol=1e-4, atol=1e-6)


def test_gradients_of_many_samples_with_a_penalty() -> None:
    """600 samples are more than one block of the sum."""
    data = federation(sizes=(600, 3))
    w = SimulatedWorld(data, mlp(data, hidden=64, l2=0.05))
    got = w.run(Gradients(START, np.array([0, 1])), np.array([1, 0])).gradients
    for row, (client, model_index) in enumerate([(1, 0), (0, 1)]):
        _, gradient = numpy_reference.loss_and_gradient(
            START[model_index], WIDTHS, *samples(data, client), l2=0.05
        )
        np.testing.assert_allclose(got[row], gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("split", ["test", "train"])
def test_evaluate(split: str) -> None:
    got = evaluate(world(), START, EVERYONE, WHICH, split=split)
    for row, client in enumerate(EVERYONE.tolist()):
        x, y = samples(DATA, client, split)
        w = START[WHICH[row]]
        assert got.examples[row] == len(y)
        assert got.correct[row] == numpy_reference.correct(w, WIDTHS, x, y)
        expected = numpy_reference.cross_entropy(w, WIDTHS, x, y) if len(y) else 0
        np.testing.assert_allclose(got.loss[row], expected, rtol=1e-5)
    assert 0 < got.correct.sum() < got.examples.sum()


def test_evaluate_in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded block by block, with the same results,
    and again when nothing may be kept."""
    whole = evaluate(world(), START, EVERYONE, WHICH, split="train")
    monkeypatch.setattr(scoring, "_CHUNK_BYTES", 1)
    for kept, at_once in ((2**30, 8), (0, 2**20), (0, 8)):
        monkeypatch.setattr(scoring, "_CACHE_BYTES", kept)
        monkeypatch.setattr(scoring, "_AT_ONCE", at_once)
        w = world()
        for _ in range(2):
            parts = evaluate(w, START, EVERYONE, WHICH, split="train")
            np.testing.assert_array_equal(parts.correct, whole.correct)
            np.testing.assert_allclose(parts.loss, whole.loss, rtol=1e-6)


def test_evaluate_clients_without_test_data() -> None:
    got = evaluate(world(), START, np.array([1, 4]), np.array([0, 1]))
    np.testing.assert_array_equal(got.examples, [0, 0])
    np.testing.assert_array_equal(got.correct, [0, 0])
    np.testing.assert_array_equal(got.loss, [0, 0])


def test_evaluate_a_client_alone_and_in_several_rows() -> None:
    every = evaluate(world(), START, EVERYONE, WHICH)
    alone = evaluate(world(), START, np.array([3]), WHICH[3:4])
    thrice = evaluate(world(), START, np.array([3, 3, 3]), np.array([0, 1, 2]))
    assert alone.correct[0] == every.correct[3] == thrice.correct[1]
    np.testing.assert_allclose([alone.loss[0], thrice.loss[1]], every.loss[3], rtol=1e-6)
    expected = [numpy_reference.correct(w, WIDTHS, *samples(DATA, 3, "test")) for w in START]
    np.testing.assert_array_equal(thrice.correct, expected)


def test_evaluate_after_the_models_moved() -> None:
    """The engine keeps data between calls, never the models."""
    w = world()
    first = evaluate(w, START, EVERYONE, WHICH)
    second = evaluate(w, START[::-1].copy(), EVERYONE, WHICH)
    again = evaluate(world(), START[::-1].copy(), EVERYONE, WHICH)
    assert (first.loss != second.loss).any()
    np.testing.assert_array_equal(second.loss, again.loss)


def test_one_model_per_client() -> None:
    own = models(MODEL, len(SIZES))
    got = evaluate(world(), own, EVERYONE, EVERYONE)
    expected = [
        numpy_reference.correct(own[c], WIDTHS, *samples(DATA, c, "test"))
        for c in EVERYONE.tolist()
    ]
    np.testing.assert_array_equal(got.correct, expected)


def test_an_unknown_split() -> None:
    with pytest.raises(DataError, match="split"):
        evaluate(world(), START, EVERYONE, WHICH, split="validation")


def test_without_which_a_client_takes_its_lowest_loss() -> None:
    lowest = expected_losses().argmin(axis=1)
    assert len(set(lowest)) > 1
    got = train(world(), START, EVERYONE, stream=STREAM)
    same = train(world(), START, EVERYONE, lowest, stream=STREAM)
    np.testing.assert_array_equal(got.model_index, lowest)
    np.testing.assert_array_equal(got.update, same.update)


def test_a_model_without_a_finite_loss_is_never_the_lowest() -> None:
    nonfinite = np.concatenate(
        [np.full_like(START[:1], np.nan), START[:1], np.full_like(START[:1], 1e38)]
    )
    got = train(world(), nonfinite, EVERYONE, stream=STREAM)
    np.testing.assert_array_equal(got.model_index, 1)
    assert got.arrived.all()


@pytest.mark.parametrize("test", ["label_blind", "label_aware"])
def test_no_client_is_shifted(test: str) -> None:
    np.testing.assert_array_equal(
        world().run(Shifted(test=test, threshold=0.0), EVERYONE[:3]).shifted, [False, False, False]
    )


def test_an_unknown_shift_test() -> None:
    known = "label_blind, label_aware, label_quantiles"
    with pytest.raises(MethodError, match=f"{known}, got 'label_deaf'"):
        world().run(Shifted(test="label_deaf"), EVERYONE)


def test_no_client_at_all() -> None:
    no_clients = np.zeros(0, np.int64)
    w = world()
    assert train(w, START, no_clients, no_clients, stream=STREAM).update.shape == (
        0,
        START.shape[1],
    )
    assert train(w, START, no_clients, stream=STREAM).model_index.shape == (0,)
    reduced = train(w, START, no_clients, no_clients, reduce=True, stream=STREAM)
    np.testing.assert_array_equal(reduced.update, np.zeros_like(START))
    np.testing.assert_array_equal(reduced.weight, [0, 0, 0])
    assert w.run(Losses(START), no_clients).losses.shape == (0, 3)
    assert w.run(Gradients(START, no_clients), no_clients).gradients.shape == (0, START.shape[1])
    assert evaluate(w, START, no_clients, no_clients).correct.shape == (0,)
    assert w.run(Similarities(START[0], START, w.work), no_clients, STREAM).cosine.shape == (0, 3)
    assert w.run(Shifted(), no_clients).shifted.shape == (0,)
    w.run(Note(), no_clients)
    w.run(Directions(START), no_clients)
    assert w.ledger.total() == (0, 0)


def test_ledger() -> None:
    """Seven clients, three models: a model down per row, all three where the client chooses, an
    update up per row."""
    w = world()
    train(w, START, EVERYONE, WHICH, stream=STREAM)
    assert w.ledger.total() == (7 * BYTES, 7 * BYTES)
    train(w, START, EVERYONE[:5], stream=STREAM, reduce=True)
    w.run(Losses(START), EVERYONE[:2])
    w.run(Gradients(START, WHICH[:4]), EVERYONE[:4])
    evaluate(w, START, EVERYONE[:6], WHICH[:6])
    w.run(Directions(START[:2]), EVERYONE[:3])
    # Clients make the model, and have the directions.
    w.run(Similarities(START[0], START, w.work), EVERYONE, STREAM)
    assert w.ledger.down == {
        "train": (7 + 5 * 3) * BYTES,
        "losses": 2 * 3 * BYTES,
        "gradients": 4 * BYTES,
        "evaluate": 6 * BYTES,
        "send": 3 * 2 * BYTES,
    }
    up = {"train": (7 + 5) * BYTES, "losses": 0, "gradients": 4 * BYTES, "evaluate": 0, "send": 0}
    assert w.ledger.up == up


def test_traffic_between_servers_is_outside_the_total() -> None:
    w = world()
    w.run(Directions(START), EVERYONE[:1])
    w.ledger.between_servers("sharing", 12)
    w.ledger.between_servers("sharing", 8)
    assert w.ledger.up["servers.sharing"] == 20
    assert w.ledger.total() == (3 * BYTES, 0)


def test_scoring_has_a_separate_account() -> None:
    w = world()
    w.run(Losses(START), EVERYONE[:1])
    with w.ledger.scoring():
        evaluate(w, START, EVERYONE, WHICH)
    w.run(Losses(START), EVERYONE[:1])
    assert w.ledger.down == {"losses": 2 * 3 * BYTES, "scoring.evaluate": 7 * BYTES}
    assert w.ledger.total() == (2 * 3 * BYTES, 0)


def test_scoring_ends_with_an_error_in_it() -> None:
    w = world()
    with pytest.raises(DataError), w.ledger.scoring():
        evaluate(w, START, EVERYONE, WHICH, split="?")
    evaluate(w, START, EVERYONE, WHICH)
    assert w.ledger.total() == (7 * BYTES, 0)


def counting(data: FederatedData) -> SimulatedWorld:
    """A model of one number a that scores (a x, 0), and a feature that says which label is right
    for a > 0."""

    def apply(w: Any, x: Any, key: Any) -> Any:
        return jnp.concatenate([w * x, 0 * x], axis=1)

    return SimulatedWorld(data, as_model((lambda key: jnp.ones(1), apply), name="counting"))


def test_scores_by_hand() -> None:
    x = np.array([[1], [1], [-1], [-1], [2]], np.float32)
    y = np.array([0, 1, 1, 1, 0])
    rows = Ragged.of([np.array([0, 1, 2]), np.array([3]), np.array([4, 1])])
    got = evaluate(
        counting(FederatedData(name="hand", x=x, y=y, classes=2, train=rows, test=rows)),
        np.array([[1], [-1]], np.float32),
        np.array([2, 0, 1, 0]),
        np.array([0, 0, 1, 1]),
    )
    right = np.log1p(np.exp(-1))
    wrong = np.log1p(np.exp(1))
    np.testing.assert_array_equal(got.correct, [1, 2, 0, 1])
    np.testing.assert_array_equal(got.examples, [2, 3, 1, 3])
    by_hand = [
        (np.log1p(np.exp(-2)) + wrong) / 2,
        (2 * right + wrong) / 3,
        wrong,
        (right + 2 * wrong) / 3,
    ]
    np.testing.assert_allclose(got.loss, by_hand, rtol=1e-6)


def test_initial_model() -> None:
    w = world()
    one = w.initial(Stream(0))
    assert one.shape == (w.spec.parameters,) and one.dtype == np.float32
    np.testing.assert_array_equal(one, w.initial(Stream(0)))
    assert (one != w.initial(Stream(1))).any() and (one != w.initial(Stream(0, 1))).any()
