"""A report of any result: finished, unfinished, damaged, of one run, of seeds, of a comparison."""

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
from fedkin.config.run import RunConfig, from_dict
from fedkin.core.errors import CheckpointError, ConfigError, DataError
from fedkin.data.federated import FederatedData
from fedkin.measures.cosine import cosine
from fedkin.reporting.html import paper_figures
from fedkin.reporting.html.client_similarity import FILE, client_similarity
from fedkin.reporting.html.comparison_section import comparison_section
from fedkin.reporting.html.contents import _with_one_stop, contents
from fedkin.reporting.html.page import in_script, page
from fedkin.reporting.html.paper_figures import save
from fedkin.reporting.html.read_runs import ReportedRun, ReportInput, read_runs
from fedkin.run.simulate import execute
from fedkin.tasks.train import train
from tests.analysis.written_comparisons import comparison
from tests.reporting.written_runs import a_run, unfinished, wandering

DIGITS: dict[str, dict[str, Any]] = {
    "data": {"name": "digits", "clients": 8},
    "method": {"name": "ifca", "clusters": 2},
    "local": {"epochs": 1},
    "run": {"rounds": 2, "cohort": 4},
}
FIGURES = {
    "accuracy",
    "bottom",
    "clusters",
    "alluvial",
    "communication",
    "map",
    "similarity",
    "labels",
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small finished run."""
    folder = tmp_path_factory.mktemp("runs") / "a"
    execute(from_dict(DIGITS), out=folder)
    return folder


def contents_of(page: Path) -> dict[str, Any]:
    """The contents inside a page."""
    found = re.search(
        r'<script type="application/json" id="contents">(.*?)</script>', page.read_text()
    )
    assert found
    return json.loads(found[1], parse_constant=pytest.fail)


# --- a page


def test_a_run_becomes_one_file_that_asks_for_nothing(kept: Path) -> None:
    page = fk.report(kept)
    assert page == kept / "report.html"
    text = page.read_text()
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#|data:)""", text.split("<script>")[0])
    assert text.count("<h1>") == 1 and "default-src 'none'" in text
    assert contents_of(page)["notes"] == []
    command = f"fedkin report {kept} --similarity"
    assert command in contents_of(page)["hint"]
    assert command in text.split("<script")[0]
    assert 'id="map"' not in text.split("<script")[0]
    assert (
        "ifca" in contents_of(page)["runs"][0]["config"]
        and "numpy" in contents_of(page)["runs"][0]["versions"]
    )


def test_a_page_is_small(kept: Path, tmp_path: Path) -> None:
    assert fk.report(kept).stat().st_size < 2_000_000
    rows = wandering(300, 200, clusters=8, share=0.02)
    assert fk.report(a_run(rows), tmp_path / "r.html").stat().st_size < 2_000_000


def test_a_comparison_of_many_runs_leaves_out_charts_of_later_seeds(tmp_path: Path) -> None:
    def one(seed: int) -> ReportedRun:
        rows = wandering(200, 150, clusters=8, share=0.05, seed=seed)
        return ReportedRun(
            "",
            "FedAvg" if seed % 2 else "IFCA",
            a_run(rows, "fedavg" if seed % 2 else "ifca", seed=seed),
        )

    made = contents(ReportInput("comparison", tuple(one(seed) for seed in range(40))))
    assert len(in_script(made)) < 2_200_000  # with plotly.js, 1.5 MB, below 4 MB
    shown = [cell["label"] for cell in made["runs"] if cell["alluvial"]]
    assert 2 <= len(shown) < 40 and shown[:2] == ["IFCA, seed 0", "FedAvg, seed 1"]
    assert all(cell["left_out"] == (cell["alluvial"] is None) for cell in made["runs"])
    assert made["runs"][-1]["left_out"] and made["runs"][-1]["communication"]


def test_the_page_begins_with_its_verdict_and_its_contents(kept: Path) -> None:
    text = fk.report(kept).read_text().split("<script")[0]
    (said,) = contents_of(kept / "report.html")["verdict"]["sentences"]
    assert said.startswith("IFCA reaches") and text.index(f"<p>{said}</p>") < text.index("<nav")
    targets = re.findall(r'href="#(h-[a-z-]+)"', text)
    assert targets == ["h-ran", "h-methods", "h-all", "h-one", "h-config"]
    assert all(text.count(f'id="{target}"') == 1 for target in targets)


def test_it_opens_on_the_best_clustered_method() -> None:
    def of(method: str, accuracy: float, clusters: int) -> fk.Run:
        return a_run(np.tile(np.arange(6) % clusters, (4, 1)), method, accuracy=[accuracy] * 4)

    main = dataclasses.replace(
        of("flexcfl", 0.6, 3), against={"fedavg": of("fedavg", 0.9, 1), "ifca": of("ifca", 0.7, 2)}
    )
    made = contents(read_runs(main))
    assert made["runs"][made["opening"]]["label"] == "IFCA, seed 0"
    alone = dataclasses.replace(of("fedavg", 0.9, 1), against={"local": of("local", 0.5, 1)})
    assert contents(read_runs(alone))["opening"] == 0


def test_the_table_equals_the_summary(kept: Path) -> None:
    summary = fk.Run.load(kept).summary()
    table = contents(read_runs(kept))["table"]
    row = dict(zip(table["heads"], table["rows"][0], strict=True))
    assert row["final (test)"] == f"{100 * summary['final_accuracy']:.1f}%"
    assert row["download"] == f"{summary['bytes_down'] / 1000:.1f} kB"


def test_a_run_in_memory_needs_a_place(tmp_path: Path) -> None:
    run = a_run(wandering(6, 4))
    with pytest.raises(ConfigError, match="give the file of the report"):
        fk.report(run)
    assert fk.report(run, tmp_path / "r.html").exists()
    with pytest.raises(ConfigError, match="got int"):
        read_runs(3)


def test_names_stay_text_with_any_characters(tmp_path: Path) -> None:
    nasty = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    run = a_run(wandering(6, 4), data=nasty)
    page = fk.report(run, tmp_path / "r.html")
    text = page.read_text()
    assert "<script>alert" not in text and "<img" not in text.split("<script>")[0]
    assert contents_of(page)["title"] == f"IFCA on {nasty}"
    assert json.loads(in_script({"a": "<&>\u2028"})) == {"a": "<&>\u2028"} and "<" not in in_script(
        "<"
    )


def test_seeds_give_intervals_and_a_choice(tmp_path: Path) -> None:
    rows = wandering(6, 4)
    runs = tuple(a_run(rows, seed=s, accuracy=[0.1 + s / 10] * 5) for s in range(3))
    made = contents(read_runs(fk.RepeatedRuns(runs)))
    assert [cell["label"] for cell in made["runs"]] == [
        "IFCA, seed 0",
        "IFCA, seed 1",
        "IFCA, seed 2",
    ]
    assert made["accuracy"][0]["lines"][0]["accuracy_low"][0] is not None
    assert "3 seeds (0 to 2)" in made["subtitle"]


def test_a_comparison_shows_its_own_tables(tmp_path: Path) -> None:
    from fedkin.analysis.compare.comparison import Comparison

    grid = {"data.clients": "8"}
    made = _compared(tmp_path, grid)
    shown = contents(read_runs(made))
    assert [cell["method"] for cell in shown["runs"]] == ["FedAvg"] * 2 + ["IFCA"] * 2
    assert [one["heading"] for one in shown["comparison"]] == [
        "Comparison",
        "Statistical significance",
    ]
    moved = {
        "heading": "Clusters",
        "heads": ["method"],
        "rows": [["IFCA"]],
        "bold": [],
        "notes": [],
    }
    text = page({**shown, "clustering": moved}).split("<script")[0]
    order = (
        'id="h-statistical-significance"',
        f"<li>{escape(shown['findings'][0])}",
        'id="h-clusters"',
    )
    assert sorted(order, key=text.index) == list(order)  # results of tests stand with the tests
    (next(made.glob("cells/**/summary.json"))).unlink()
    assert isinstance(Comparison.load(made), Comparison)
    assert any("1 run is incomplete" in note for note in contents(read_runs(made))["notes"])


def test_a_comparison_of_several_settings_shows_the_tables_of_its_sweep(tmp_path: Path) -> None:
    grid = {"a": {"FedAvg": [[0.5, 0.6]] * 2, "IFCA": [[0.5, 0.7]] * 2}}
    section = comparison_section(comparison({**grid, "b": grid["a"]}))
    headings = [table["heading"] for table in section.tables]
    assert headings == [
        "Comparison",
        "Methods and settings: final (%), mean ± SD over the seeds",
        "Statistical significance",
    ]
    means = section.tables[1]
    assert means["heads"] == ["method", "a", "b"]
    assert means["rows"][1] == ["IFCA", "70.0 ± 0.0", "70.0 ± 0.0"]


def test_words_are_aligned_left_and_numbers_right(tmp_path: Path) -> None:
    table = {
        "heading": "Clusters",
        "heads": ["setting", "method", "seeds", "final (%)", "chosen"],
        "rows": [
            ["a", "IFCA", "2", "62.6 (all clients 57.2)", ""],
            ["a", "FedAvg", "2", "-", "winner"],
        ],
        "bold": [],
        "notes": [],
    }
    text = page({**contents(read_runs(a_run(wandering(3, 4)))), "clustering": table})
    assert '<td data-label="setting" class="text">a</td>' in text
    # A narrow page shows a method's name below the setting, as the heading of its row.
    assert '<td data-label="method" class="text name">IFCA</td>' in text
    assert '<td data-label="seeds">2</td>' in text
    assert '<td data-label="final (%)">-</td>' in text
    assert '<th scope="col" class="text">chosen</th>' in text


def test_the_reason_of_a_method_that_did_not_run_spans_the_columns_of_numbers() -> None:
    """In the first column of numbers, it would push the others off the page."""
    found = comparison({"": {"FedAvg": [[0.5, 0.6]], "IFCA": [None]}})
    failed = {("", "IFCA", 0): "too few clients"}
    (table, *_) = comparison_section(dataclasses.replace(found, failed=failed)).tables
    assert table["rows"][1] == ["IFCA", "0", "not run: too few clients"]
    text = page({**contents(read_runs(a_run(wandering(3, 4)))), "clustering": table})
    spanned = len(table["heads"]) - 2
    reason = "not run: too few clients"
    assert f'<td data-label="" class="text" colspan="{spanned}">{reason}</td>' in text
    assert '<td data-label="final (%)">' in text and '<th scope="col">final (%)</th>' in text


def test_figures_of_a_comparison_have_its_critical_differences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ranks are tested from three methods and five settings on."""
    curves = {"x": [[0.5, 0.9]], "y": [[0.4, 0.8]], "z": [[0.3, 0.7]]}
    five = comparison({str(number): curves for number in range(5)})
    charts = contents(read_runs(a_run(wandering(3, 4))))
    names = {path.name for path in save(charts, tmp_path / "five", five.ranks())}
    assert {"ranks.pdf", "ranks.svg", "ranks.png"} <= names
    four = comparison({str(number): curves for number in range(4)})
    assert not [
        path for path in save(charts, tmp_path / "four", four.ranks()) if "ranks" in path.name
    ]

    # A report gives the ranks of its comparison to the figures.
    given = []
    monkeypatch.setattr(paper_figures, "save", lambda *arguments: given.append(arguments))
    fk.report(five, tmp_path / "report.html", figures=tmp_path / "figures")
    assert given[0][2].average == {"x": 1.0, "y": 2.0, "z": 3.0}

    monkeypatch.setitem(sys.modules, "scikit_posthocs", None)
    assert not [
        path for path in save(charts, tmp_path / "no", five.ranks()) if "ranks" in path.name
    ]
    assert "pip install 'fedkin[ranks]'" in caplog.text


def _compared(folder: Path, grid: dict[str, str]) -> Path:
    from typer.testing import CliRunner

    from fedkin.cli import app

    settings = [
        f"{key}={value}"
        for key, value in {**grid, "run.rounds": 1, "run.cohort": 3, "local.epochs": 1}.items()
    ]
    asked = ["compare", *settings, "data.name=digits", "--methods", "fedavg,ifca", "--seeds", "2"]
    result = CliRunner().invoke(app, [*asked, "--out", str(folder / "c")])
    assert result.exit_code == 0, result.output
    return folder / "c"


def test_a_comparison_has_the_bold_and_the_small_print_of_its_markdown(tmp_path: Path) -> None:
    folder = _compared(tmp_path, {"data.clients": "8"})
    page = fk.report(folder).read_text().split("<script")[0]
    written = (folder / "comparison.md").read_text()
    bold = re.findall(r"\*\*(.*?)\*\*", written)
    assert bold and re.findall(r"<strong>([0-9].*?)</strong>", page) == bold
    small = written.strip().split("\n\n")[-1]
    assert "Bold: the highest" in small and f'<p class="small">{escape(small)}</p>' in page


# --- unfinished or incomplete


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
def test_one_damaged_cell_leaves_the_others_of_a_comparison(
    tmp_path: Path, harm: Callable[[Path], str]
) -> None:
    folder = _compared(tmp_path, {"data.clients": "8"})
    cell = folder / "cells/all/ifca/1"
    said = harm(cell)
    made = contents_of(fk.report(folder))
    assert any(said in note and str(cell) in note for note in made["notes"])
    labels = ["FedAvg, seed 0", "FedAvg, seed 1", "IFCA, seed 0", "IFCA, seed 1, incomplete"]
    assert [one["label"] for one in made["runs"]] == labels
    assert [row[:2] for row in made["comparison"][0]["rows"]] == [["FedAvg", "2"], ["IFCA", "1"]]
    assert [line["seeds"] for line in made["accuracy"][0]["lines"]] == [2, 1]


def test_a_run_of_something_else_is_no_part_of_a_comparison(tmp_path: Path) -> None:
    folder = _compared(tmp_path, {"data.clients": "8"})
    config = folder / "cells/all/ifca/1/config.toml"
    config.write_text(re.sub(r"batch_size = \d+", "batch_size = 3", config.read_text()))
    made = contents(read_runs(folder))
    assert len(made["runs"]) == 3 and any(
        "does not belong to this comparison" in note for note in made["notes"]
    )


def test_a_comparison_stopped_in_its_first_cell_shows_the_rounds_that_there_are(
    tmp_path: Path,
) -> None:
    import shutil

    folder = _compared(tmp_path, {"data.clients": "8"})
    for cell in ("fedavg/1", "ifca"):
        shutil.rmtree(folder / "cells/all" / cell)
    first = folder / "cells/all/fedavg/0"
    for name in ("summary.json", "clients.parquet"):
        (first / name).unlink()
    (first / "metrics.jsonl").write_text(
        (first / "metrics.jsonl").read_text().splitlines()[0] + "\n"
    )
    made = contents_of(fk.report(folder))
    assert (
        made["accuracy"][0]["lines"][0]["rounds"] == [0]
        and made["runs"][0]["label"] == "FedAvg, seed 0, incomplete"
    )
    assert any("shown up to round 0 of 1" in note for note in made["notes"])
    assert any("4 runs are incomplete" in note for note in made["notes"])
    shutil.rmtree(folder / "cells")
    with pytest.raises(CheckpointError, match="no run that can be shown yet"):
        fk.report(folder)


@pytest.mark.parametrize("whole", [True, False])
def test_migrations_into_an_unknown_cluster_are_damage(
    kept: Path, tmp_path: Path, whole: bool
) -> None:
    import shutil

    folder = tmp_path / "a"
    shutil.copytree(kept, folder)
    if not whole:
        (folder / "summary.json").unlink()
    with (folder / "migrations.jsonl").open("a") as file:
        file.write('{"round": 2, "clients": [0], "clusters": [7]}\n')
    made = contents_of(fk.report(folder))
    assert made["runs"][0]["alluvial"] is None and all(
        cluster < 2 for cluster in made["runs"][0]["largest_clusters"]
    )
    assert any(
        "does not match the run" in note and "migrations.jsonl" in note for note in made["notes"]
    )
    loaded = contents(read_runs(fk.Run.load(kept) if not whole else _with_moves(kept)))
    assert (loaded["runs"][0]["alluvial"] is None) == whole
    assert any("the migrations are damaged" in note for note in loaded["notes"]) == whole


def test_a_run_with_all_rounds_and_no_results_is_not_called_shown_up_to_the_last(
    tmp_path: Path,
) -> None:
    run = a_run(wandering(10, 6))
    run.config.run["rounds"] = 6
    made = contents(read_runs(unfinished(run, tmp_path / "a")))
    assert any("has all 6 rounds, but its final results are missing" in n for n in made["notes"])
    assert not any("up to round 6 of 6" in note for note in made["notes"])


def _with_moves(folder: Path) -> fk.Run:
    """A run read as it is, but for moves that are another's."""
    return dataclasses.replace(
        fk.Run.load(folder), migrations=[{"round": 0, "clients": [0], "clusters": [7]}]
    )


def test_an_unfinished_run_is_shown_as_far_as_it_got(tmp_path: Path) -> None:
    run = a_run(wandering(10, 6))
    run.config.run["rounds"] = 50
    made = contents(read_runs(unfinished(run, tmp_path / "a")))
    assert any("shown up to round 6 of 50" in note for note in made["notes"])
    assert made["runs"][0]["alluvial"]["last"] == 6
    assert made["subtitle"].startswith("10 clients")


@pytest.mark.parametrize(
    "damage",
    [
        "{nonsense",
        "[]",
        '{"round": 99}',
        '{"round": 3, "accuracy": "much"}',
        '{"round": 3, "bytes_by_operation": 1}',
    ],
)
def test_a_damaged_line_leaves_the_rounds_before_it(tmp_path: Path, damage: str) -> None:
    folder = unfinished(a_run(wandering(10, 6)), tmp_path / "a")
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    lines[3] = damage
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    made = contents(read_runs(folder))
    assert any("damaged in line 4" in note for note in made["notes"])
    assert (
        made["accuracy"][0]["lines"][0]["rounds"] == [0, 1, 2]
        and made["runs"][0]["alluvial"]["last"] == 2
    )


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
def test_any_damaged_file_leaves_a_page(
    kept: Path, tmp_path: Path, name: str, content: str
) -> None:
    import shutil

    folder = tmp_path / "a"
    shutil.copytree(kept, folder)
    (folder / name).write_text(content)
    page = fk.report(folder)
    assert contents_of(page)["accuracy"][0]["lines"][0]["rounds"] == [0, 1, 2]


def test_a_folder_without_runs_says_so(tmp_path: Path) -> None:
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

    (whole / "config.toml").write_text(tomli_w.dumps(run.config.with_run(seeds=2).sections))
    unfinished(run, whole / "seeds/0")
    subject = read_runs(whole)
    assert [cell.label for cell in subject.runs] == ["IFCA, seed 0"]
    assert "Seed 1 has not started." in subject.notes


# --- client similarity


def test_similarity_is_one_epoch_of_each_client_from_one_model(tiny: FederatedData) -> None:
    run = a_run(np.zeros((3, 12), np.int64))
    model = fk.models.mclr(tiny)
    made = client_similarity(run, tiny, model)
    world = fk.SimulatedWorld(tiny, model, fk.SGD(epochs=1, batch_size=10, lr=0.1))
    stream = fk.Stream(0, 0, "portrait")
    start = world.initial(stream)[None]
    updates = train(world, start, np.arange(12), np.zeros(12, np.int64), stream=stream).update
    assert np.array_equal(made.cosines, cosine(updates, updates).astype(np.float32))
    centred = updates.astype(np.float64) - updates.astype(np.float64).mean(axis=0)
    values = np.linalg.svd(centred, full_matrices=False)
    assert np.allclose(np.abs(made.scores), np.abs(values[0][:, :2] * values[1][:2]), atol=1e-5)
    assert np.array_equal(made.label_counts, tiny.label_counts()) and made.true_clusters is not None
    shown = contents(read_runs(run), tiny, model, similarity=True)["runs"][0]
    assert sum(map(sum, shown["labels"]["counts"])) == len(tiny.train.rows)
    assert sorted(shown["tree"]["order"]) == list(range(12))


def test_similarity_is_kept_and_shown_only_of_the_same_run(kept: Path) -> None:
    run = fk.Run.load(kept)
    made = client_similarity(run)
    assert made.note == ""
    # Shown without asking.
    assert contents(read_runs(kept))["similarities"] and contents(read_runs(kept))["hint"] == ""
    file = kept / FILE
    before = file.read_bytes()
    again = client_similarity(run)
    assert file.read_bytes() == before and np.array_equal(again.cosines, made.cosines)
    other = run.config.with_run(seed=1)
    assert not np.array_equal(
        client_similarity(dataclasses.replace(run, config=other)).cosines, made.cosines
    )
    assert file.read_bytes() != before
    file.write_bytes(b"nonsense")
    assert np.array_equal(client_similarity(run).cosines, made.cosines)


def test_client_similarity_of_moving_data_shows_the_last_round() -> None:
    moving = {**DIGITS, "shift": {"name": "swap_all", "probability": 1.0}}
    run = execute(from_dict(moving), out=None)
    world = fk.SimulatedWorld(
        fk.data.digits(clients=8), fk.models.mclr(fk.data.digits(clients=8)), shift=fk.SwapAll(1.0)
    )
    for round in range(3):
        world.begin(fk.Stream(0, round, "scenario"))
    assert np.array_equal(client_similarity(run).label_counts, world.data.label_counts())


def test_seeds_share_a_similarity_unless_their_data_shift() -> None:
    moving = {
        **DIGITS,
        "data": {**DIGITS["data"], "classes_per_client": 2},
        "shift": {"name": "swap_all"},
    }
    moving["shift"] |= {"probability": 1.0}
    runs = [execute(_seed(moving, seed), out=None) for seed in (0, 1)]
    made = contents(read_runs(fk.RepeatedRuns(tuple(runs))), similarity=True)
    assert len(made["similarities"]) == 2
    for seed, cell in enumerate(made["runs"]):
        data = fk.data.digits(clients=8, classes_per_client=2)
        world = fk.SimulatedWorld(data, fk.models.mclr(data), shift=fk.SwapAll(1.0))
        for round in range(3):
            world.begin(fk.Stream(seed, round, "scenario"))
        counts = world.data.label_counts()
        assignment = runs[seed].assignment
        by_cluster = [
            counts[assignment == k].sum(axis=0).tolist()
            for k in [0, 1, -1]
            if (assignment == k).any()
        ]
        assert cell["labels"]["counts"] == by_cluster and cell["similarity"] in made["similarities"]
    # Else nothing above tells seeds apart.
    assert made["runs"][0]["labels"] != made["runs"][1]["labels"]
    still = contents(
        read_runs(
            fk.RepeatedRuns(tuple(execute(_seed(DIGITS, seed), out=None) for seed in (0, 1)))
        ),
        similarity=True,
    )
    assert len(still["similarities"]) == 1 and {
        cell["similarity"] for cell in still["runs"]
    } == set(still["similarities"])


def _repeated(settings: dict[str, Any]) -> fk.RepeatedRuns:
    return fk.RepeatedRuns(tuple(execute(_seed(settings, seed), out=None) for seed in (0, 1)))


def _seed(settings: dict[str, Any], seed: int) -> RunConfig:
    return from_dict({**settings, "run": {**settings["run"], "seed": seed}})


def test_beyond_the_limit_similarities_are_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules["fedkin.reporting.html.similarity_charts"], "LIMIT", 1)
    moving = {**DIGITS, "shift": {"name": "swap_all"}}
    made = contents(
        read_runs(
            fk.RepeatedRuns(tuple(execute(_seed(moving, seed), out=None) for seed in (0, 1)))
        ),
        similarity=True,
    )
    assert len(made["similarities"]) == 1
    assert made["runs"][1]["similarity"] is None and "labels" not in made["runs"][1]
    assert any("IFCA, seed 1" in note and "other data shifts" in note for note in made["notes"])


def test_data_that_are_not_a_seeds_own_are_drawn_apart_and_mentioned(tiny: FederatedData) -> None:
    model = fk.models.mclr(tiny)
    runs = [fk.simulate(fk.FedAvg(), tiny, model, rounds=1, cohort=2, seed=seed) for seed in (0, 1)]
    runs[1] = dataclasses.replace(runs[1], fingerprint="of other data")
    made = contents(read_runs(fk.RepeatedRuns(tuple(runs))), tiny, model, similarity=True)
    remarks = [made["similarities"][cell["similarity"]]["note"] for cell in made["runs"]]
    assert remarks[0] == "" and "differ from the run's" in remarks[1]


def test_runs_without_similarity_are_noted(tiny: FederatedData) -> None:
    run = a_run(wandering(6, 3))
    made = contents(read_runs(run), similarity=True)
    assert (
        any("started from Python" in note for note in made["notes"]) and made["similarities"] == {}
    )
    assert "labels" not in made["runs"][0] and made["runs"][0]["alluvial"]
    with pytest.raises(DataError, match="the run had 6 clients"):
        client_similarity(run, tiny, fk.models.mclr(tiny))
    with pytest.raises(ConfigError, match="belong together"):
        fk.report(run, "r.html", data=tiny)
    with pytest.raises(ConfigError, match="pass similarity=True"):
        fk.report(run, "r.html", data=tiny, model=fk.models.mclr(tiny))


# --- figures for a paper


def test_the_clients_of_a_finished_run_have_a_figure(kept: Path, tmp_path: Path) -> None:
    fk.report(kept, tmp_path / "r.html", figures=tmp_path / "f")
    assert (tmp_path / "f/clients.pdf").read_bytes().startswith(b"%PDF")


def test_figures_are_written_in_three_formats_and_the_same_again(
    tmp_path: Path, tiny: FederatedData
) -> None:
    run = a_run(wandering(12, 6, share=0.2))
    fk.report(
        run,
        tmp_path / "r.html",
        figures=tmp_path / "f",
        data=tiny,
        model=fk.models.mclr(tiny),
        similarity=True,
    )
    assert {p.name for p in (tmp_path / "f").iterdir()} == {
        f"{n}.{k}" for n in FIGURES for k in ("pdf", "svg", "png")
    }
    fk.report(run, tmp_path / "r.html", figures=tmp_path / "g")
    for name in ("accuracy", "clusters", "alluvial", "communication"):
        for kind, start in (("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")):
            content = (tmp_path / f"f/{name}.{kind}").read_bytes()
            assert (
                content.startswith(start)
                and content == (tmp_path / f"g/{name}.{kind}").read_bytes()
            )
    width = re.search(r'width="([0-9.]+)pt"', (tmp_path / "f/alluvial.svg").read_text())
    assert width and float(width[1]) / 72 == pytest.approx(3.3)


# --- significance


def test_pairs_with_too_few_seeds_are_a_sentence_and_no_rows(tmp_path: Path) -> None:
    """Fifty rows that all say the same hide the pairs that were tested."""
    flat = [[0.5, 0.5]]
    methods = {name: flat * 2 for name in ("FedAvg", "IFCA", "FedProx")}
    table = comparison_section(comparison({"": methods})).tables[1]
    assert table["heading"] == "Statistical significance" and table["rows"] == []
    assert table["notes"] == [
        "All pairs of methods share fewer than 3 seeds and are not tested. Their differences are "
        "in differences.csv."
    ]
    some = comparison({"": {**methods, "FlexCFL": flat * 3, "PANM": [[0.5, 0.6]] * 3}})
    tested = comparison_section(some).tables[1]
    assert [set(row[:2]) for row in tested["rows"]] == [{"FlexCFL", "PANM"}]
    assert tested["notes"][0].startswith("9 of 10 pairs of methods share fewer than 3 seeds")


def test_a_note_keeps_the_path_of_a_folder_above() -> None:
    assert _with_one_stop("../results/run is incomplete..") == "../results/run is incomplete."
