"""A report of what there is: finished, unfinished, damaged, of one run, of seeds, of a comparison."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.run import Config, from_dict
from fedkin.core.errors import CheckpointError, ConfigError, DataError
from fedkin.data.federated import FederatedData
from fedkin.measures.cosine import cosine
from fedkin.reporting.html.client_similarity import FILE, portrait_of
from fedkin.reporting.html.contents import contents
from fedkin.reporting.html.page import in_script
from fedkin.reporting.html.read_runs import subject_of
from fedkin.run.simulate import execute
from tests.reporting.written_runs import a_run, unfinished, wandering

DIGITS: dict[str, dict[str, Any]] = {
    "data": {"name": "digits", "clients": 8},
    "method": {"name": "ifca", "clusters": 2},
    "local": {"epochs": 1},
    "run": {"rounds": 2, "cohort": 4},
}
PICTURES = {"accuracy", "clusters", "ribbon", "bytes", "map", "similarity", "labels"}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small finished run."""
    folder = tmp_path_factory.mktemp("runs") / "a"
    execute(from_dict(DIGITS), out=folder)
    return folder


def told(page: Path) -> dict[str, Any]:
    """The contents inside a page."""
    found = re.search(r'<script type="application/json" id="contents">(.*?)</script>', page.read_text())
    assert found
    return json.loads(found[1], parse_constant=pytest.fail)


# --- a page


def test_a_run_becomes_one_file_that_asks_for_nothing(kept: Path) -> None:
    page = fk.report(kept)
    assert page == kept / "report.html"
    text = page.read_text()
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#|data:)""", text.split("<script>")[0])
    assert text.count("<h1>") == 1 and "default-src 'none'" in text
    assert told(page)["notes"] == []
    assert "ifca" in told(page)["cells"][0]["settings"] and "numpy" in told(page)["cells"][0]["versions"]


def test_the_table_says_what_the_summary_says(kept: Path) -> None:
    summary = fk.Run.load(kept).summary()
    table = contents(subject_of(kept), portraits=False)["table"]
    row = dict(zip(table["heads"], table["rows"][0], strict=True))
    assert row["final accuracy"] == f"{100 * summary['final_accuracy']:.1f}%"
    assert row["bytes down"] == f"{summary['bytes_down'] / 1000:.1f} kB"


def test_a_run_in_memory_needs_a_place(tmp_path: Path) -> None:
    run = a_run(wandering(6, 4))
    with pytest.raises(ConfigError, match="say where its report goes"):
        fk.report(run)
    assert fk.report(run, tmp_path / "r.html", similarity_map=False).exists()
    with pytest.raises(ConfigError, match="got int"):
        subject_of(3)


def test_whatever_names_hold_they_stay_text(tmp_path: Path) -> None:
    nasty = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    run = a_run(wandering(6, 4), data=nasty)
    page = fk.report(run, tmp_path / "r.html", similarity_map=False)
    text = page.read_text()
    assert "<script>alert" not in text and "<img" not in text.split("<script>")[0]
    assert told(page)["title"] == f"IFCA on {nasty}"
    assert json.loads(in_script({"a": "<&>\u2028"})) == {"a": "<&>\u2028"} and "<" not in in_script("<")


def test_seeds_give_intervals_and_a_choice(tmp_path: Path) -> None:
    rows = wandering(6, 4)
    runs = tuple(a_run(rows, seed=s, accuracy=[0.1 + s / 10] * 5) for s in range(3))
    made = contents(subject_of(fk.RepeatedRuns(runs)), portraits=False)
    assert [cell["label"] for cell in made["cells"]] == ["IFCA, seed 0", "IFCA, seed 1", "IFCA, seed 2"]
    assert made["views"][0]["lines"][0]["accuracy_low"][0] is not None
    assert "3 seeds (0 to 2)" in made["line"]


def test_a_comparison_shows_its_own_tables(tmp_path: Path) -> None:
    from fedkin.analysis.compare.comparison import Comparison

    grid = {"data.clients": "8"}
    made = _compared(tmp_path, grid)
    shown = contents(subject_of(made), portraits=False)
    assert [cell["method"] for cell in shown["cells"]] == ["FedAvg"] * 2 + ["IFCA"] * 2
    assert [one["heading"] for one in shown["comparison"]] == ["The comparison", "Which differences hold"]
    assert shown["words"]
    (next(made.glob("cells/**/summary.json"))).unlink()
    assert isinstance(Comparison.load(made), Comparison)
    assert any("1 run is not finished" in note for note in contents(subject_of(made), portraits=False)["notes"])


def _compared(folder: Path, grid: dict[str, str]) -> Path:
    from typer.testing import CliRunner

    from fedkin.cli import app

    settings = [
        f"{key}={value}" for key, value in {**grid, "run.rounds": 1, "run.cohort": 3, "local.epochs": 1}.items()
    ]
    asked = ["compare", *settings, "data.name=digits", "--methods", "fedavg,ifca", "--seeds", "2"]
    result = CliRunner().invoke(app, [*asked, "--out", str(folder / "c")])
    assert result.exit_code == 0, result.output
    return folder / "c"


def test_a_comparison_has_the_bold_and_the_small_print_of_its_markdown(tmp_path: Path) -> None:
    folder = _compared(tmp_path, {"data.clients": "8"})
    page = fk.report(folder, similarity_map=False).read_text().split("<script")[0]
    written = (folder / "comparison.md").read_text()
    bold = re.findall(r"\*\*(.*?)\*\*", written)
    assert bold and re.findall(r"<strong>([0-9].*?)</strong>", page) == bold
    small = written.strip().split("\n\n")[-1]
    assert "Bold: the highest" in small and f'<p class="small">{escape(small)}</p>' in page


# --- what is not finished or not whole


def torn(cell: Path) -> str:
    lines = (cell / "metrics.jsonl").read_text().splitlines()
    (cell / "metrics.jsonl").write_text(f"{lines[0]}\n{lines[1][:20]}\n")
    return "metrics.jsonl is damaged in line 2"


def implausible(cell: Path) -> str:
    lines = (cell / "metrics.jsonl").read_text().splitlines()
    (cell / "metrics.jsonl").write_text(f'{lines[0]}\n{{"round": 1, "accuracy": "much"}}\n')
    return "metrics.jsonl is damaged in line 2"


def clientless(cell: Path) -> str:
    (cell / "clients.parquet").unlink()
    return "clients.parquet cannot be read"


def nameless(cell: Path) -> str:
    (cell / "config.toml").write_text("[[")
    return "config.toml cannot be read"


@pytest.mark.parametrize("harm", [torn, implausible, clientless, nameless])
def test_one_damaged_cell_leaves_the_others_of_a_comparison(tmp_path: Path, harm: Callable[[Path], str]) -> None:
    folder = _compared(tmp_path, {"data.clients": "8"})
    cell = folder / "cells/all/ifca/1"
    said = harm(cell)
    made = told(fk.report(folder, similarity_map=False))
    assert any(said in note and str(cell) in note for note in made["notes"])
    labels = ["FedAvg, seed 0", "FedAvg, seed 1", "IFCA, seed 0", "IFCA, seed 1, not whole"]
    assert [one["label"] for one in made["cells"]] == labels
    assert [row[1:3] for row in made["comparison"][0]["rows"]] == [["FedAvg", "2"], ["IFCA", "1"]]
    assert [line["seeds"] for line in made["views"][0]["lines"]] == [2, 1]


def test_a_run_of_something_else_is_no_part_of_a_comparison(tmp_path: Path) -> None:
    folder = _compared(tmp_path, {"data.clients": "8"})
    config = folder / "cells/all/ifca/1/config.toml"
    config.write_text(re.sub(r"batch_size = \d+", "batch_size = 3", config.read_text()))
    made = contents(subject_of(folder), portraits=False)
    assert len(made["cells"]) == 3 and any("holds another run" in note for note in made["notes"])


def test_a_comparison_stopped_in_its_first_cell_shows_the_rounds_that_there_are(tmp_path: Path) -> None:
    import shutil

    folder = _compared(tmp_path, {"data.clients": "8"})
    for cell in ("fedavg/1", "ifca"):
        shutil.rmtree(folder / "cells/all" / cell)
    first = folder / "cells/all/fedavg/0"
    for name in ("summary.json", "clients.parquet"):
        (first / name).unlink()
    (first / "metrics.jsonl").write_text((first / "metrics.jsonl").read_text().splitlines()[0] + "\n")
    made = told(fk.report(folder, similarity_map=False))
    assert made["views"][0]["lines"][0]["rounds"] == [0] and made["cells"][0]["label"] == "FedAvg, seed 0, not whole"
    assert any("shown up to round 0 of 1" in note for note in made["notes"])
    assert any("4 runs are not finished" in note for note in made["notes"])
    shutil.rmtree(folder / "cells")
    with pytest.raises(CheckpointError, match="no run that can be shown yet"):
        fk.report(folder)


@pytest.mark.parametrize("whole", [True, False])
def test_moves_into_a_cluster_that_there_is_not_are_damage(kept: Path, tmp_path: Path, whole: bool) -> None:
    import shutil

    folder = tmp_path / "a"
    shutil.copytree(kept, folder)
    if not whole:
        (folder / "summary.json").unlink()
    with (folder / "migrations.jsonl").open("a") as file:
        file.write('{"round": 2, "clients": [0], "clusters": [7]}\n')
    made = told(fk.report(folder, similarity_map=False))
    assert made["cells"][0]["ribbon"] is None and all(cluster < 2 for cluster in made["cells"][0]["shown"])
    assert any("does not fit the run" in note and "migrations.jsonl" in note for note in made["notes"])
    loaded = contents(subject_of(fk.Run.load(kept) if not whole else _with_moves(kept)), portraits=False)
    assert (loaded["cells"][0]["ribbon"] is None) == whole
    assert any("its moves are damaged" in note for note in loaded["notes"]) == whole


def _with_moves(folder: Path) -> fk.Run:
    """A run read as it is, but for moves that are another's."""
    return dataclasses.replace(fk.Run.load(folder), migrations=[{"round": 0, "clients": [0], "clusters": [7]}])


def test_an_unfinished_run_is_shown_as_far_as_it_got(tmp_path: Path) -> None:
    run = a_run(wandering(10, 6))
    run.config["run"]["rounds"] = 50
    made = contents(subject_of(unfinished(run, tmp_path / "a")), portraits=False)
    assert any("shown up to round 6 of 50" in note for note in made["notes"])
    assert made["cells"][0]["ribbon"]["last"] == 6
    assert made["line"].startswith("10 clients")


@pytest.mark.parametrize(
    "damage",
    ["{nonsense", "[]", '{"round": 99}', '{"round": 3, "accuracy": "much"}', '{"round": 3, "bytes_by_operation": 1}'],
)
def test_a_damaged_line_leaves_the_rounds_before_it(tmp_path: Path, damage: str) -> None:
    folder = unfinished(a_run(wandering(10, 6)), tmp_path / "a")
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    lines[3] = damage
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    made = contents(subject_of(folder), portraits=False)
    assert any("damaged in line 4" in note for note in made["notes"])
    assert made["views"][0]["lines"][0]["rounds"] == [0, 1, 2] and made["cells"][0]["ribbon"]["last"] == 2


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("migrations.jsonl", "{}\n"),
        ("migrations.jsonl", '{"round": 0, "clients": [0], "clusters": []}\n'),
        ("config.toml", "[["),
        ("config.toml", 'method = "x"\nrun = 3\n'),
        ("timings.jsonl", "no\n"),
        ("environment.json", "[1]"),
        ("clients.parquet", "no"),
        ("summary.json", "{}"),
        (FILE, "no"),
    ],
)
def test_any_damaged_file_leaves_a_page(kept: Path, tmp_path: Path, name: str, content: str) -> None:
    import shutil

    folder = tmp_path / "a"
    shutil.copytree(kept, folder)
    (folder / name).write_text(content)
    page = fk.report(folder, similarity_map=False)
    assert told(page)["views"][0]["lines"][0]["rounds"] == [0, 1, 2]


def test_nothing_to_show_is_said(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(CheckpointError, match="no run, no seeds and no comparison"):
            fk.report(folder)
    empty = unfinished(a_run(wandering(4, 2)), tmp_path / "a")
    (empty / "metrics.jsonl").write_text("")
    with pytest.raises(CheckpointError, match="no round that can be shown"):
        fk.report(empty)
    assert not (empty / "report.html").exists()


def test_a_seed_that_has_not_begun_is_named(tmp_path: Path) -> None:
    run = a_run(wandering(5, 3))
    whole = unfinished(dataclasses.replace(run, records=[]), tmp_path / "s")
    import tomli_w

    (whole / "config.toml").write_text(tomli_w.dumps({**run.config, "run": {**run.config["run"], "seeds": 2}}))
    unfinished(run, whole / "seeds/0")
    subject = subject_of(whole)
    assert [cell.label for cell in subject.cells] == ["IFCA, seed 0"]
    assert "Seed 1 has not begun." in subject.notes


# --- the portrait


def test_a_portrait_is_one_epoch_of_each_client_from_one_model(tiny: FederatedData) -> None:
    run = a_run(np.zeros((3, 12), np.int64))
    model = fk.models.mclr(tiny)
    made = portrait_of(run, tiny, model)
    world = fk.SimulatedWorld(tiny, model, fk.SGD(epochs=1, batch_size=10, lr=0.1))
    stream = fk.Stream(0, 0, "portrait")
    start = world.initial(stream)[None]
    updates = world.train(start, np.arange(12), np.zeros(12, np.int64), stream=stream).update
    assert np.array_equal(made.similarity, cosine(updates, updates).astype(np.float32))
    centred = updates.astype(np.float64) - updates.astype(np.float64).mean(axis=0)
    values = np.linalg.svd(centred, full_matrices=False)
    assert np.allclose(np.abs(made.scores), np.abs(values[0][:, :2] * values[1][:2]), atol=1e-5)
    assert np.array_equal(made.counts, tiny.label_counts()) and made.true_clusters is not None
    shown = contents(subject_of(run), tiny, model)["cells"][0]
    assert sum(map(sum, shown["labels"]["counts"])) == len(tiny.train.rows)
    assert sorted(shown["tree"]["order"]) == list(range(12))


def test_a_portrait_is_kept_and_believed_only_of_the_same_run(kept: Path) -> None:
    run = fk.Run.load(kept)
    made = portrait_of(run)
    assert made.remark == ""
    file = kept / FILE
    before = file.read_bytes()
    again = portrait_of(run)
    assert file.read_bytes() == before and np.array_equal(again.similarity, made.similarity)
    other = {**run.config, "run": {**run.config["run"], "seed": 1}}
    assert not np.array_equal(portrait_of(dataclasses.replace(run, config=other)).similarity, made.similarity)
    assert file.read_bytes() != before
    file.write_bytes(b"nonsense")
    assert np.array_equal(portrait_of(run).similarity, made.similarity)


def test_a_portrait_of_data_that_move_is_that_of_the_last_round() -> None:
    moving = {**DIGITS, "shift": {"name": "swap_all", "probability": 1.0}}
    run = execute(from_dict(moving), out=None)
    world = fk.SimulatedWorld(
        fk.data.digits(clients=8), fk.models.mclr(fk.data.digits(clients=8)), shift=fk.SwapAll(1.0)
    )
    for round in range(3):
        world.begin(fk.Stream(0, round, "scenario"))
    assert np.array_equal(portrait_of(run).counts, world.data.label_counts())


def test_seeds_have_a_portrait_each_where_data_move_and_share_one_where_they_stay() -> None:
    moving = {**DIGITS, "data": {**DIGITS["data"], "classes_per_client": 2}, "shift": {"name": "swap_all"}}
    moving["shift"] |= {"probability": 1.0}
    runs = [execute(_seed(moving, seed), out=None) for seed in (0, 1)]
    made = contents(subject_of(fk.RepeatedRuns(tuple(runs))))
    assert len(made["portraits"]) == 2
    for seed, cell in enumerate(made["cells"]):
        data = fk.data.digits(clients=8, classes_per_client=2)
        world = fk.SimulatedWorld(data, fk.models.mclr(data), shift=fk.SwapAll(1.0))
        for round in range(3):
            world.begin(fk.Stream(seed, round, "scenario"))
        counts, assignment = world.data.label_counts(), runs[seed].assignment
        by_cluster = [counts[assignment == k].sum(axis=0).tolist() for k in [0, 1, -1] if (assignment == k).any()]
        assert cell["labels"]["counts"] == by_cluster and cell["portrait"] in made["portraits"]
    assert made["cells"][0]["labels"] != made["cells"][1]["labels"]  # else nothing above tells seeds apart
    still = contents(subject_of(fk.RepeatedRuns(tuple(execute(_seed(DIGITS, seed), out=None) for seed in (0, 1)))))
    assert len(still["portraits"]) == 1 and {cell["portrait"] for cell in still["cells"]} == set(still["portraits"])


def _seed(settings: dict[str, Any], seed: int) -> Config:
    return from_dict({**settings, "run": {**settings["run"], "seed": seed}})


def test_where_portraits_are_many_the_last_are_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["fedkin.reporting.html.contents"], "PORTRAITS", 1)
    moving = {**DIGITS, "shift": {"name": "swap_all"}}
    made = contents(subject_of(fk.RepeatedRuns(tuple(execute(_seed(moving, seed), out=None) for seed in (0, 1)))))
    assert len(made["portraits"]) == 1
    assert made["cells"][1]["portrait"] is None and "labels" not in made["cells"][1]
    assert any("IFCA, seed 1" in note and "data moved otherwise" in note for note in made["notes"])


def test_data_that_are_not_a_seeds_own_are_drawn_apart_and_told(tiny: FederatedData) -> None:
    model = fk.models.mclr(tiny)
    runs = [fk.simulate(fk.FedAvg(), tiny, model, rounds=1, cohort=2, seed=seed) for seed in (0, 1)]
    runs[1] = dataclasses.replace(runs[1], fingerprint="of other data")
    made = contents(subject_of(fk.RepeatedRuns(tuple(runs))), tiny, model)
    remarks = [made["portraits"][cell["portrait"]]["remark"] for cell in made["cells"]]
    assert remarks[0] == "" and "are not those the run was made with" in remarks[1]


def test_what_has_no_portrait_says_so(tiny: FederatedData) -> None:
    run = a_run(wandering(6, 3))
    made = contents(subject_of(run))
    assert any("started from Python" in note for note in made["notes"]) and made["portraits"] == {}
    assert "labels" not in made["cells"][0] and made["cells"][0]["ribbon"]
    with pytest.raises(DataError, match="the run had 6 clients"):
        portrait_of(run, tiny, fk.models.mclr(tiny))
    with pytest.raises(ConfigError, match="belong together"):
        fk.report(run, "r.html", data=tiny)


# --- pictures for a paper


def test_pictures_are_written_in_three_kinds_and_the_same_again(tmp_path: Path, tiny: FederatedData) -> None:
    run = a_run(wandering(12, 6, share=0.2))
    given: dict[str, Any] = {"data": tiny, "model": fk.models.mclr(tiny)}
    fk.report(run, tmp_path / "r.html", figures=tmp_path / "f", **given)
    assert {p.name for p in (tmp_path / "f").iterdir()} == {f"{n}.{k}" for n in PICTURES for k in ("pdf", "svg", "png")}
    fk.report(run, tmp_path / "r.html", figures=tmp_path / "g", similarity_map=False)
    for name in ("accuracy", "clusters", "ribbon", "bytes"):
        for kind, start in (("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")):
            content = (tmp_path / f"f/{name}.{kind}").read_bytes()
            assert content.startswith(start) and content == (tmp_path / f"g/{name}.{kind}").read_bytes()
    width = re.search(r'width="([0-9.]+)pt"', (tmp_path / "f/ribbon.svg").read_text())
    assert width and float(width[1]) / 72 == pytest.approx(3.3)
