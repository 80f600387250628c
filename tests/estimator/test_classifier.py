"""The scikit-learn door: scikit-learn's own checks of a classifier, and the additions for
clients."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedkin as fk
from fedkin.core.errors import ConfigError, DataError, MethodError

SMALL = fk.Clustered(rounds=12, cohort=6, epochs=2)


# Which scikit-learn does not know.
@pytest.mark.filterwarnings("ignore:Clustered.fit was given no groups:UserWarning")
@parametrize_with_checks([SMALL])
def test_it_is_a_classifier_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def samples() -> dict[str, np.ndarray]:
    """Twelve hospitals; in the second half of them the labels are the other way round."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 5))
    groups = np.repeat([f"hospital {i:02d}" for i in range(12)], 50)
    y = np.where((x[:, 0] > 0) ^ (np.arange(600) >= 300), "ill", "well")
    return {"X": x, "y": y, "groups": groups}


@pytest.fixture(scope="module")
def fitted(samples: dict[str, np.ndarray]) -> fk.Clustered:
    return fk.Clustered("ifca", clusters=2, rounds=20, cohort=6).fit(**samples)


def test_each_client_is_served_by_its_clusters_model(
    fitted: fk.Clustered, samples: dict[str, np.ndarray]
) -> None:
    assert fitted.models_.shape[0] == 2 and fitted.classes_.tolist() == ["ill", "well"]
    assert (fitted.labels_[:6] == fitted.labels_[0]).all() and (
        fitted.labels_[6:] == 1 - fitted.labels_[0]
    ).all()
    own = fitted.predict(samples["X"], groups=samples["groups"])
    assert np.mean(own == samples["y"]) > 0.9
    # Without groups all models vote, and they disagree.
    assert fitted.score(samples["X"], samples["y"]) < 0.7
    run = fitted.run_.predict(samples["X"][:50].astype(np.float32), client="hospital 00")
    assert (run == own[:50]).all()


def test_without_clients_it_says_that_nothing_is_clustered(samples: dict[str, np.ndarray]) -> None:
    with pytest.warns(UserWarning, match=r"there is one cluster; .*fit\(X, y, groups=clients\)"):
        alone = fk.Clustered("ifca", clusters=2, rounds=1).fit(samples["X"], samples["y"])
    assert len(alone.models_) == 1
    with sklearn.config_context(enable_metadata_routing=True):
        # Warnings are errors in these tests.
        fk.Clustered("ifca", clusters=2, rounds=1).fit(**samples)


def test_probabilities_are_of_the_classes(
    fitted: fk.Clustered, samples: dict[str, np.ndarray]
) -> None:
    for groups in (None, samples["groups"]):
        probabilities = fitted.predict_proba(samples["X"], groups)
        assert probabilities.shape == (600, 2) and np.allclose(probabilities.sum(axis=1), 1)
    whole = [
        fitted.run_.predict(samples["X"].astype(np.float32), cluster=k, proba=True) for k in (0, 1)
    ]
    # Six clients each.
    assert np.allclose(fitted.predict_proba(samples["X"]), (whole[0] + whole[1]) / 2, atol=1e-6)


def test_a_new_client_is_assigned_and_remembered(samples: dict[str, np.ndarray]) -> None:
    known = samples["groups"] < "hospital 11"
    part = {name: value[known] for name, value in samples.items()}
    fitted = fk.Clustered("ifca", clusters=2, rounds=20, cohort=6).fit(**part)
    x = samples["X"][~known]
    y = samples["y"][~known]
    with pytest.raises(ValueError, match=r"client 'hospital 11' was not in fit .*assign"):
        fitted.predict(x, groups=samples["groups"][~known])
    placed = fitted.assign(x, y, "hospital 11")
    assert placed.cluster == fitted.labels_[10] == fitted.labels_[11] and placed.confidence > 0.9
    assert np.mean(fitted.predict(x, groups=samples["groups"][~known]) == y) > 0.9
    with pytest.raises(ValueError, match="was in fit already"):
        fitted.assign(x, y, "hospital 11")
    with pytest.raises(ValueError, match="label 'dead' was not in fit"):
        fitted.assign(x, np.where(y == "ill", "dead", y), "hospital 12")


@pytest.mark.parametrize("kind", [str, object])
def test_a_new_clients_name_may_be_longer(kind: type, samples: dict[str, np.ndarray]) -> None:
    groups = samples["groups"].astype(kind)
    fitted = fk.Clustered("fedavg", rounds=1).fit(samples["X"], samples["y"], groups)
    x = samples["X"][:50]
    y = samples["y"][:50]
    name = "hospital 05, children's ward"
    fitted.assign(x, y, name)
    assert fitted.groups_.tolist() == sorted({*samples["groups"].tolist(), name})
    assert fitted.predict(x, groups=np.array([name] * 50, kind)).shape == (50,)


def test_names_next_to_numbers_are_refused(samples: dict[str, np.ndarray]) -> None:
    """They would be text, in another order."""
    numbers = np.repeat([9, 10, 11], 200)
    fitted = fk.Clustered("fedavg", rounds=1).fit(samples["X"], samples["y"], numbers)
    assert fitted.run_.clients["name"].tolist() == ["9", "10", "11"]
    with pytest.raises(ValueError, match="client 'new' and the clients of fit, such as 9"):
        fitted.assign(samples["X"], samples["y"], "new")


@pytest.mark.parametrize("method", ["fedper", "local"])
def test_a_new_client_has_no_personal_model(method: str, samples: dict[str, np.ndarray]) -> None:
    fitted = fk.Clustered(method, model="mlp", rounds=1, cohort=12).fit(**samples)
    with pytest.raises(
        MethodError,
        match=f"{method} gives each client its own model, and .* not in fit has no model",
    ):
        fitted.assign(samples["X"], samples["y"], "new")


def test_a_pickle_predicts_the_same(fitted: fk.Clustered, samples: dict[str, np.ndarray]) -> None:
    again = pickle.loads(pickle.dumps(fitted))
    assert (
        again.predict(samples["X"], samples["groups"])
        == fitted.predict(samples["X"], samples["groups"])
    ).all()
    with pytest.raises(MethodError, match="was not pickled"):
        again.assign(samples["X"], samples["y"], "new")


def test_methods_and_models_may_be_objects(samples: dict[str, np.ndarray]) -> None:
    estimator = fk.Clustered(
        fk.FedAvg(), model=lambda data: fk.models.mlp(data, hidden=(8,)), rounds=2
    )
    again: Any = clone(estimator)
    fitted = again.fit(**samples)
    assert len(fitted.models_) == 1 and set(fitted.labels_) == {0}
    assert fitted.predict(samples["X"], samples["groups"]).shape == (600,)


def test_peers_have_a_model_each(samples: dict[str, np.ndarray]) -> None:
    fitted = fk.Clustered("local", rounds=4, cohort=12).fit(**samples)
    assert len(fitted.models_) == 12
    assert np.mean(fitted.predict(samples["X"], samples["groups"]) == samples["y"]) > 0.9


def test_clients_that_no_round_had_are_placed(samples: dict[str, np.ndarray]) -> None:
    fitted = fk.Clustered("ifca", clusters=2, rounds=1, cohort=4).fit(**samples)
    assert (fitted.labels_ >= 0).all() and (fitted.run_.assignment < 0).any()


def test_it_is_searched_like_any_other(samples: dict[str, np.ndarray]) -> None:
    """By its clients: scikit-learn's metadata routing hands them to the splitter, to fit and to
    score."""
    with sklearn.config_context(enable_metadata_routing=True):
        estimator: Any = fk.Clustered("ifca", clusters=2, rounds=6, cohort=12)
        estimator.set_fit_request(groups=True).set_score_request(groups=True)
        search = GridSearchCV(
            estimator, {"lr": [1e-6, 0.1]}, cv=KFold(2, shuffle=True, random_state=0)
        )
        search.fit(samples["X"], samples["y"], groups=samples["groups"])
    # Models of all clients together have 0.5.
    assert search.best_params_ == {"lr": 0.1} and search.best_score_ > 0.8
    assert len(search.best_estimator_.groups_) == 12


def test_a_pipeline_hands_the_clients_on(samples: dict[str, np.ndarray]) -> None:
    X, y, groups = (samples[name] for name in ("X", "y", "groups"))
    with sklearn.config_context(enable_metadata_routing=True):
        estimator: Any = fk.Clustered("ifca", clusters=2, rounds=3, cohort=4)
        estimator.set_fit_request(groups=True).set_score_request(groups=True)
        folds = KFold(2, shuffle=True, random_state=0)
        pipeline = make_pipeline(StandardScaler(), estimator)
        # NaN where a score fails.
        scores = cross_val_score(pipeline, X, y, cv=folds, params={"groups": groups})
    assert np.isfinite(scores).all()


def test_a_score_may_be_weighted(fitted: fk.Clustered, samples: dict[str, np.ndarray]) -> None:
    X, y, groups = (samples[name] for name in ("X", "y", "groups"))
    right = fitted.predict(X, groups=groups) == y
    assert fitted.score(X, y, groups=groups, sample_weight=right + 1e-9) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "flexfcl"}, "did you mean 'flexcfl'"),
        ({"method_options": {"k": 3}}, "k"),
        ({"model": "mcrl"}, "mclr"),
    ],
)
def test_bad_options_name_the_known_ones(
    options: dict[str, Any], message: str, samples: dict[str, np.ndarray]
) -> None:
    with pytest.raises(ConfigError, match=message):
        fk.Clustered(**options).fit(**samples)


def test_detectors_are_refused(samples: dict[str, np.ndarray]) -> None:
    with pytest.raises(MethodError, match="trains detectors"):
        fk.Clustered("athena").fit(**samples)


def test_groups_of_another_length_are_refused(samples: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="a client for each of 600 samples, got 10"):
        fk.Clustered().fit(samples["X"], samples["y"], groups=np.arange(10))


@pytest.mark.parametrize("method", ["fedem", "fedrc"])
def test_mixtures_predict_with_each_clients_shares(
    method: str, samples: dict[str, np.ndarray]
) -> None:
    model = fk.Clustered(method, clusters=2, rounds=3, cohort=12, epochs=1).fit(**samples)
    assert model.models_.shape[0] == 2 and model.membership_.shape == (12, 2)
    assert np.allclose(model.membership_.sum(axis=1), 1)
    own = samples["groups"] == "hospital 07"
    x = samples["X"][own]
    probabilities = model.predict_proba(x, groups=samples["groups"][own])
    parts = [
        model._mixture(np.eye(2)[k]).predict(x.astype(np.float32), proba=True) for k in range(2)
    ]
    by_hand = model.membership_[7, 0] * parts[0] + model.membership_[7, 1] * parts[1]
    assert np.allclose(probabilities, by_hand, atol=1e-5)
    # Not the nearest model alone.
    assert not np.allclose(probabilities, parts[model.labels_[7]], atol=1e-3)
    mean = np.mean(
        [model.predict_proba(x, groups=[name] * len(x)) for name in model.groups_], axis=0
    )
    assert np.allclose(model.predict_proba(x), mean, atol=1e-5)
    run = model.run_.predict(x.astype(np.float32), client="hospital 07", proba=True)
    assert np.allclose(run, probabilities, atol=1e-6)
    again = pickle.loads(pickle.dumps(model))
    assert np.allclose(again.predict_proba(x, groups=samples["groups"][own]), probabilities)


def test_a_new_client_of_a_mixture_gets_its_shares(samples: dict[str, np.ndarray]) -> None:
    known = samples["groups"] != "hospital 03"
    model = fk.Clustered("fedem", clusters=2, rounds=3, cohort=11, epochs=1)
    model.fit(**{name: values[known] for name, values in samples.items()})
    before = model.predict_proba(samples["X"][known], groups=samples["groups"][known])
    placed = model.assign(samples["X"][~known], samples["y"][~known], "hospital 03")
    assert model.membership_[3].tolist() == pytest.approx(np.asarray(placed.membership).tolist())
    assert len(model.labels_) == len(model.membership_) == 12
    assert np.allclose(
        model.predict_proba(samples["X"][known], groups=samples["groups"][known]), before
    )
    model.predict(samples["X"][~known], groups=samples["groups"][~known])


def test_a_client_of_a_mixture_that_no_round_had_is_placed(samples: dict[str, np.ndarray]) -> None:
    model = fk.Clustered("fedem", clusters=2, rounds=2, cohort=5, epochs=1).fit(**samples)
    # No client keeps the equal shares of the start.
    assert (np.ptp(model.membership_, axis=1) > 0).all()


def test_a_method_that_cannot_place_clients_needs_rounds_for_all(
    samples: dict[str, np.ndarray],
) -> None:
    with pytest.raises(
        MethodError,
        match=r"FeSEM .* 2 rounds of 4 clients reach only 8 of 12 clients; use cohort=6, .*'loss'",
    ):
        fk.Clustered("fesem", clusters=2, rounds=2, cohort=4).fit(**samples)
    fk.Clustered("fesem", clusters=2, rounds=2, cohort=6).fit(**samples)


MISSING: list[Any] = [None, np.nan, ""]


@pytest.mark.parametrize("missing", MISSING)
def test_a_missing_client_is_refused_before_training(
    missing: Any, samples: dict[str, np.ndarray]
) -> None:
    groups = (
        np.repeat(np.arange(12.0), 50) if missing is np.nan else samples["groups"].astype(object)
    )
    groups[[70, 71]] = missing
    model = fk.Clustered("ifca", clusters=2, rounds=2)
    with pytest.raises(DataError, match=r"groups is empty in row 70 \(2 such rows\)"):
        model.fit(samples["X"], samples["y"], groups=groups)
    assert not hasattr(model, "groups_")


def test_a_missing_client_is_refused_in_predictions(
    fitted: fk.Clustered, samples: dict[str, np.ndarray]
) -> None:
    groups = samples["groups"].astype(object)
    groups[9] = None
    for call in (fitted.predict, fitted.predict_proba):
        with pytest.raises(ValueError, match="groups is empty in row 9"):
            call(samples["X"], groups=groups)
    with pytest.raises(ValueError, match="groups is empty in row 9"):
        fitted.score(samples["X"], samples["y"], groups=groups)
    with pytest.raises(ValueError, match="group must be the name or number of a client, got nan"):
        fitted.assign(samples["X"][:50], samples["y"][:50], np.nan)


def test_masked_samples_labels_and_clients_are_refused(
    fitted: fk.Clustered, samples: dict[str, np.ndarray]
) -> None:
    model = fk.Clustered("ifca", clusters=2, rounds=2)
    mask = np.zeros((600, 5), bool)
    mask[4, 2] = True
    x = np.ma.masked_array(samples["X"], mask)
    with pytest.raises(DataError, match="X is masked in row 4, column 2"):
        model.fit(x, samples["y"], groups=samples["groups"])
    with pytest.raises(DataError, match="X is masked in row 4, column 2"):
        fitted.predict(x, groups=samples["groups"])
    with pytest.raises(DataError, match="y is masked in row 4"):
        model.fit(
            samples["X"], np.ma.masked_array(samples["y"], mask[:, 2]), groups=samples["groups"]
        )
    with pytest.raises(DataError, match="groups is masked in row 4"):
        model.fit(
            samples["X"],
            samples["y"],
            groups=np.ma.masked_array(np.repeat(np.arange(12), 50), mask[:, 2]),
        )


@pytest.mark.parametrize("as_list", [True, False])
def test_a_missing_label_is_refused_with_its_row(
    as_list: bool, samples: dict[str, np.ndarray]
) -> None:
    labels = samples["y"].astype(object)
    labels[5] = None
    y = labels.tolist() if as_list else labels
    with pytest.raises(DataError, match="the label is missing in row 5"):
        fk.Clustered("ifca", clusters=2, rounds=1).fit(samples["X"], y, groups=samples["groups"])


def test_whole_numbers_of_pandas_stay_whole(samples: dict[str, np.ndarray]) -> None:
    import pandas as pd

    groups = pd.Series(np.repeat(np.arange(1, 13), 50), dtype="Int64")
    model = fk.Clustered("ifca", clusters=2, rounds=1, cohort=12).fit(
        samples["X"], samples["y"], groups=groups
    )
    assert model.groups_.tolist() == list(range(1, 13)) and model.groups_.dtype.kind == "i"


def test_numpys_numbers_are_options(samples: dict[str, np.ndarray]) -> None:
    options = {
        "clusters": 2,
        "rounds": 2,
        "cohort": 6,
        "epochs": 1,
        "batch_size": 5,
        "lr": 0.5,
        "random_state": 1,
    }
    kinds = {int: np.int64, float: np.float32}
    numpy_options = {name: kinds[type(value)](value) for name, value in options.items()}
    plain = fk.Clustered("flexcfl", **options, method_options={"eta_g": 0.25}).fit(**samples)
    made = fk.Clustered("flexcfl", **numpy_options, method_options={"eta_g": np.float32(0.25)}).fit(
        **samples
    )
    assert made.run_.fingerprint == plain.run_.fingerprint
    assert np.array_equal(made.models_, plain.models_)
    with sklearn.config_context(enable_metadata_routing=True):
        estimator: Any = fk.Clustered("ifca", rounds=1, cohort=12)
        estimator.set_fit_request(groups=True).set_score_request(groups=True)
        folds = KFold(2, shuffle=True, random_state=0)
        search = GridSearchCV(
            estimator, {"clusters": np.arange(2, 4), "lr": np.logspace(-2, -1, 2)}, cv=folds
        )
        search.fit(samples["X"], samples["y"], groups=samples["groups"])
    assert search.best_params_["clusters"] in (2, 3)


def test_options_of_another_type_are_refused(samples: dict[str, np.ndarray]) -> None:
    with pytest.raises(ConfigError, match=r"clusters must be an integer of at least 1, got 2\.5"):
        fk.Clustered("ifca", clusters=2.5).fit(**samples)


@pytest.mark.parametrize("classes", [(1, 2), (3, 5), ("no", "yes")])
def test_a_new_clients_labels_are_the_classes_that_fit_saw(classes: tuple[Any, Any]) -> None:
    """Classes 1 and 2 are at positions 0 and 1."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2)).astype(np.float32)
    groups = np.arange(80) % 4
    is_second = (x[:, 0] > 0) ^ (groups > 1)
    y = np.array(classes)[is_second.astype(int)]
    model = fk.Clustered("ifca", clusters=2, rounds=4, cohort=4, lr=0.3).fit(x, y, groups)
    for group in range(4):
        own = groups == group
        expected = model.score(x[own], y[own], groups[own])
        model.assign(x[own], y[own], 10 + group)
        assert model.score(x[own], y[own], np.full(own.sum(), 10 + group)) >= expected


def test_clients_that_are_whole_floats_are_named_by_whole_numbers(
    samples: dict[str, np.ndarray],
) -> None:
    numbers = np.unique(samples["groups"], return_inverse=True)[1] + 1.0
    model = fk.Clustered("fedavg", rounds=1).fit(samples["X"], samples["y"], numbers)
    assert model.run_.trained.client_name(0) == "1"
    assert np.array_equal(
        model.predict(samples["X"], numbers), model.predict(samples["X"], numbers.astype(int))
    )
