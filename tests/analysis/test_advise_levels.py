"""Advice for numbers and for two classes: clusters must beat own intercepts."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fedkin as fk
from fedkin.analysis.advise.advisor import answers_levels
from fedkin.analysis.advise.heterogeneity import heterogeneity
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
