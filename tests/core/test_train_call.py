"""A training call, the part of it that some rows are, and the terms that all libraries add to a
gradient."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace

import numpy as np

from fedkin.core.randomness import Stream
from fedkin.core.train_call import Envelope, GradientTerms, MixedModel, TrainCall, shortened
from fedkin.core.training import LocalTraining

ROWS = np.array([2, 0])
RNG = np.random.default_rng(0)
TERMS = GradientTerms(RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4)), np.array([0.5, 0.0, 2.0]))
WEIGHTS = [np.ones(2), np.array([0.5]), np.array([0.1, 0.2, 0.3])]
CALL = TrainCall(
    models=RNG.normal(size=(2, 4)),
    clients=np.array([4, 2, 5]),
    model_index=np.array([1, 0, 1]),
    work=LocalTraining(epochs=np.array([1, 2, 3])),
    num_steps=np.array([1, 2, 3]),
    stream=Stream(3),
    gradient=True,
    terms=TERMS,
    trained=np.array([True, False, True, True]),
    mixed=MixedModel(RNG.normal(size=(3, 4)), np.array([0.1, 0.2, 0.3])),
    envelope=Envelope(1.5, 3, 0.2),
    weights=WEIGHTS,
)


def test_rows_of_a_call_keep_all_that_is_theirs() -> None:
    part = CALL.select(ROWS)
    np.testing.assert_array_equal(part.clients, [5, 4])
    np.testing.assert_array_equal(part.model_index, [1, 1])
    np.testing.assert_array_equal(part.num_steps, [3, 1])
    np.testing.assert_array_equal(part.work.epochs, [3, 1])
    assert part.terms is not None and part.mixed is not None and part.weights is not None
    assert CALL.mixed is not None
    selected_arrays = (*part.terms, *part.mixed)
    whole_arrays = (*TERMS, *CALL.mixed)
    for selected, whole in zip(selected_arrays, whole_arrays, strict=True):
        np.testing.assert_array_equal(selected, whole[ROWS])
    assert [weights.tolist() for weights in part.weights] == [[0.1, 0.2, 0.3], [1.0, 1.0]]


def test_values_that_all_rows_share_stay() -> None:
    part = CALL.select(ROWS)
    for name in ("models", "stream", "gradient", "trained", "envelope"):
        assert getattr(part, name) is getattr(CALL, name)


def test_options_in_use() -> None:
    given = [CALL.models, CALL.clients, CALL.model_index, CALL.work, CALL.num_steps, CALL.stream]
    plain = TrainCall(*given)
    assert plain.options == set() and plain.select(ROWS).options == set()
    assert TrainCall(*given, weights=WEIGHTS).options == {"weights"}
    assert CALL.options == {field.name for field in fields(TrainCall)[len(given) :]}


def test_terms_of_all_rows_and_of_one_by_entry() -> None:
    gradient, w = RNG.normal(size=(2, 3, 4))
    columns = TERMS.map(lambda term: term.reshape(3, -1))
    added = columns.added_to(gradient, w)
    expected = gradient + TERMS.correction + TERMS.strength[:, None] * (w - TERMS.anchor)
    np.testing.assert_array_equal(added, expected)
    entries = [slice(0, 1), slice(1, 4)]
    for row in range(3):
        by_entry = TERMS.select(row).by_entry(lambda v: [v[part] for part in entries], len(entries))
        for part, terms in zip(entries, by_entry, strict=True):
            np.testing.assert_array_equal(
                terms.added_to(gradient[row, part], w[row, part]), expected[row, part]
            )


def test_no_terms_change_nothing() -> None:
    gradient = RNG.normal(size=4)
    assert GradientTerms().added_to(gradient, gradient) is gradient
    assert GradientTerms().select(ROWS).by_entry(lambda v: [v], 1) == [GradientTerms()]


def test_a_call_for_another_process_has_the_options_that_it_had() -> None:
    """Which program trains a call follows from them, on Ray's actors as in one process."""
    plain = replace(CALL, gradient=False, terms=None, trained=None, mixed=None, envelope=None)
    assert pickle.loads(pickle.dumps(plain)).options == {"weights"}


def test_a_straggler_completes_the_same_share_of_each_training() -> None:
    """5 epochs in all, 1 at least; a task without ``work`` requests none."""
    done = np.array([10, 4, 1, 0])
    assert shortened(5, done, 10).tolist() == [5, 2, 1, 1]
    assert shortened(5, done, np.array([10, 8, 2, 1])).tolist() == [5, 2, 2, 1]
    assert shortened(5, done, 0).tolist() == [5, 5, 5, 5]
