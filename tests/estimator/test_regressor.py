"""The regressor of scikit-learn: scikit-learn's own checks, and the additions for clients."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, PoissonRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedkin as fk
from fedkin.core.errors import ConfigError

SMALL = fk.ClusteredRegressor(rounds=12, cohort=6, epochs=4)


# Which scikit-learn does not know.
@pytest.mark.filterwarnings("ignore:ClusteredRegressor.fit was given no groups:UserWarning")
@parametrize_with_checks([SMALL])
def test_it_is_a_regressor_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def samples() -> dict[str, np.ndarray]:
    """Twelve hospitals; in the second half of them the first feature has the opposite effect."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 3))
    groups = np.repeat([f"hospital {i:02d}" for i in range(12)], 50)
    sign = np.where(np.arange(600) < 300, 1, -1)
    y = 500 + 40 * sign * x[:, 0] + 5 * x[:, 1] + rng.normal(size=600)
    return {"X": x, "y": y, "groups": groups}


@pytest.fixture(scope="module")
def fitted(samples: dict[str, np.ndarray]) -> fk.ClusteredRegressor:
    return fk.ClusteredRegressor(clusters=2, rounds=20, cohort=6).fit(**samples)


def test_each_client_is_served_by_its_clusters_model(
    fitted: fk.ClusteredRegressor, samples: dict[str, np.ndarray]
) -> None:
    assert (fitted.labels_[:6] == fitted.labels_[0]).all()
    assert (fitted.labels_[6:] == 1 - fitted.labels_[0]).all()
    assert fitted.score(**samples) > 0.98
    # The mean of the two models has no slope in the first feature.
    assert fitted.score(samples["X"], samples["y"]) < 0.1
    whole = LinearRegression().fit(samples["X"][:300], samples["y"][:300])
    own = fitted.predict(samples["X"][:300], samples["groups"][:300])
    assert np.abs(own - whole.predict(samples["X"][:300])).max() < 5


def test_predictions_have_the_unit_of_the_labels(
    fitted: fk.ClusteredRegressor, samples: dict[str, np.ndarray]
) -> None:
    assert abs(fitted.predict(samples["X"]).mean() - samples["y"].mean()) < 5
    frame = fitted.run_.predict(samples["X"][:5].astype(np.float32), client="hospital 00")
    own = fitted.predict(samples["X"][:5], samples["groups"][:5])
    np.testing.assert_allclose(frame, own, rtol=1e-6)


def test_a_new_client_is_assigned(samples: dict[str, np.ndarray]) -> None:
    known = samples["groups"] < "hospital 11"
    part = {name: value[known] for name, value in samples.items()}
    fitted = fk.ClusteredRegressor(clusters=2, rounds=20, cohort=6).fit(**part)
    x = samples["X"][~known]
    y = samples["y"][~known]
    placed = fitted.assign(x, y, "hospital 11")
    assert placed.cluster == fitted.labels_[10] == fitted.labels_[11]
    assert fitted.score(x, y, samples["groups"][~known]) > 0.95


def test_a_pickle_predicts_the_same(
    fitted: fk.ClusteredRegressor, samples: dict[str, np.ndarray]
) -> None:
    copy = pickle.loads(pickle.dumps(fitted))
    groups = samples["groups"]
    np.testing.assert_array_equal(
        copy.predict(samples["X"], groups), fitted.predict(samples["X"], groups)
    )


def test_counts_have_a_log_link() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 2))
    y = rng.poisson(np.exp(1 + 0.5 * x[:, 0]))
    groups = np.arange(900) % 3
    fitted = fk.ClusteredRegressor("fedavg", loss="poisson", rounds=15, lr=0.01).fit(x, y, groups)
    central = PoissonRegressor(alpha=0).fit(x, y).predict(x)
    np.testing.assert_allclose(fitted.predict(x), central, rtol=0.2)
    with pytest.raises(ValueError, match="counts are 0 or more"):
        fk.ClusteredRegressor(loss="poisson").fit(x, y - 5.0, groups)


def test_a_quantile_is_above_its_share_of_labels() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 2))
    y = 100 + 10 * x[:, 0] + 5 * rng.normal(size=600)
    groups = np.repeat(np.arange(6), 100)
    high = fk.ClusteredRegressor("fedavg", loss="quantile", quantile=0.9, rounds=20)
    share = np.mean(y <= high.fit(x, y, groups).predict(x))
    assert abs(share - 0.9) < 0.05


def test_messages_begin_with_the_name_of_the_class(samples: dict[str, np.ndarray]) -> None:
    X = samples["X"]
    y = samples["y"]
    groups = samples["groups"]
    masked = np.ma.masked_array(y, np.arange(600) == 3)
    missing = [None, *groups[1:]]
    fitted = fk.ClusteredRegressor("fedavg", rounds=1).fit(X, y, groups)
    for call in (
        lambda: fk.ClusteredRegressor().fit(np.ma.masked_array(X, X > 2), y, groups),
        lambda: fk.ClusteredRegressor().fit(X, masked, groups),
        lambda: fk.ClusteredRegressor().fit(X, y, missing),
        lambda: fk.ClusteredRegressor().fit(X, y, groups[:5]),
        lambda: fitted.predict(X, missing),
        lambda: fitted.assign(X, y, None),
    ):
        with pytest.raises(ValueError, match=r"^ClusteredRegressor: "):
            call()


def test_the_score_is_r2(fitted: fk.ClusteredRegressor, samples: dict[str, np.ndarray]) -> None:
    error = samples["y"] - fitted.predict(samples["X"], samples["groups"])
    r2 = 1 - np.mean(error**2) / np.var(samples["y"])
    assert fitted.score(**samples) == pytest.approx(r2, rel=1e-9)


def test_labels_that_cannot_be(samples: dict[str, np.ndarray]) -> None:
    groups = samples["groups"]
    with pytest.raises(ValueError, match="all labels are 0"):
        fk.ClusteredRegressor(loss="poisson").fit(samples["X"], np.zeros(600), groups)
    with pytest.raises(ConfigError, match="loss = 'squared' does not apply"):
        fk.ClusteredRegressor(loss="squared").fit(**samples)
