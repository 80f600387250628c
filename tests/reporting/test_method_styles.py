"""A method has one colour in every picture, which everybody can see."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from fedkin.analysis.ranks import rank
from fedkin.config.registry import method_title
from fedkin.methods import METHODS
from fedkin.reporting import ranks_figure, run_figure
from fedkin.reporting.html.contents import contents
from fedkin.reporting.html.paper_figures import _curves_of
from fedkin.reporting.html.read_runs import read_runs
from fedkin.reporting.method_styles import method_style, method_styles
from fedkin.reporting.seeds_figure import accuracies
from fedkin.run.run import Run
from tests.reporting.written_runs import a_run

FREQUENT = (
    *("FedAvg", "FedGroup", "IFCA", "FlexCFL", "FedProx", "PANM", "FedSim", "FeSEM"),
    *("Local", "Sattler CFL", "Ditto", "FedPer", "FedRep", "FedGrouProx"),
)
COLOURS = 14
WHITE = "#ffffff"
DARK_CARD = "#181d23"  # page.css
# Matrices for linear RGB of Machado, Oliveira and Fernandes: A Physiologically-based Model for
# Simulation of Color Vision Deficiency. IEEE TVCG 2009. Severity 1.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}


def linear(colour: str) -> np.ndarray:
    value = np.array(to_rgb(colour))
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(a: str, b: str) -> float:
    """The contrast ratio of WCAG 2."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    low, high = sorted(float(linear(colour) @ weights) for colour in (a, b))
    return (high + 0.05) / (low + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIELAB of linear RGB."""
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    x = to_xyz @ rgb.clip(0, 1) / np.array([0.9505, 1, 1.089])
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_methods_of_the_library_look_different() -> None:
    looks = {method_style(name) for name in METHODS}
    assert len(looks) == len(METHODS)
    assert len({method_style(name).light for name in FREQUENT}) == COLOURS


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_have_contrast_and_differ_for_all_kinds_of_colour_vision(theme: str) -> None:
    card = {"light": WHITE, "dark": DARK_CARD}[theme]
    colours = {getattr(method_style(name), theme) for name in METHODS}
    assert len(colours) == COLOURS
    assert min(contrast(colour, card) for colour in colours) >= 3
    for kind, matrix in VISION.items():
        points = [lab(matrix @ linear(colour)) for colour in colours]
        least = min(np.linalg.norm(a - b) for a, b in itertools.combinations(points, 2))
        assert least > 12, kind  # a difference of 2.3 is just noticeable


def test_a_style_comes_from_the_name_alone() -> None:
    for name in METHODS:
        title = method_title(name)
        assert method_style(name) == method_style(title) == method_style(f"{title} (K = 12)")
    assert method_style("FL+HC") == method_style("flhc")  # signs and spaces do not count
    assert method_style("Sattler CFL") == method_style("sattler")
    both = [method_styles(names) for names in (["IFCA", "FedAvg"], ["PANM", "FedAvg", "IFCA"])]
    assert both[0]["IFCA"] == both[1]["IFCA"] and both[0]["FedAvg"] == both[1]["FedAvg"]


def test_methods_of_one_papers_comparison_have_different_colours() -> None:
    fedgroup = ("FedAvg", "FedProx", "IFCA", "FeSEM", "FedGroup", "FedGrouProx")
    planted = ("FlexCFL", "FL+HC", "IFCA", "Sattler CFL", "FeSEM")
    for names in (fedgroup, planted):
        assert len({method_style(name).light for name in names}) == len(names)


def test_variants_with_consecutive_numbers_have_different_colours() -> None:
    styles = [method_style(f"mine, depth {depth}") for depth in range(2, 8)]
    assert len({style.light for style in styles}) == 6


def test_methods_of_one_colour_have_different_dashes() -> None:
    names = [f"FedGroup (K = {clusters})" for clusters in range(2, 9)]
    styles = method_styles(names).values()
    assert {style.light for style in styles} == {method_style("fedgroup").light}
    assert len({style.dash for style in styles}) == 7


def colour_of_lines(figure: Figure, colour: str) -> bool:
    return any(to_hex(line.get_color()) == colour.lower() for line in figure.axes[0].lines)


def test_every_picture_uses_this_colour() -> None:
    rows = np.tile([0, 0, 1], (4, 1))

    def one(method: str) -> Run:
        return a_run(rows, method, discrepancy_mean=[0.5] * 4)

    run = replace(one("flexcfl"), against={"ifca": one("ifca")})
    reordered = replace(one("ifca"), against={"flexcfl": one("flexcfl")})
    ifca = method_style("ifca")
    for shown in (run, reordered):
        made: dict[str, Any] = contents(read_runs(shown))
        assert made["styles"]["IFCA"] == ifca._asdict()
        paper = Figure()
        _curves_of(paper, made["accuracy"][0], "accuracy", made["score"])
        assert colour_of_lines(paper, ifca.light)
        assert colour_of_lines(run_figure.draw(shown), ifca.light)
    curves = {name: np.full((3, 4), 0.5) for name in ("FedSim", "IFCA (K = 2)")}
    axes = Figure().add_subplot()
    accuracies(axes, curves)
    assert [line.get_color() for line in axes.lines] == [
        method_style("fedsim").light,
        ifca.light,
    ]
    scores = pd.DataFrame({"IFCA": [0.9] * 5, "FedAvg": [0.5] * 5, "FedProx": [0.6] * 5})
    assert colour_of_lines(ranks_figure.draw(rank(scores)), ifca.light)
