"""Root mean square errors of predicted class numbers, and the index that FedSim makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.measures.pni import client_pni, pni
from fedkin.models import as_model, mlp
from fedkin.scenarios.population import Population
from fedkin.simulation import scoring
from fedkin.simulation.engine import SimulatedWorld
from tests.simulation import numpy_reference
from tests.simulation.small_federation import EVERYONE, SIZES, federation, models, samples

WIDTHS = (6, 64, 3)
DATA = federation()
MODEL = mlp(DATA, hidden=64)
START = models(MODEL, 3)


def world(**options: Any) -> SimulatedWorld:
    return SimulatedWorld(DATA, MODEL, **options)


def by_hand() -> np.ndarray:
    """[client, model], from NumPy's own predictions."""
    found = np.zeros((len(EVERYONE), len(START)))
    for client in EVERYONE.tolist():
        x, y = samples(DATA, client)
        for k, w in enumerate(START):
            predicted = numpy_reference.forward(w, WIDTHS, x)[-1].argmax(axis=1)
            found[client, k] = np.sqrt(np.mean((predicted - y) ** 2))
    return found


def test_several_models_at_once() -> None:
    found = world().label_errors(START, EVERYONE)
    np.testing.assert_allclose(found, by_hand(), rtol=1e-6)
    assert len(np.unique(found)) > 10, "models and clients differ"


def table(predicted: list[list[int]], actual: list[list[int]], classes: int) -> tuple[SimulatedWorld, np.ndarray]:
    """A world in which the model of zeros predicts what is written, sample by sample: the feature says what."""
    guess, y = (np.concatenate(part) for part in (predicted, actual))
    rows = Ragged.of(np.split(np.arange(len(y)), np.cumsum([len(part) for part in actual])[:-1]))

    def apply(w: Any, x: Any, key: Any) -> Any:
        return -jnp.abs(jnp.arange(classes) - x) + 0 * w[0]

    data = FederatedData("table", guess[:, None].astype(np.float32), y, classes, rows, rows)
    return SimulatedWorld(data, as_model((lambda key: jnp.zeros(1), apply), name="table")), np.zeros((1, 1), np.float32)


def test_by_hand() -> None:
    """Off by (2, 0), by 3 and by (1, -1, 2, 0): sqrt(4/2), 3 and sqrt(6/4)."""
    w, zeros = table([[2, 1], [4], [1, 0, 2, 3]], [[0, 1], [1], [0, 1, 0, 3]], 5)
    found = w.label_errors(zeros, np.arange(3))
    np.testing.assert_allclose(found, np.sqrt([[2], [9], [1.5]]), rtol=1e-6)


@pytest.mark.parametrize("case", [0])
def test_index_of_published_labels(oracle: Callable[[str], Any], case: int) -> None:
    vector = oracle("others")["pni"][case]
    w, zeros = table(vector["y_hat"], vector["y"], 10)
    errors = w.label_errors(zeros, np.arange(3))[:, 0]
    np.testing.assert_allclose(errors, vector["rmse"], rtol=1e-6)
    np.testing.assert_allclose(client_pni(errors), vector["pni_i"], rtol=1e-6)
    assert pni(errors) == pytest.approx(vector["pni"], rel=1e-6)


def test_a_perfect_model_and_one_that_is_always_one_off() -> None:
    w, zeros = table([[0, 1, 2], [2, 2]], [[0, 1, 2], [1, 3]], 4)
    np.testing.assert_array_equal(w.label_errors(zeros, np.arange(2)), [[0], [1]])


def test_order_company_and_several_rows() -> None:
    whole = world().label_errors(START, EVERYONE)
    for rows in ([6, 5, 4, 3, 2, 1, 0], [2], [4, 4, 0]):
        np.testing.assert_array_equal(world().label_errors(START, np.array(rows)), whole[rows])
    np.testing.assert_array_equal(world().label_errors(START[::-1].copy(), EVERYONE), whole[:, ::-1])
    np.testing.assert_array_equal(world().label_errors(START[1:2], EVERYONE), whole[:, 1:2])


def test_after_other_verbs_and_other_models() -> None:
    """What is laid out for scoring is kept between calls; models are not."""
    w = world()
    w.losses(START, EVERYONE)
    w.evaluate(START, EVERYONE, EVERYONE % 3, split="train")
    np.testing.assert_allclose(w.label_errors(START, EVERYONE), by_hand(), rtol=1e-6)
    np.testing.assert_allclose(w.label_errors(START[[2, 0]], EVERYONE), by_hand()[:, [2, 0]], rtol=1e-6)
    losses = world().losses(START, EVERYONE)
    np.testing.assert_array_equal(w.losses(START, EVERYONE), losses)


def test_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded block by block, also where nothing may be kept."""
    whole = world().label_errors(START, EVERYONE)
    monkeypatch.setattr(scoring, "_CHUNK_BYTES", 1)
    for kept in (2**30, 0):
        monkeypatch.setattr(scoring, "_CACHE_BYTES", kept)
        w = world()
        for _ in range(2):
            np.testing.assert_array_equal(w.label_errors(START, EVERYONE), whole)


def test_models_go_down_and_nothing_comes_up() -> None:
    w = world()
    w.label_errors(START, EVERYONE)
    w.label_errors(START[:1], EVERYONE[:2])
    each = 4 * (6 * 64 + 64 + 64 * 3 + 3)
    assert w.ledger.down == {"label_errors": (3 * len(SIZES) + 2) * each}
    assert w.ledger.up == {"label_errors": 0}


def test_who_drops_out_tells_nothing() -> None:
    w = world(population=Population(dropout=0.5))
    whole, silent = world().label_errors(START, EVERYONE), set()
    for round in range(1, 5):
        w.begin(Stream(7, round, "scenario"))
        found = w.label_errors(START, EVERYONE)
        lost = np.isnan(w.losses(START, EVERYONE)).all(axis=1)
        np.testing.assert_array_equal(np.isnan(found), np.tile(lost, (3, 1)).T)
        np.testing.assert_array_equal(found[~lost], whole[~lost])
        silent.add(lost.tobytes())
    assert len(silent) > 1


def test_no_client_at_all() -> None:
    w = world()
    assert w.label_errors(START, np.zeros(0, np.int64)).shape == (0, 3)
    assert w.ledger.total() == (0, 0)


def test_a_model_that_is_not_finite_still_gives_a_class() -> None:
    """A class is a number from 0 up whatever the scores are, and so the error is one that classes can have."""
    found = world().label_errors(np.full_like(START[:1], np.nan), EVERYONE)
    assert ((found >= 0) & (found <= 2)).all()
