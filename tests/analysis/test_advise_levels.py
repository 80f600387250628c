"""Advice for numbers and for two classes: clusters must beat own intercepts."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fedkin as fk
from fedkin.analysis.advise.advisor import answers_levels
from fedkin.analysis.advise.heterogeneity import heterogeneity
from fedkin.analysis.advise.pilot_runs import PilotPlan, gain_words, run_pilots
from tests.analysis.test_clusters_or_levels import federation

PLAN = fk.LevelPlan(clusters=(2,), starts=2, rounds=20, rates=(0.3,))
LOCAL = fk.SGD(epochs=5, batch_size=20, lr=0.1)


@pytest.mark.parametrize(
    ("kind", "verdict", "method", "part"),
    [
        ("levels", "do not cluster", "fedavg", "bias"),
        ("clusters", "cluster", "ifca", None),
        ("alike", "do not cluster", "fedavg", None),
    ],
)
def test_the_advice_for_numbers(kind: str, verdict: str, method: str, part: str | None) -> None:
    data = federation(kind)
    advice = fk.advise(data, fk.models.mclr(data), LOCAL, levels=PLAN)
    assert advice.verdict == verdict, advice.why
    assert advice.pilots is None
    configuration = advice.configuration()
    assert configuration["method"]["name"] == method
    assert configuration.get("personal", {}).get("name") == part
    assert "own intercept" in advice.why
    summary = json.loads(json.dumps(advice.summary(), allow_nan=False))
    assert advice.levels is not None
    assert summary["levels"]["verdict"] == advice.levels.verdict
    assert advice.heterogeneity.loc["ICC of labels", "value"] > 0.1 or kind != "levels"
    if kind == "clusters":
        assert advice.clusters == 2 and configuration["method"]["clusters"] == 2


@pytest.mark.parametrize("kind", ["clusters", "alike"])
def test_models_that_are_not_linear_have_pilots_in_units_of_the_label(kind: str) -> None:
    """The gain is in percent of FedAvg's error, and a lower error is a gain."""
    data = federation(kind)
    model = fk.models.mlp(data, 8)
    plan = PilotPlan(rounds=6, cohort=data.clients, seeds=3)
    advice = fk.advise(data, model, LOCAL, max_clusters=3, pilots=plan)
    table = advice.pilots
    assert advice.levels is None and table is not None
    assert table.columns[:2].tolist() == [
        "root_mean_squared_error",
        "root_mean_squared_error_worst_decile",
    ]
    errors = table["root_mean_squared_error"]
    assert np.sign(table["gain"]).tolist() == np.sign(errors["fedavg"] - errors).tolist()
    # Gains are paired by seeds, so they are only near the gain of the means.
    gains = 100 * (1 - errors / errors["fedavg"])
    assert table["gain"].tolist() == pytest.approx(gains.tolist(), abs=1.0)
    assert gain_words(table) == "percent of its error"
    assert "no client has test samples" not in advice.why
    if kind == "clusters":
        assert advice.verdict == "cluster" and advice.clusters == 2
        assert "of fedavg's RMSE" in advice.why
    else:
        assert advice.verdict == "do not cluster"


def test_pilots_of_a_pytorch_module() -> None:
    torch = pytest.importorskip("torch", reason="needs pip install 'fedkin[torch]'")
    data = federation("clusters")
    table = run_pilots(
        data=data,
        model=fk.torch_model(lambda: torch.nn.Linear(3, 1)),
        local=LOCAL,
        clusters=2,
        plan=PilotPlan(rounds=1, cohort=4, seeds=3),
    )
    assert table.columns[0] == "root_mean_squared_error"


def test_the_labels_of_numbers_diverge_in_bins() -> None:
    """Levels are seen, alike clients are like an IID split."""
    for kind, ratio in (("levels", 1.5), ("alike", 0.0)):
        data = federation(kind)
        table = heterogeneity(data, fk.models.mclr(data), iid_splits=2)
        assert table.loc["label divergence", "ratio"] > ratio
    assert table.loc["label divergence", "ratio"] == pytest.approx(1.0, abs=0.35)
    bare = heterogeneity(data, fk.models.mclr(data), iid_splits=2, private_labels=True)
    assert not {"label divergence", "ICC of labels"} & set(bare.index)


def test_models_whose_levels_are_not_compared() -> None:
    data = federation("alike")
    assert answers_levels(data, fk.models.mclr(data))
    assert not answers_levels(data, fk.models.mlp(data, 4))
    digits = fk.data.digits(clients=8)
    assert not answers_levels(digits, fk.models.mclr(digits))
    rows = np.arange(len(data.y))
    untested = fk.data.from_arrays(data.x, data.y, clients=rows // 50, test=0.0, task="regression")
    assert not answers_levels(untested, fk.models.mclr(untested))
