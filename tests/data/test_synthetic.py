from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import ConfigError
from fedkin.data import synthetic
from fedkin.data.synthetic import generate

Oracle = Callable[[str], dict[str, Any]]


def counts(y: np.ndarray) -> list[int]:
    return np.bincount(y, minlength=10).tolist()


def test_the_authors_numbers(oracle: Oracle) -> None:
    known = oracle("datasets")["synthetic"]
    for case in known["cases"]:
        random = np.random.RandomState(case["np_seed"])
        x, y, sizes = generate(case["alpha"], case["beta"], case["num_user"], random)
        assert sizes.tolist() == case["sizes"] and len(y) == case["total"]
        assert (
            counts(y) == case["label_hist_all"]
            and counts(y[: sizes[0]]) == case["label_hist_user0"]
        )
        assert y[:20].tolist() == case["y0_first20"]
        # In the precision that data have.
        assert x[0, :5].tolist() == np.float32(case["x00_first5"]).tolist()
        assert np.abs(x[0, -3:]).tolist() == np.float32(case["x00_abs_last3"]).tolist()
        mean = x[: sizes[0]].mean(axis=0, dtype=np.float64)[:5]
        np.testing.assert_allclose(mean, case["mean_x_user0_first5"], rtol=1e-6)


def test_the_order_of_the_draws(oracle: Oracle) -> None:
    """The trace of the authors' draws for (1, 1): sizes, centres of models and of features, a mean,
    a model."""
    trace = oracle("datasets")["synthetic"]["rng_trace_1_1_seed0"]
    drawn: list[np.ndarray] = []

    class Recorder(np.random.RandomState):
        def normal(self, *args: Any, **kwargs: Any) -> np.ndarray:  # type: ignore[override]
            drawn.append(super().normal(*args, **kwargs))
            return drawn[-1]

    _, _, sizes = generate(1, 1, 30, Recorder(0))
    centre = drawn[0]
    spread = drawn[1]
    mean_x0 = drawn[2][0]
    W0 = drawn[3]
    b0 = drawn[4]
    assert sizes.tolist() == trace["sizes"]
    for ours, theirs in (
        (centre[:3], trace["mean_W_first3"]),
        (spread[:3], trace["B_first3"]),
        (mean_x0[:3], trace["mean_x0_first3"]),
        (W0[0], trace["W0_first_row"]),
        (b0, trace["b0"]),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_the_iid_form(oracle: Oracle) -> None:
    known = oracle("datasets")["synthetic_iid"]
    _, y, sizes = generate(0, 0, 30, np.random.RandomState(known["np_seed"]), iid=True)
    assert sizes.tolist() == known["sizes"] and counts(y) == known["label_hist_all"]


def test_the_federation(oracle: Oracle) -> None:
    case = oracle("datasets")["synthetic"]["cases"][0]
    data = synthetic(alpha=case["alpha"], beta=case["beta"], seed=case["np_seed"])
    assert (data.train.sizes + data.test.sizes).tolist() == case["sizes"]
    assert data.train.sizes.tolist() == [int(0.9 * n) for n in case["sizes"]]
    assert (data.label_counts("train") + data.label_counts("test")).sum(axis=0).tolist() == case[
        "label_hist_all"
    ]
    assert data.x.dtype == np.float32 and data.x.shape[1] == 60 and data.classes == 10


def test_same_seed_same_data_other_seed_other_data() -> None:
    one, same, other = (synthetic(clients=5, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(one.x, same.x) and np.array_equal(one.train.rows, same.train.rows)
    assert one.train.sizes.tolist() != other.train.sizes.tolist()


def test_clients_of_the_iid_form_agree() -> None:
    """One model labels all: a client's label shares are near the others', and far where every
    client has its own."""

    def disagreement(iid: bool) -> float:
        shares = synthetic(iid=iid).label_counts()
        shares = shares / shares.sum(axis=1, keepdims=True)
        return float(shares.std(axis=0).mean())

    assert disagreement(iid=True) < 0.5 * disagreement(iid=False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"clients": 0},
        {"clients": 10**10},
        {"alpha": -1.0},
        {"beta": np.nan},
        {"alpha": np.inf},
        {"seed": -1},
        {"seed": 2**32},
    ],
)
def test_impossible_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        synthetic(**wrong)


def test_options_that_mean_nothing_to_the_iid_form() -> None:
    for name in ("alpha", "beta"):
        with pytest.raises(ConfigError, match=f"{name} = 7 does not apply to synthetic with iid"):
            synthetic(iid=True, **{name: 7})  # type: ignore[arg-type]


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_alpha_changes_nothing(beta: float) -> None:
    """It moves every weight of a client by one number, so the scores of all classes move alike
    (softmax and argmax do not see it): a property of the published generator that its users should
    know of."""
    none, much = (synthetic(alpha=alpha, beta=beta, clients=8, seed=4) for alpha in (0.0, 5.0))
    assert np.array_equal(none.x, much.x) and np.array_equal(none.y, much.y)
    assert not np.array_equal(none.x, synthetic(alpha=0.0, beta=beta + 0.5, clients=8, seed=4).x)


def test_as_many_samples_of_each_client_as_asked() -> None:
    data = synthetic(clients=4, samples=10, train_fraction=0.7)
    assert data.train.sizes.tolist() == [7] * 4 and data.test.sizes.tolist() == [3] * 4
    assert data.train[1].tolist() == list(range(10, 17)) and data.test[1].tolist() == [17, 18, 19]
    with pytest.raises(ConfigError, match="samples"):
        synthetic(samples=0)
