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
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.jax import scoring
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.label_errors import LabelErrors
from fedkin.tasks.losses import Losses
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
    found = world().run(LabelErrors(START), EVERYONE).error
    np.testing.assert_allclose(found, by_hand(), rtol=1e-6)
    assert len(np.unique(found)) > 10, "models and clients differ"


def table(
    predicted: list[list[int]], actual: list[list[int]], classes: int
) -> tuple[SimulatedWorld, np.ndarray]:
    """A world in which the model of zeros predicts the given classes, sample by sample: the
    feature
        is the class."""
    guess, y = (np.concatenate(part) for part in (predicted, actual))
    rows = Ragged.of(np.split(np.arange(len(y)), np.cumsum([len(part) for part in actual])[:-1]))

    def apply(w: Any, x: Any, key: Any) -> Any:
        return -jnp.abs(jnp.arange(classes) - x) + 0 * w[0]

    data = FederatedData(
        name="table",
        x=guess[:, None].astype(np.float32),
        y=y,
        classes=classes,
        train=rows,
        test=rows,
    )
    return SimulatedWorld(
        data, as_model((lambda key: jnp.zeros(1), apply), name="table")
    ), np.zeros((1, 1), np.float32)


def test_by_hand() -> None:
    """Off by (2, 0), by 3 and by (1, -1, 2, 0): sqrt(4/2), 3 and sqrt(6/4)."""
    w, zeros = table([[2, 1], [4], [1, 0, 2, 3]], [[0, 1], [1], [0, 1, 0, 3]], 5)
    found = w.run(LabelErrors(zeros), np.arange(3)).error
    np.testing.assert_allclose(found, np.sqrt([[2], [9], [1.5]]), rtol=1e-6)


@pytest.mark.parametrize("case", [0])
def test_index_of_published_labels(oracle: Callable[[str], Any], case: int) -> None:
    vector = oracle("others")["pni"][case]
    w, zeros = table(vector["y_hat"], vector["y"], 10)
    errors = w.run(LabelErrors(zeros), np.arange(3)).error[:, 0]
    np.testing.assert_allclose(errors, vector["rmse"], rtol=1e-6)
    np.testing.assert_allclose(client_pni(errors), vector["pni_i"], rtol=1e-6)
    assert pni(errors) == pytest.approx(vector["pni"], rel=1e-6)


def test_a_perfect_model_and_one_that_is_always_one_off() -> None:
    w, zeros = table([[0, 1, 2], [2, 2]], [[0, 1, 2], [1, 3]], 4)
    np.testing.assert_array_equal(w.run(LabelErrors(zeros), np.arange(2)).error, [[0], [1]])


def test_order_company_and_several_rows() -> None:
    whole = world().run(LabelErrors(START), EVERYONE).error
    for rows in ([6, 5, 4, 3, 2, 1, 0], [2], [4, 4, 0]):
        np.testing.assert_array_equal(
            world().run(LabelErrors(START), np.array(rows)).error, whole[rows]
        )
    np.testing.assert_array_equal(
        world().run(LabelErrors(START[::-1].copy()), EVERYONE).error, whole[:, ::-1]
    )
    np.testing.assert_array_equal(
        world().run(LabelErrors(START[1:2]), EVERYONE).error, whole[:, 1:2]
    )


def test_after_other_verbs_and_other_models() -> None:
    """The layout for scoring is kept between calls; models are not."""
    w = world()
    w.run(Losses(START), EVERYONE)
    evaluate(w, START, EVERYONE, EVERYONE % 3, split="train")
    np.testing.assert_allclose(w.run(LabelErrors(START), EVERYONE).error, by_hand(), rtol=1e-6)
    np.testing.assert_allclose(
        w.run(LabelErrors(START[[2, 0]]), EVERYONE).error, by_hand()[:, [2, 0]], rtol=1e-6
    )
    losses = world().run(Losses(START), EVERYONE).losses
    np.testing.assert_array_equal(w.run(Losses(START), EVERYONE).losses, losses)


def test_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded block by block, also where nothing may be kept."""
    whole = world().run(LabelErrors(START), EVERYONE).error
    monkeypatch.setattr(scoring, "_CHUNK_BYTES", 1)
    for kept in (2**30, 0):
        monkeypatch.setattr(scoring, "_CACHE_BYTES", kept)
        w = world()
        for _ in range(2):
            np.testing.assert_array_equal(w.run(LabelErrors(START), EVERYONE).error, whole)


def test_models_go_down_and_nothing_comes_up() -> None:
    w = world()
    w.run(LabelErrors(START), EVERYONE)
    w.run(LabelErrors(START[:1]), EVERYONE[:2])
    each = 4 * (6 * 64 + 64 + 64 * 3 + 3)
    assert w.ledger.down == {"label_errors": (3 * len(SIZES) + 2) * each}
    assert w.ledger.up == {"label_errors": 0}


def test_a_client_that_drops_out_sends_nothing() -> None:
    w = world(population=Population(dropout=0.5))
    whole = world().run(LabelErrors(START), EVERYONE).error
    silent = set()
    for round in range(1, 5):
        w.begin(Stream(7, round, "scenario"))
        found = w.run(LabelErrors(START), EVERYONE).error
        lost = np.isnan(w.run(Losses(START), EVERYONE).losses).all(axis=1)
        np.testing.assert_array_equal(np.isnan(found), np.tile(lost, (3, 1)).T)
        np.testing.assert_array_equal(found[~lost], whole[~lost])
        silent.add(lost.tobytes())
    assert len(silent) > 1


def test_no_client_at_all() -> None:
    w = world()
    assert w.run(LabelErrors(START), np.zeros(0, np.int64)).error.shape == (0, 3)
    assert w.ledger.total() == (0, 0)


def test_a_model_that_is_not_finite_still_gives_a_class() -> None:
    """A class is a number from 0 up whatever the scores are, and so the error is one that classes
    can have."""
    found = world().run(LabelErrors(np.full_like(START[:1], np.nan)), EVERYONE).error
    assert ((found >= 0) & (found <= 2)).all()
