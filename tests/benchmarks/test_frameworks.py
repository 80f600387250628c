"""The table of frameworks: the same networks everywhere, ratios by hand, and one turn in small."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import framework_peers, frameworks, peak_figure, torch_loop
from benchmarks.clients_curve import METHODS, figure
from benchmarks.frameworks import FRAMEWORKS, NETWORKS, load, own_seconds, row
from benchmarks.report import OF_FRAMEWORKS, OF_NETWORKS, OF_ROOFLINES
from benchmarks.tables import rows_in, table_in
from benchmarks.turns import federated
from benchmarks.work import clients

PAGE = Path("docs/benchmarks.md")


@pytest.mark.parametrize("name", NETWORKS)
def test_pytorchs_networks_have_the_parameters_of_fedkins(name: str) -> None:
    model = NETWORKS[name].model(federated(clients(2)))
    parameters = sum(p.numel() for p in torch_loop.network(name).parameters())
    assert parameters == model.spec.parameters


def test_a_row_has_the_median_ratio_and_its_range() -> None:
    results = {
        "versions": {"fluke": "1.2"},
        "seconds": {"CNN": {"fluke": [[0.1, 0.2], [0.2, 0.8], [0.3, 0.9]]}},
    }
    cells = row(results, "fluke", FRAMEWORKS["fluke"])
    assert cells[:2] == ["fluke", "1.2"]
    assert cells[2 + list(NETWORKS).index("CNN")] == "**3.0** (2.0-4.0)"
    assert cells.count("not measured") == len(NETWORKS) - 1
    assert own_seconds(results, "CNN") == "0.200"
    absent = row(results, "pfllib", FRAMEWORKS["pfllib"])
    assert absent[-1].startswith("does not install")


def test_frameworks_take_a_turn_in_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """A framework that fails is named, and the others are stored."""
    monkeypatch.setattr(frameworks, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(frameworks, "CLIENTS", 30)
    pythons = {"pytorch": sys.executable, "fluke": sys.executable}
    frameworks.measure("784-10", pythons, turns=1, rounds=6)
    [pair] = load()["seconds"]["784-10"]["pytorch"]
    assert min(pair) > 0 and load()["versions"]["pytorch"]
    assert "fluke" not in load()["seconds"]["784-10"]
    assert "784-10, fluke: fluke failed" in capsys.readouterr().out


def test_the_time_of_the_cores_is_refused_for_a_framework_of_several_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frameworks, "RESULTS", tmp_path / "results.json")
    pythons = {"pytorch": sys.executable, "flower": sys.executable}
    with pytest.raises(SystemExit, match="does not count the processes of flower"):
        frameworks.measure("784-10", pythons, turns=1, rounds=6, clock="core")
    assert not (tmp_path / "results.json").exists()


def test_every_round_has_a_row() -> None:
    assert set(framework_peers.PEERS) == {p for p, f in FRAMEWORKS.items() if not f.absent}


def test_the_page_has_the_stored_results() -> None:
    """The figure's bars come from the page's tables."""
    found = rows_in(PAGE, OF_FRAMEWORKS)
    results = load()
    assert all(found[f.name] == row(results, peer, f) for peer, f in FRAMEWORKS.items())
    shares = peak_figure.shares(PAGE)
    assert len(shares) == len(rows_in(PAGE, OF_NETWORKS)) + len(rows_in(PAGE, OF_ROOFLINES))
    assert all(0 < share <= 110 for share in shares.values())
    bars = peak_figure.figure(shares).axes[0].patches
    assert sorted(bar.get_width() for bar in bars) == sorted(shares.values())  # pyright: ignore


def test_a_page_without_a_table_gives_none(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- x -->\n\ntext\n")
    assert table_in(page, "x") == "" and rows_in(page, "x") == {}


def test_the_curve_has_the_medians_of_the_turns() -> None:
    seconds = {method: {"100": [0.1, 0.3, 0.2], "1000": [0.4, 0.4, 0.5]} for method in METHODS}
    lines = figure(json.loads(json.dumps(seconds))).axes[0].lines
    assert [line.get_ydata().tolist() for line in lines] == [[0.2, 0.4]] * len(METHODS)  # pyright: ignore
