"""The figure of who trusts whom."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.quiver import Quiver

import fedkin as fk
from fedkin.reporting.trust_graph_figure import OTHERS, cluster_colours, draw, draw_circle
from fedkin.run.metrics.trust_graph import trust_over_time
from tests.run.test_trust_graph import DATA, KINDS, TRUST, simulated

TRUTH = np.asarray(DATA.true_clusters)
WRONG = "#222222"  # the colour of a line to a neighbour of another cluster


@pytest.fixture(scope="module")
def run() -> fk.Run:
    return simulated(DATA)


@pytest.fixture(scope="module")
def unknown() -> fk.Run:
    """The same, without a truth."""
    return simulated(replace(DATA, true_clusters=None))


def lines(figure_or_axes: object) -> list[LineCollection]:
    collections = figure_or_axes.collections  # type: ignore[attr-defined]
    return [collection for collection in collections if isinstance(collection, LineCollection)]


def test_the_circle_tells_right_from_wrong() -> None:
    axes = Figure().add_subplot()
    draw_circle(axes, TRUST, KINDS)
    right, wrong = lines(axes)
    assert len(right.get_segments()) == 3 and len(wrong.get_segments()) == 3


def test_an_arrow_where_trust_is_one_way_and_none_where_it_is_mutual() -> None:
    trust = np.zeros((4, 4), bool)
    trust[0, 1] = trust[1, 0] = trust[2, 3] = True
    axes = Figure().add_subplot()
    draw_circle(axes, trust, np.zeros(4, np.int64))
    heads: Any
    (heads,) = [one for one in axes.collections if isinstance(one, Quiver)]
    assert heads.N == 1
    corner = np.array([-1.0, 0.0]), np.array([0.0, -1.0])  # peers 2 and 3 of four in a circle
    way = (corner[1] - corner[0]) / np.sqrt(2)
    np.testing.assert_allclose([heads.U[0], heads.V[0]], 0.05 * way, atol=1e-9)
    np.testing.assert_allclose(heads.get_offsets()[0], corner[1] - 0.09 * way, atol=1e-9)


def test_without_true_clusters_no_neighbour_is_wrong() -> None:
    axes = Figure().add_subplot()
    draw_circle(axes, TRUST, KINDS, False)
    assert mistakes(axes) == 0 and sum(len(part.get_segments()) for part in lines(axes)) == 6


def mistakes(axes: object) -> int:
    """Lines in the colour of neighbours of another kind."""
    return sum(
        to_hex(colour) == WRONG for part in lines(axes) for colour in np.asarray(part.get_colors())
    )


def test_colours_are_clusters_and_mistakes_are_dashed() -> None:
    axes = Figure().add_subplot()
    draw_circle(axes, TRUST, KINDS)
    dots: Any
    (dots,) = [one for one in axes.collections if isinstance(one, PathCollection)]
    of_peers = [to_hex(colour) for colour in dots.get_facecolors()]
    assert len(set(of_peers)) == 2 and WRONG not in of_peers
    right: Any
    wrong: Any
    right, wrong = lines(axes)
    source, target = np.nonzero(TRUST)
    kept = KINDS[source] == KINDS[target]
    # A line has the colour of the peer that trusts.
    assert [to_hex(one) for one in right.get_colors()] == [of_peers[i] for i in source[kept]]
    assert {to_hex(one) for one in wrong.get_colors()} == {WRONG}
    assert right.get_linestyles()[0][1] is None and wrong.get_linestyles()[0][1] is not None


def test_peers_alone_and_small_clusters_are_grey() -> None:
    clusters = np.repeat(np.arange(12), [3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 1, 1])
    colours = cluster_colours(clusters)
    assert len(set(colours[:27])) == 9 and OTHERS not in colours[:27]
    assert set(colours[27:]) == {OTHERS}
    assert cluster_colours(np.arange(3)) == [OTHERS] * 3


def test_the_picture_has_a_panel_for_each_kept_round(run: fk.Run) -> None:
    headings = [axes.get_title() for axes in draw(run).axes]
    assert headings[:3] == ["after round 1", "after round 3", "after round 6"]
    assert [axes.get_title(loc="left") for axes in draw(run).axes][3:] == ["Neighbours"]
    assert [mistakes(axes) for axes in draw(run).axes[:3]] == [
        int((trust & (TRUTH[:, None] != TRUTH)).sum())
        for trust in list(trust_over_time(run.records, len(run.assignment)).values())[1:]
    ]


def test_without_a_truth_the_picture_says_nothing_of_right_and_wrong(
    run: fk.Run, unknown: fk.Run
) -> None:
    """No lower panel, no dashed lines, though the same peers trust across apparent kinds."""
    kept = trust_over_time(unknown.records, len(unknown.assignment))
    kind = unknown.assignment
    np.testing.assert_array_equal(kept[6], trust_over_time(run.records, len(run.assignment))[6])
    assert any((trust & (kind[:, None] != kind)).any() for trust in kept.values())
    axes = draw(unknown).axes
    assert [panel.get_title() for panel in axes] == [
        "after round 1",
        "after round 3",
        "after round 6",
    ]
    assert [mistakes(panel) for panel in axes] == [0, 0, 0]
    assert [sum(len(p.get_segments()) for p in lines(panel)) for panel in axes] == [
        kept[t].sum() for t in (1, 3, 6)
    ]
    summary = unknown.summary()
    assert (
        summary["neighbour_precision"] is None
        and summary["neighbour_recall"] is None
        and summary["neighbours"] > 0
    )


def test_the_files_are_there_for_peers_only(run: fk.Run, tmp_path: Path) -> None:
    assert fk.draw(run, tmp_path / "peers") == tmp_path / "peers/figure.png"
    assert {p.name for p in (tmp_path / "peers").iterdir()} == {
        f"{name}.{ending}" for name in ("figure", "topology") for ending in ("png", "svg")
    }
    plain = fk.simulate(
        fk.FedAvg(), DATA, fk.models.mclr(DATA), rounds=1, cohort=4, out=tmp_path / "plain"
    )
    assert (
        fk.draw(plain) == tmp_path / "plain/figure.png"
        and not (tmp_path / "plain/topology.png").exists()
    )
    with pytest.raises(fk.ConfigError, match="draw needs a folder"):
        fk.draw(run)
