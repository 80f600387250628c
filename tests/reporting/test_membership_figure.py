"""The figure and the columns of soft membership."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedkin as fk
from fedkin.data.federated import FederatedData
from fedkin.reporting.membership_figure import draw, save
from fedkin.run.metrics.soft_membership import by_largest_share, memberships


@pytest.fixture(scope="module")
def run(tiny: FederatedData, tmp_path_factory: pytest.TempPathFactory) -> fk.Run:
    local = fk.SGD(epochs=1, batch_size=5, lr=0.5)
    out = tmp_path_factory.mktemp("soft") / "run"
    return fk.simulate(
        fk.FedEM(clusters=2),
        tiny,
        fk.models.mclr(tiny),
        rounds=3,
        cohort=12,
        local=local,
        out=out,
        callbacks=fk.Progress(False),
    )


def test_columns_are_the_states_shares(run: fk.Run) -> None:
    columns = run.clients[["membership_0", "membership_1"]].to_numpy()
    shares = memberships(run.state)
    assert shares is not None
    np.testing.assert_array_equal(columns, shares[run.clients["client"]])
    np.testing.assert_allclose(columns.sum(axis=1), 1, rtol=1e-6)
    assert (run.clients["cluster"] == columns.argmax(axis=1)).all()


def test_clients_are_ordered_by_cluster_and_share() -> None:
    shares = np.array([[0.1, 0.9], [0.6, 0.4], [0.3, 0.7], [0.8, 0.2]])
    assert by_largest_share(shares).tolist() == [3, 1, 0, 2]


def test_every_client_is_a_full_bar(run: fk.Run) -> None:
    axes = draw(run).axes[0]
    heights = np.array(
        [
            [bar.get_height() for bar in bars]  # type: ignore[attr-defined]
            for bars in axes.containers
        ]
    )
    assert heights.shape == (2, (run.assignment >= 0).sum())
    np.testing.assert_allclose(heights.sum(axis=0), 1, rtol=1e-6)


def test_hard_membership_has_no_figure(run: fk.Run, run_folder: Path, tmp_path: Path) -> None:
    assert [path.name for path in save(run, tmp_path)] == ["membership.png", "membership.svg"]
    hard = fk.Run.load(run_folder)
    assert save(hard, tmp_path / "none") == [] and not hard.clients.filter(like="membership").size
