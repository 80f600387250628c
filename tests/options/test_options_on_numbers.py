"""Each option of a run with labels that are numbers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError
from fedkin.data.federated import FederatedData

CLIENTS = 12
SLOPES = np.array([2.0, -1.0, 0.5])


@cache
def data(given: bool = False) -> FederatedData:
    """Twelve clients with one linear relation. Statistics of their labels are computed or given."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(CLIENTS * 25, 3)).astype(np.float32)
    y = 40 + 5 * (x @ SLOPES + 0.2 * rng.normal(size=len(x)))
    return fk.data.from_arrays(
        x,
        y,
        clients=np.repeat(np.arange(CLIENTS), 25),
        task="regression",
        label_scale_from={"mean": 40.0, "scale": 11.0} if given else None,
    )


def trained(
    *options: Any,
    method: Any = None,
    hidden: tuple[int, ...] = (),
    given: bool = False,
    **arguments: Any,
) -> Any:
    known = data(given)
    model = fk.models.mlp(known, hidden=hidden) if hidden else fk.models.mclr(known)
    settings: dict[str, Any] = {
        "rounds": 6,
        "cohort": CLIENTS,
        "local": fk.LocalTraining(epochs=4, batch_size=5, lr=0.05),
        **arguments,
    }
    return fk.simulate(fk.FedAvg(), known, model, options=options, **settings)


def rmse(run: Any) -> float:
    return run.records[-1]["root_mean_squared_error"]


SD = 5 * np.sqrt((SLOPES**2).sum() + 0.04)  # of the label
NOISE = 5 * 0.2  # standard deviation of what cannot be predicted


@cache
def plain() -> Any:
    return trained()


def test_the_plain_run_reaches_the_noise() -> None:
    assert rmse(plain()) < 1.5 * NOISE


def test_a_robust_rule_withstands_attackers() -> None:
    attack = fk.Byzantine("stretch", share=0.25)
    # The mean of three updates times -10 and nine others points away.
    assert rmse(trained(attack, rounds=3)) > 1.2 * rmse(
        trained(attack, fk.RobustAggregation("median", byzantine=0.3), rounds=3)
    )


def test_late_replies_are_used() -> None:
    run = trained(fk.LateReplies(max_age=2, share=0.4))
    assert run.models.tobytes() != plain().models.tobytes()
    assert rmse(run) < 2 * NOISE


def test_secret_sums_are_the_sums() -> None:
    np.testing.assert_allclose(
        trained(fk.SecretSums(examples_cap=30)).models, plain().models, atol=2e-3
    )


def test_a_private_run_states_its_epsilon_and_learns() -> None:
    private = fk.ClientDP(
        noise_multiplier=0.5, clip=0.3, delta=1e-3, testing_only_seeded_noise=True
    )
    cohort = fk.Cohort(CLIENTS, selection="poisson")
    run = trained(private, given=True, cohort=cohort, rounds=10)
    assert run.summary()["privacy"]["epsilon"] > 0
    assert rmse(run) < SD


@pytest.mark.parametrize(
    "part", [fk.PersonalHead(head_epochs=1), fk.PersonalModel()], ids=["head", "model"]
)
def test_personal_parts_train(part: Any) -> None:
    assert rmse(trained(part, hidden=(4,), rounds=10)) < 0.5 * SD


def test_a_server_optimizer_that_only_adds_is_the_mean() -> None:
    same = trained(fk.FedAvgM(lr=1.0, beta=0.0))
    np.testing.assert_allclose(same.models, plain().models, atol=1e-6)
    faster = trained(fk.FedAvgM(lr=1.0, beta=0.5), rounds=2)
    assert rmse(faster) < rmse(trained(rounds=2))


@pytest.mark.parametrize("option", [fk.FedAdam(lr=0.1), fk.FedYogi(lr=0.1), fk.FedAdagrad(lr=0.3)])
def test_adaptive_server_optimizers_learn(option: Any) -> None:
    assert rmse(trained(option, rounds=20)) < 0.5 * SD


@pytest.mark.parametrize(
    "option",
    [
        fk.SymmetricFlips(0.2),
        fk.PairFlips(0.2),
        fk.Byzantine("label_flip"),
        fk.Byzantine("backdoor"),
    ],
    ids=["symmetric", "pairs", "label_flip", "backdoor"],
)
def test_options_about_classes_are_refused(option: Any) -> None:
    with pytest.raises(ConfigError, match="class"):
        trained(option, rounds=1)


def test_private_scores_are_refused() -> None:
    private = fk.ClientDP(noise_multiplier=1.0, delta=1e-3, scores=1.0)
    with pytest.raises(ConfigError, match=r"no upper bound; leave out privacy\.scores"):
        trained(private, given=True, cohort=fk.Cohort(CLIENTS, selection="poisson"))


def test_noisy_features_raise_the_error() -> None:
    assert rmse(trained(fk.GaussianNoise(level=4.0))) > rmse(plain())
