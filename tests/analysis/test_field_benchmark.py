"""The prior of an advice: results of the field's benchmark for clients that differ in the same
way."""

from __future__ import annotations

import pandas as pd
import pytest

from fedkin.analysis.advise.field_benchmark import CONCEPTS, LABELS, field_prior
from fedkin.methods import METHODS


def measured(value: float) -> pd.DataFrame:
    """Label divergence, compared with IID splits from 0.1 to 0.2."""
    row = {"value": value, "iid": 0.15, "low": 0.1, "high": 0.2, "ratio": value / 0.15}
    return pd.DataFrame([row], index=["label divergence"])


@pytest.mark.parametrize(
    ("value", "clusters", "kind"),
    [(0.3, 1, LABELS), (0.3, 4, LABELS), (0.15, 4, CONCEPTS), (0.15, 1, None)],
)
def test_the_kind_of_heterogeneity(value: float, clusters: int, kind: str | None) -> None:
    prior = field_prior(measured(value), clusters)
    assert (prior.kind if prior else None) == kind


def test_private_labels_have_no_prior() -> None:
    assert field_prior(measured(0.3).drop(index="label divergence"), 4) is None
    assert field_prior(pd.DataFrame(), 4) is None


@pytest.mark.parametrize("value", [0.3, 0.15])
def test_findings_name_methods_of_configurations(value: float) -> None:
    prior = field_prior(measured(value), 4)
    assert prior is not None and set(prior.ranks) <= set(METHODS) and len(prior.ranks) > 10
    assert (
        list(prior.ranks.values()) == sorted(prior.ranks.values())
        and min(prior.ranks.values()) >= 1
    )
    METHODS[prior.best_clustered](clusters=4)
    assert "pilots on your data take precedence" in str(prior) and next(iter(prior.ranks)) in str(
        prior
    )
