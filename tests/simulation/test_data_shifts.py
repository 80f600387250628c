"""Data shifts in the simulated world: after a shift it gives the results of a world made with the
new data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import as_model, mclr
from fedkin.scenarios.population import Population
from fedkin.scenarios.swaps import ShiftedRound
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.losses import Losses
from fedkin.tasks.shift import Note, Shifted
from fedkin.tasks.similarities import Directions, Similarities
from fedkin.tasks.train import train
from tests.simulation.small_federation import EVERYONE, federation, models

DATA = federation()
MODEL = mclr(DATA)
START = models(MODEL, 3)
WORK = LocalTraining(epochs=1, batch_size=10, lr=0.05)
WHICH = np.array([2, 0, 1, 1, 2, 0, 2])
# Clients 1 and 6, of 2 and 130 samples, have changed places.
ORDER = np.array([0, 6, 2, 3, 4, 5, 1])
SCENARIO = Stream(1, 0, "scenario")
TRAIN = Stream(1, 4, "run/train")
BYTES = 4 * MODEL.spec.parameters


def exchanged(data: FederatedData) -> FederatedData:
    return data.with_rows(data.train.select(ORDER), data.test.select(ORDER))


@dataclass(frozen=True)
class RequestRound:
    """Clients 1 and 6 exchange all they have, in rounds 2 and 4."""

    def step(
        self,
        original: FederatedData,
        current: FederatedData,
        round: int,
        reachable: np.ndarray,
        stream: Stream,
    ) -> ShiftedRound:
        if round not in (2, 4):
            return current, np.zeros(current.clients, bool)
        return exchanged(current), ORDER != EVERYONE


def world(
    data: FederatedData = DATA, shift: RequestRound | None = None, **options: Any
) -> SimulatedWorld:
    return SimulatedWorld(data, MODEL, WORK, shift=shift, **options)


def moving(*rounds: int, **options: Any) -> SimulatedWorld:
    """A world in which these rounds have begun."""
    w = world(shift=RequestRound(), **options)
    for round in rounds:
        w.begin(SCENARIO.at(round))
    return w


def everything(w: SimulatedWorld) -> list[bytes]:
    """Results of every operation on the data."""
    trained = train(w, START, EVERYONE, WHICH, stream=TRAIN)
    scores = evaluate(w, START, EVERYONE, WHICH)
    answers = [
        trained.update,
        trained.examples,
        trained.loss,
        scores.correct,
        scores.examples,
        scores.loss,
    ]
    answers += [
        w.run(Losses(START), EVERYONE).losses,
        w.run(Gradients(START, WHICH), EVERYONE).gradients,
    ]
    answers += [w.run(Similarities(START[0], START[1:], WORK), EVERYONE, TRAIN).cosine]
    return [answer.tobytes() for answer in answers]


def test_every_operation_uses_the_data_of_the_round() -> None:
    """Asked before too, so that nothing may be kept from the round before."""
    w = moving(0, 1)
    before = everything(world())
    after = everything(world(exchanged(DATA)))
    assert before != after
    assert everything(w) == before
    for round, expected in ((2, after), (3, after), (4, before)):
        w.begin(SCENARIO.at(round))
        assert everything(w) == expected, round


def test_moved_clients_are_those_of_this_round_only() -> None:
    w = moving(0, 1)
    assert w.shifted_clients is not None and not w.shifted_clients.any()
    for round, expected in ((2, [1, 6]), (3, []), (4, [1, 6])):
        w.begin(SCENARIO.at(round))
        assert np.flatnonzero(w.shifted_clients).tolist() == expected


@pytest.mark.parametrize("rounds", [(3,), (0, 3), (4, 3), (3, 3)])
def test_a_round_has_the_same_data_however_one_comes_to_it(rounds: tuple[int, ...]) -> None:
    jumped = moving(*rounds)
    walked = moving(0, 1, 2, 3)
    np.testing.assert_array_equal(jumped.data.train.rows, walked.data.train.rows)
    np.testing.assert_array_equal(jumped.shifted_clients, walked.shifted_clients)


def test_without_a_shift_rounds_change_nothing() -> None:
    w = world()
    w.begin(SCENARIO.at(7))
    assert w.data is DATA and w.shifted_clients is None


# --- notes of clients, and their comparison


def test_clients_are_sent_arrays() -> None:
    w = world()
    w.run(Directions(START), EVERYONE[:5])
    assert (w.ledger.down, w.ledger.up) == ({"send": 3 * 5 * BYTES}, {"send": 0})


def test_similarities_are_cosines_of_the_updates_and_cost_nothing() -> None:
    w = world()
    work = LocalTraining(steps=7, lr=0.1)
    clients = np.array([5, 0, 3])
    found = w.run(Similarities(START[0], START, work), clients, TRAIN).cosine
    assert w.ledger.total() == (0, 0)
    update = train(w, START[:1], clients, np.zeros(3, np.int64), work=work, stream=TRAIN).update
    expected = [
        [u @ d / np.linalg.norm(u) / np.linalg.norm(d) for d in START.astype(float)] for u in update
    ]
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    "company", [[4], [4, 0, 2], [2, 4], [4, 4], [6, 5, 4, 3, 2, 1, 0]], ids=str
)
def test_a_client_finds_the_same_similarities_in_any_company(company: list[int]) -> None:
    """Bit for bit: in a federation it is alone."""
    everybody = world().run(Similarities(START[0], START, WORK), EVERYONE, TRAIN).cosine
    found = world().run(Similarities(START[0], START, WORK), np.array(company), TRAIN).cosine
    assert found.tobytes() == everybody[company].tobytes()


def test_similarities_in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    some = np.array([4, 0, 2])
    whole = world().run(Similarities(START[0], START, WORK), some, TRAIN).cosine
    monkeypatch.setattr("fedkin.core.client.CHUNK_BYTES", 1)
    parts = world().run(Similarities(START[0], START, WORK), some, TRAIN).cosine
    assert parts.tobytes() == whole.tobytes()


def test_similarities_of_clients_that_do_not_answer() -> None:
    some = world(population=Population(dropout=0.5))
    answers = ~np.isnan(some.run(Similarities(START[0], START, WORK), EVERYONE, TRAIN).cosine)
    arrived = train(some, START[:1], EVERYONE, np.zeros(7, np.int64), stream=TRAIN).arrived
    np.testing.assert_array_equal(answers, np.repeat(arrived[:, None], 3, axis=1))
    assert 0 < arrived.sum() < 7
    nonfinite = np.full_like(START[0], np.nan)
    assert np.isnan(world().run(Similarities(nonfinite, START, WORK), EVERYONE, TRAIN).cosine).all()


def test_a_direction_of_zeros_is_like_nothing_and_no_missing_answer() -> None:
    found = (
        world()
        .run(Similarities(START[0], np.stack([START[1], 0 * START[1]]), WORK), EVERYONE, TRAIN)
        .cosine
    )
    np.testing.assert_array_equal(found[:, 1], 0)
    assert (found[:, 0] != 0).all()


def test_an_update_of_zeros_has_no_similarity() -> None:
    """The model scores (a x, 0): where x is zero, a gets no gradient."""

    def apply(w: Any, x: Any, key: Any) -> Any:
        return jnp.concatenate([w * x, 0 * x], axis=1)

    rows = Ragged.of([np.array([0]), np.array([1])])
    data = FederatedData(
        name="hand",
        x=np.array([[0], [1]], np.float32),
        y=np.array([0, 0]),
        classes=2,
        train=rows,
        test=rows,
    )
    w = SimulatedWorld(data, as_model((lambda key: jnp.ones(1), apply), name="by hand"))
    found = w.run(
        Similarities(np.ones(1, np.float32), np.ones((2, 1), np.float32), WORK), np.arange(2), TRAIN
    ).cosine
    # More of a is better for label 0.
    np.testing.assert_array_equal(found, [[np.nan, np.nan], [1, 1]])


# --- shift


def flagged(w: SimulatedWorld, **options: Any) -> list[int]:
    return EVERYONE[w.run(Shifted(**options), EVERYONE).shifted].tolist()


@pytest.mark.parametrize("test", ["label_blind", "label_aware"])
def test_clients_find_their_data_shifted_until_they_note_them(test: str) -> None:
    w = moving(0, 1)
    assert flagged(w, test=test) == []
    w.begin(SCENARIO.at(2))
    assert flagged(w, test=test) == [1, 6]
    w.run(Note(), np.array([6, 3]))
    w.begin(SCENARIO.at(3))
    assert flagged(w, test=test) == [1]
    w.begin(SCENARIO.at(4))  # back to the start: client 1 never noted anything else
    assert flagged(w, test=test) == [6]


def test_the_threshold_counts_the_samples_of_the_start() -> None:
    """Client 6 loses 128 of its 130 samples, more than 0.9 of them; client 1 wins 128 where it had
    2."""
    w = moving(0, 1, 2)
    assert flagged(w, threshold=0.9) == [1, 6]
    assert flagged(w, threshold=1.0) == [1]
    assert flagged(w, threshold=64.0) == []


def test_a_resumed_world_remembers_the_clients_notes() -> None:
    walked = moving(0, 1, 2)
    walked.run(Note(), np.array([6]))
    resumed = world(shift=RequestRound())
    resumed.recall({name: array.copy() for name, array in walked.memory().items()})
    for round in (2, 3, 4):
        for w in (walked, resumed):
            w.begin(SCENARIO.at(round))
        assert flagged(resumed) == flagged(walked) == ([1] if round < 4 else [6])
