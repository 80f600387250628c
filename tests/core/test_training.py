"""The settings of local training: rates of rounds and steps, class weights, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

import fedkin as fk
from fedkin.core.errors import ConfigError
from fedkin.core.schedule import Schedule
from fedkin.core.training import SGD, Adam, AdamW, LocalTraining, without_unused


def test_the_rate_of_a_round() -> None:
    work = SGD(lr=0.2, schedule=Schedule("step", every=2, gamma=0.5))
    assert [work.rate(round) for round in range(6)] == [0.2, 0.2, 0.2, 0.1, 0.1, 0.05]
    assert LocalTraining(lr=0.3).rate(7) == 0.3
    assert work.step_rates(3, 4) is None


def test_the_rates_of_steps_begin_again_with_every_call() -> None:
    work = SGD(
        lr=0.2,
        schedule=Schedule("exponential", gamma=0.5),
        step_schedule=Schedule("linear", length=4, end=0.5),
    )
    rates = work.step_rates(3, 6)
    assert rates is not None
    np.testing.assert_allclose(rates, 0.05 * np.array([1, 0.875, 0.75, 0.625, 0.5, 0.5]))


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    labels = np.array([0, 0, 0, 0, 2, 2, 3])
    counts = np.bincount(labels, minlength=5)[None]
    weights = LocalTraining(class_weights="balanced").loss_weights(counts)
    assert weights is not None
    expected = compute_class_weight("balanced", classes=np.array([0, 2, 3]), y=labels)
    np.testing.assert_allclose(weights[0, [0, 2, 3]], expected, rtol=1e-6)
    assert weights[0, [1, 4]].tolist() == [1, 1]
    assert (counts * weights).sum() == pytest.approx(len(labels))


def test_given_weights_are_the_same_for_all() -> None:
    for listed in ([1, 2.5, 3], np.array([1, 2.5, 3])):
        assert LocalTraining.from_settings({"class_weights": listed}) == SGD(
            class_weights=(1.0, 2.5, 3.0)
        )
    work = SGD(class_weights=[1, 2.5, 3])
    assert work.class_weights == (1.0, 2.5, 3.0)
    weights = work.loss_weights(np.ones((2, 3), int))
    assert weights is not None and weights.tolist() == [[1, 2.5, 3]] * 2
    assert LocalTraining().loss_weights(np.ones((2, 3), int)) is None
    work.check_classes(3, False)
    with pytest.raises(
        ConfigError,
        match=r"local\.class_weights must have one number for each of the 4 classes, got 3",
    ):
        work.check_classes(4, False)
    with pytest.raises(ConfigError, match=r"local\.label_smoothing does not apply to detectors"):
        LocalTraining(label_smoothing=0.1).check_classes(4, True)


@pytest.mark.parametrize("option", [{"label_smoothing": 0.1}, {"class_weights": "balanced"}])
def test_options_of_classes_are_refused_for_numbers(option: dict[str, Any]) -> None:
    """A loss of numbers would ignore them in PyTorch, and index classes by numbers in JAX."""
    (name,) = option
    with pytest.raises(
        ConfigError, match=rf"local\.{name} applies to labels that are classes.*huber"
    ):
        LocalTraining(**option).check_classes(1, False, numbers=True)
    data = fk.data.from_arrays(
        np.arange(8.0)[:, None], np.arange(8.0), clients=[0, 0, 0, 0, 1, 1, 1, 1], task="regression"
    )
    with pytest.raises(ConfigError, match=rf"local\.{name}"):
        fk.simulate(
            fk.FedAvg(),
            data,
            fk.models.mclr(data),
            rounds=1,
            cohort=2,
            local=LocalTraining(**option),
        )


def test_options_that_are_off_are_not_stored() -> None:
    """So that runs from before there were any are described, and sent, as they were."""
    before = [
        "epochs",
        "batch_size",
        "lr",
        "optimizer",
        "momentum",
        "mu",
        "steps",
        "partial",
        "positive",
    ]
    assert list(LocalTraining().settings()) == before
    used = AdamW(schedule={"name": "exponential", "gamma": 0.9}, clip_norm=1.0)
    assert list(used.settings()) == [*before, "weight_decay", "clip_norm", "schedule"]
    assert LocalTraining.from_settings(used.settings()) == used
    assert without_unused({"lr": 0.0, "nesterov": False, "label_smoothing": 0.1}) == {
        "lr": 0.0,
        "label_smoothing": 0.1,
    }


def test_the_makers() -> None:
    assert AdamW().weight_decay == 0.01 and AdamW().optimizer == "adamw"
    assert Adam(weight_decay=0.1) == LocalTraining(
        batch_size=32, lr=1e-3, optimizer="adam", weight_decay=0.1
    )
    assert SGD(momentum=0.9, nesterov=True).nesterov


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"weight_decay": -0.1}, "weight_decay must be a number from 0 up, got -0.1"),
        ({"clip_norm": 0}, "clip_norm must be a positive number, got 0"),
        ({"clip_norm": np.inf}, "clip_norm must be a positive number, got inf"),
        ({"label_smoothing": 1.0}, "label_smoothing must be a number in [0, 1), got 1.0"),
        ({"nesterov": True}, "nesterov needs optimizer 'sgd' with a momentum above 0"),
        ({"optimizer": "adamw", "momentum": 0.9}, "does not apply to adamw"),
        ({"optimizer": "lamb"}, "optimizer must be 'sgd', 'adam' or 'adamw', got 'lamb'"),
        (
            {"class_weights": "balancd"},
            "class_weights: unknown rule 'balancd'; did you mean 'balanced'?",
        ),
        (
            {"class_weights": [1.0, 0.0]},
            "class_weights must be 'balanced' or a number above 0 for each class",
        ),
        (
            {"class_weights": 3},
            "class_weights must be 'balanced' or a number above 0 for each class, got 3",
        ),
        (
            {"schedule": "cosine"},
            "schedule: 'cosine' needs length, the number of rounds until its end",
        ),
        (
            {"step_schedule": {"name": "step"}},
            "step_schedule: every is required by the schedule 'step'",
        ),
    ],
)
def test_refused_settings(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        LocalTraining.from_settings(given)
    assert words in str(error.value)


@pytest.mark.parametrize("make", [SGD, Adam, AdamW])
def test_an_option_that_there_is_not_is_named_with_the_nearest_one(make: Any) -> None:
    with pytest.raises(
        ConfigError, match="unknown option 'wieght_decay'; did you mean 'weight_decay'"
    ):
        make(wieght_decay=0.1)
