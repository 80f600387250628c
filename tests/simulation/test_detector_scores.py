"""Detectors scored together, as one classifier, and one by one, against NumPy; and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedkin.core.errors import ModelError
from fedkin.core.randomness import Stream
from fedkin.core.task import Task
from fedkin.models import mclr
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.classes import Classes
from fedkin.tasks.detections import Detections
from fedkin.tasks.evaluate import Evaluate, evaluate
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.label_errors import LabelErrors
from fedkin.tasks.losses import Losses
from fedkin.tasks.similarities import Similarities
from fedkin.tasks.train import Train
from tests.simulation import numpy_detectors
from tests.simulation.numpy_detectors import linear, small, widths
from tests.simulation.small_federation import EVERYONE, models, samples
from tests.simulation.test_detectors import (
    BYTES,
    CLIENTS,
    DATA,
    POSITIVE,
    ROWS,
    STREAM,
    WHICH,
    WORK,
    trained,
    world,
)

# --- the combined classifier

TOGETHER = np.array(
    [[0, 1, 2], [2, 1, 0], [0, 1, 2], [1, 1, 2], [0, 0, 0], [0, -1, 2], [2, -1, -1]]
)


def by_hand(model_index: np.ndarray, client: int, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Scores of every class, -inf without a detector, and the labels."""
    x, y = samples(DATA, client, split)
    start = models(small(), 3)
    columns = [
        numpy_detectors.scores(start[k], widths(small()), x) if k >= 0 else np.full(len(x), -np.inf)
        for k in model_index
    ]
    return np.stack(columns, axis=1), y


@pytest.mark.parametrize("split", ["test", "train"])
def test_the_highest_score_is_the_class(split: str) -> None:
    got = evaluate(world(small()), models(small(), 3), EVERYONE, TOGETHER, split=split)
    for row, client in enumerate(EVERYONE.tolist()):
        scores, y = by_hand(TOGETHER[row], client, split)
        assert got.examples[row] == len(y)
        assert got.correct[row] == np.sum(scores.argmax(axis=1) == y)
    assert 0 < got.correct.sum() < got.examples.sum()


def test_the_loss_is_the_cross_entropy_of_the_scores() -> None:
    rows = [row for row in range(5) if DATA.test.sizes[row]]  # where every class has a detector
    got = evaluate(world(small()), models(small(), 3), EVERYONE, TOGETHER)
    for row in rows:
        scores, y = by_hand(TOGETHER[row], row, "test")
        expected = np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), y])
        np.testing.assert_allclose(got.loss[row], expected, rtol=1e-5)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_class_without_a_detector_is_never_chosen(missing: int) -> None:
    """However low the scores of the others are;
    a client that has that class only is never right."""
    start = np.zeros((1, 7), np.float32)
    start[:, 6] = -1e30
    model_index = np.where(np.arange(3) == missing, -1, 0)
    got = evaluate(world(), start, EVERYONE, np.tile(model_index, (7, 1)))
    lowest = 0 if missing else 1  # the first of equals
    expected = [int(np.sum(samples(DATA, c, "test")[1] == lowest)) for c in EVERYONE.tolist()]
    np.testing.assert_array_equal(got.correct, expected)


def test_a_set_of_detectors_is_scored_the_same_in_any_company() -> None:
    whole = evaluate(world(small()), models(small(), 3), EVERYONE, TOGETHER)
    alone = evaluate(world(small()), models(small(), 3), np.array([6, 3]), TOGETHER[[6, 3]])
    np.testing.assert_array_equal(alone.correct, whole.correct[[6, 3]])
    np.testing.assert_allclose(alone.loss, whole.loss[[6, 3]], rtol=1e-6)


def test_scoring_sends_each_client_every_detector_that_one_of_its_classes_has_once() -> None:
    w = world(small())
    evaluate(w, models(small(), 3), EVERYONE, TOGETHER)
    sent = [len(set(own[own >= 0])) for own in TOGETHER]
    assert sent == [3, 3, 3, 2, 1, 2, 1]
    assert w.ledger.down == {"evaluate": sum(sent) * 4 * small().spec.parameters}


# --- histograms and classes


@pytest.mark.parametrize("split", ["train", "test"])
def test_histograms_of_scores(split: str) -> None:
    """64 bins of one half from -16 to 16, the outer ones open; NumPy counts. Five times as long,
    weights reach out."""
    start = 5 * models(linear(), 3)
    w = world()
    got = w.run(Detections(start, WHICH, POSITIVE, split=split), CLIENTS).counts
    assert got.shape == (len(ROWS), 2, 64)
    for row, client in enumerate(CLIENTS.tolist()):
        x, y = samples(DATA, client, split)
        found = np.clip(numpy_detectors.scores(start[WHICH[row]], (6, 1), x), -15.9, 15.9)
        for side, chosen in enumerate((y == POSITIVE[row], y != POSITIVE[row])):
            np.testing.assert_array_equal(
                got[row, side], np.histogram(found[chosen], 64, (-16, 16))[0]
            )
    assert got[:, :, [0, 63]].any(), "some are beyond the edges"
    assert w.ledger.total() == ((len(ROWS) - 1) * BYTES, 0), (
        "client 3 gets detector 1 once, for two of its rows"
    )


def test_one_that_gives_no_answer_has_no_histogram() -> None:
    w = world(population=Population(dropout=0.5))
    whole = world()
    w.begin(Stream(3, 2, "scenario"))
    silent = ~trained(w).arrived
    got = w.run(Detections(models(linear(), 3), WHICH, POSITIVE), CLIENTS).counts
    assert 0 < silent.sum() < len(ROWS)
    assert (got[silent] == -1).all()
    np.testing.assert_array_equal(
        got[~silent],
        whole.run(Detections(models(linear(), 3), WHICH, POSITIVE), CLIENTS).counts[~silent],
    )


def test_a_detector_that_is_broken_still_has_a_histogram() -> None:
    start = np.full((1, 7), np.nan, np.float32)
    got = world().run(Detections(start, np.array([0]), np.array([1])), np.array([6])).counts
    own = samples(DATA, 6)[1] == 1
    np.testing.assert_array_equal(got.sum(axis=2)[0], [np.sum(own), np.sum(~own)])


def test_without_rows_there_are_no_histograms() -> None:
    no_rows = ROWS[:0]
    assert world().run(Detections(models(linear(), 3), no_rows, no_rows), no_rows).counts.shape == (
        0,
        2,
        64,
    )


def test_histograms_of_no_sample_are_empty() -> None:
    task = Detections(models(linear(), 3), np.array([0, 1]), np.array([0, 1]), split="test")
    got = world().run(task, np.array([1, 4])).counts
    np.testing.assert_array_equal(got, np.zeros((2, 2, 64)))


def test_classes_are_those_of_the_training_samples() -> None:
    w = world()
    expected = [np.isin(np.arange(3), samples(DATA, c)[1]) for c in (6, 0, 1)]
    assert not np.all(expected)
    np.testing.assert_array_equal(w.run(Classes(), np.array([6, 0, 1])).classes, expected)
    assert w.ledger.total() == (0, 0), "a bit for each class is not counted"


# --- refusals


def refuses(w: SimulatedWorld, task: Task, clients: np.ndarray) -> None:
    with pytest.raises(ModelError, match=r"detector|score for every class"):
        w.run(task, clients, STREAM)
    assert w.ledger.total() == (0, 0)


START = models(linear(), 3)
UNDEFINED = {
    "losses": Losses(START),
    "label_errors": LabelErrors(START),
    "gradients": Gradients(START, WHICH[:2]),
    "similarities": Similarities(START[0], START, WORK),
    "gradient": Train(START, replace(WORK, positive=WHICH[:2]), WHICH[:2], gradient=True),
}


@pytest.mark.parametrize("task", UNDEFINED.values(), ids=UNDEFINED.keys())
def test_tasks_undefined_for_detectors_are_refused(task: Task) -> None:
    refuses(world(), task, EVERYONE[:2])


def test_detectors_need_a_class_each_and_cannot_be_chosen_by_loss() -> None:
    refuses(world(), Train(START, WORK, WHICH), CLIENTS)
    refuses(world(), Train(START, replace(WORK, positive=POSITIVE)), CLIENTS)


def test_other_models_have_no_use_for_a_class() -> None:
    w = world(mclr(DATA))
    start = models(w.model, 3)
    refuses(w, Train(start, replace(WORK, positive=POSITIVE), WHICH), CLIENTS)
    refuses(w, Detections(start, WHICH, POSITIVE), CLIENTS)


def test_detectors_are_scored_together_and_other_models_one_by_one() -> None:
    refuses(world(), Evaluate(START, np.zeros(7, np.int64)), EVERYONE)
    w = world(mclr(DATA))
    refuses(w, Evaluate(models(w.model, 3), TOGETHER), EVERYONE)


def test_a_table_that_has_not_all_classes_is_refused() -> None:
    with pytest.raises(ModelError, match="class"):
        evaluate(world(), models(linear(), 3), EVERYONE, TOGETHER[:, :2])


@pytest.mark.parametrize("detects", [True, False])
def test_a_model_with_another_number_of_scores_is_refused(detects: bool) -> None:
    model = linear() if detects else mclr(DATA)
    with pytest.raises(ModelError, match="scores of shape"):
        world(replace(model, spec=replace(model.spec, detects=not detects)))
