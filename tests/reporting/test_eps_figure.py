"""The figure of an eps study."""

from __future__ import annotations

from pathlib import Path

from fedkin.reporting.eps_figure import save
from tests.analysis.test_eps_study import of_biases


def test_the_figure_of_an_eps_study(tmp_path: Path) -> None:
    paths = save(of_biases([[0.0], [1.0], [10.0], [12.0]]), tmp_path / "eps.v2")
    assert [path.name for path in paths] == ["eps.v2.png", "eps.v2.svg"] and all(
        path.exists() for path in paths
    )
    equal = of_biases([[1.0], [1.0], [1.0]])  # no distance above zero to draw
    assert save(equal, tmp_path / "equal.png")[0].stat().st_size > 1000
