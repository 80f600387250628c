"""All figures have one style, also the one that is drawn without this package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedkin as fk
from fedkin.data import label_figure
from fedkin.data.federated import FederatedData, Ragged
from fedkin.reporting import style


def federation(sizes: list[int]) -> FederatedData:
    """Clients of these sizes, without test samples, of two classes."""
    rows = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    y = np.arange(sum(sizes)) % 2
    empty = Ragged.of([rows[0][:0]] * len(sizes))
    return FederatedData(
        name="some $ data",
        x=np.zeros((len(y), 1), np.float32),
        y=y,
        classes=2,
        train=Ragged.of(rows),
        test=empty,
    )


def test_the_data_figure_has_the_style_of_the_others() -> None:
    assert label_figure.STYLE == style.STYLE
    assert (label_figure.BLUE, label_figure.ORANGE) == style.COLOURS[
        :2
    ] and label_figure.FAINT == style.FAINT


def test_the_same_data_give_the_same_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        fk.data.picture(federation([3, 40]), tmp_path / name)
    for kind in ("png", "svg"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


@pytest.mark.parametrize(
    ("sizes", "panels", "words"), [([4, 4, 4], 1, "12 samples (4 each)"), ([3, 9], 2, "12 samples")]
)
def test_equal_sizes_make_room(tmp_path: Path, sizes: list[int], panels: int, words: str) -> None:
    fk.data.picture(federation(sizes), tmp_path / "a")
    drawn = (tmp_path / "a.svg").read_text()
    assert (
        words in drawn
        and ("each)" in drawn) == (panels == 1)
        and drawn.count("of a client") == panels - 1
    )
