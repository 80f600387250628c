"""Measures of the user's own: in records, summaries, tables, comparisons and reports; resumed,
deployed, refused."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import fedkin as fk
from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.repeated_runs import RepeatedRuns
from fedkin.config.plan import Plan
from fedkin.config.run import load
from fedkin.config.server import load_server
from fedkin.config.user_measures import resolved
from fedkin.core.errors import CheckpointError, ConfigError
from fedkin.measures.reserved_names import OTHER_ENTRIES
from fedkin.measures.table import MEASURES
from fedkin.reporting.html.contents import contents
from fedkin.reporting.html.live import LivePage
from fedkin.reporting.html.read_runs import read_runs
from fedkin.reporting.progress import table
from fedkin.run.loop import run as run_rounds
from tests.option_lists import simulate_arguments
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import clustered_data, join_nodes, model_of, remote

FILE = '''
import numpy as np
import fedkin as fk


def gap(scored):
    return scored.accuracy.max() - scored.accuracy.min()


Gap = fk.Measure(
    "gap", of=gap, title="best less worst", head="client gap", unit="share", direction="lower"
)


class Largest:
    """Makes a measure without arguments."""

    def __new__(cls):
        return fk.Measure(
            "largest", of=lambda scored: float(np.bincount(scored.cluster).max()), unit="count"
        )


Raises = fk.Measure("raises", of=lambda scored: [][0])
Words = fk.Measure("words", of=lambda scored: "many")
Nothing = fk.Measure("nothing", of=lambda scored: None)
Without = fk.Measure("without")
Taken = fk.Measure("bottom_decile", of=gap)
Called = fk.Measure("best", of=gap)
Ends = fk.Measure("gap_low", of=gap)
number = 3


def broken():
    raise OSError("no such file")
'''
SMALL = [
    "data.name=digits",
    "data.clients=6",
    "model.name=mclr",
    "run.rounds=2",
    "run.cohort=6",
    "local.epochs=1",
]
OWN = ["run.measures=measured:Gap,measured:Largest"]


def gap(scored: fk.ScoredClients) -> float:
    return scored.accuracy.max() - scored.accuracy.min()


GAP = fk.Measure(
    "gap", of=gap, title="best less worst", head="client gap", unit="share", direction="lower"
)


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file ``measured.py``, in the folder where the test runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("measured.py").write_text(FILE)


def simulated(**options: Any) -> fk.Run:
    data = options.pop("data", None) or clustered_data()
    settings: dict[str, Any] = {"rounds": 2, "cohort": 4, "measures": [GAP], **options}
    return fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), **simulate_arguments(settings))


def text_of(renderable: Any) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(renderable)
    return console.export_text()


def test_it_is_computed_of_the_clients_that_were_scored() -> None:
    seen: list[fk.ScoredClients] = []

    def note(scored: fk.ScoredClients) -> float:
        seen.append(scored)
        return float("nan")

    run = simulated(measures=[GAP, fk.Measure("note", of=note)], evaluate_every=2)
    last = run.clients["accuracy"].to_numpy()
    assert [record["gap"] for record in run.records][1:] == [None, last.max() - last.min()]
    assert [record["note"] for record in run.records] == [None] * 3
    assert run.summary()["gap"] == run.records[-1]["gap"]
    assert [scored.round for scored in seen] == [0, 2]
    np.testing.assert_array_equal(seen[-1].accuracy, last)
    np.testing.assert_array_equal(seen[-1].correct / seen[-1].examples, last)
    assert seen[-1].state is run.state and len(seen[-1].loss) == len(seen[-1].cluster) == len(
        seen[-1].clients
    )


def test_with_validation_the_summary_has_the_measure_of_the_test_samples(tmp_path: Path) -> None:
    data = fk.data.digits(clients=6).with_validation(0.3)
    run = simulated(data=data, out=tmp_path / "run")
    own = run.clients["accuracy"].to_numpy()
    assert run.summary()["gap"] == own.max() - own.min() != run.records[-1]["gap"]
    assert fk.Run.load(tmp_path / "run").summary() == run.summary()


def test_all_that_records_and_summaries_hold_is_in_the_table() -> None:
    run = simulated(global_model=True, target=0.5)
    known = {*MEASURES, *OTHER_ENTRIES, "gap"}
    assert {name for record in run.records for name in record} <= known
    assert set(run.summary()) <= known
    assert {"gap", "client gap"} <= {measure.name for measure in run.measures} | {
        m.head for m in run.measures
    }


def test_a_configuration_names_it_and_its_tables_have_it() -> None:
    config = load(
        None, [*SMALL, *OWN, "method.name=ifca", "run.against=fedavg", "run.selection=round_robin"]
    )
    assert [one["from"] for one in config.description().run["measures"]] == [
        "measured:Gap",
        "measured:Largest",
    ]
    from fedkin.run.simulate import execute

    run = execute(config, out=Path("run"))
    loaded = fk.Run.load("run")
    assert [(one.name, one.of) for one in loaded.measures] == [("gap", None), ("largest", None)]
    assert loaded.summary() == run.summary() and "gap" in loaded.against["fedavg"].records[-1]
    gap_text = f"{100 * run.summary()['gap']:.1f}%"
    for shown in (
        text_of(table([run.summary()], None, run.measures)),
        repr(run),
        run._repr_html_(),
        json.dumps(contents(read_runs(run))["table"]),
        json.dumps(LivePage(Path("run")).status()),
    ):
        assert gap_text in shown
    page = contents(read_runs(Path("run")))
    assert [one["name"] for one in page["measures"]] == ["gap", "largest"] and page["table"][
        "heads"
    ][-2] == "client gap"
    assert page["accuracy"][0]["lines"][0]["gap"][-1] == pytest.approx(
        run.summary()["gap"], abs=1e-4
    )
    assert fk.draw(run).exists() and fk.report(run, "page.html", figures="figures").exists()
    assert {path.name for path in Path("figures").glob("measure-*.svg")} == {
        "measure-gap.svg",
        "measure-largest.svg",
    }


def test_methods_are_compared_by_it_and_less_is_better() -> None:
    found = fk.compare(None, *SMALL, *OWN, methods=["fedavg", "ifca"], seeds=3, by="gap", out="c")
    means = {row["method"]: row["gap"] for row in found.table().to_dict("records")}
    pair = found.differences().iloc[0]
    known = [name for name, mean in means.items() if mean is not None]
    assert pair["measure"] == "gap" and known
    if np.isfinite(pair["difference"]):
        assert pair["difference"] <= 0  # the method with the smaller gap stands first
    fk.draw(found)
    latex = Path("c/comparison.tex").read_text()
    markdown = Path("c/comparison.md").read_text()
    assert r"Client gap (\%) & Largest \\" in latex and "| client gap (%) | largest |" in markdown
    assert (
        "Bold: the lowest best less worst" in markdown
        and "gap_high" in Path("c/comparison.csv").read_text()
    )
    assert Comparison.load("c").by == "gap" and fk.report("c").exists()
    with pytest.raises(ConfigError, match="unknown measure 'gpa'; did you mean 'gap'"):
        found.differences("gpa")


def test_several_seeds_have_its_mean() -> None:
    repeated = fk.repeat(lambda seed: simulated(seed=seed, against=[fk.IFCA(clusters=2)]), seeds=3)
    assert isinstance(repeated, RepeatedRuns)
    values = [run.summary()["gap"] for run in repeated.runs]
    row = repeated.table().iloc[0]
    assert float(row["gap"]) == pytest.approx(np.mean(values))
    assert float(row["gap_low"]) <= float(row["gap"]) <= float(row["gap_high"])
    assert "Client gap" in repeated.latex()
    assert list(repeated.comparisons("gap")["measure"]) == ["gap"]


def test_a_run_is_resumed_with_the_measures_that_it_began_with(tmp_path: Path) -> None:
    whole = simulated(rounds=3)
    simulated(rounds=1, out=tmp_path / "run")
    again = simulated(rounds=3, out=tmp_path / "run", resume=True)
    assert [r["gap"] for r in again.records] == [r["gap"] for r in whole.records]
    with pytest.raises(CheckpointError, match=r"run\.measures"):
        simulated(rounds=4, out=tmp_path / "run", resume=True, measures=[])


def test_it_changes_no_number_of_a_run() -> None:
    without = simulated(measures=[])
    measured = simulated()
    assert [{k: v for k, v in r.items() if k != "gap"} for r in measured.records] == without.records
    np.testing.assert_array_equal(measured.models, without.models)


def test_a_server_computes_it_of_scores_of_real_clients() -> None:
    data = clustered_data()
    model = model_of()
    transport = MemoryTransport()
    join_nodes(transport, [[0, 1, 2], [3, 4, 5]], data, model)
    there = run_rounds(
        remote(transport, data, model), fk.FedAvg(), Plan(rounds=1, cohort=6), measures=[GAP]
    )
    here = there.scored
    assert here is not None
    own = here.client_scores
    assert there.records[-1]["gap"] == own.max() - own.min()


def test_the_file_of_a_server_names_it() -> None:
    Path("server.toml").write_text(
        '[federation]\nname = "trial"\n[samples]\nshape = [6]\nclasses = 6\n'
        '[model]\nname = "mclr"\n'
        '[method]\nname = "fedavg"\n[run]\nmeasures = ["measured:Gap"]\n'
    )
    config = load_server(Path("server.toml"))
    assert [entry["name"] for entry in config.description().run["measures"]] == ["gap"]


BAD = {
    "measured:Raises": "run.measures: raises in round 0 raised IndexError: list index out of range",
    "measured:Words": (
        "run.measures: words in round 0 returned 'many'; expected one number, finite or NaN"
    ),
    "measured:Nothing": (
        "run.measures: nothing in round 0 returned None; expected one number, finite or NaN"
    ),
    "measured:Without": "the measure 'without' has no function",
    "measured:Taken": "the name 'bottom_decile' is taken",
    "measured:Called": "the name 'best' is taken",
    "measured:Ends": "the name 'gap_low' is taken",
    "measured:Gap,measured:Gap": "the measure 'gap' is given twice",
    "measured:Nope": "module 'measured' does not define 'Nope'",
    "nowhere:Gap": "there is no module 'nowhere'",
    "measured:number": "expected fk.Measure(...), or a function that returns one, got int",
    "measured:gap": "raised an error when it was called: TypeError",
    "measured:broken": "raised an error when it was called: OSError: no such file",
    "Gap": "expected package.module:Class, got 'Gap'",
}


def test_of_numbers_it_gets_the_score_of_each_client_and_no_correct_samples() -> None:
    seen: list[fk.ScoredClients] = []

    def note(scored: fk.ScoredClients) -> float:
        seen.append(scored)
        return 0.0

    clients = np.repeat([0, 1, 2, 3], 10)
    x = np.arange(40.0)[:, None] % 7
    data = fk.data.from_arrays(
        x, 1e6 * x[:, 0] + clients, clients=clients, task="regression", loss="squared_error"
    )
    run = simulated(data=data, measures=[fk.Measure("note", of=note)])
    np.testing.assert_array_equal(
        seen[-1].accuracy, run.clients["root_mean_squared_error"].to_numpy()
    )
    assert seen[-1].correct.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("name", BAD)
def test_a_refusal_is_one_line_with_its_place(name: str) -> None:
    from fedkin.run.simulate import execute

    with pytest.raises(ConfigError, match=re.escape(BAD[name])) as refused:
        execute(load(None, [*SMALL, f"run.measures={name}"]), out=Path("run"))
    assert "run.measures" in str(refused.value) and "\n" not in str(refused.value)
    assert not Path("run").exists()


def test_a_private_run_takes_none() -> None:
    privacy = fk.ClientDP(noise_multiplier=1.0, clip=1.0, delta=1e-3)
    with pytest.raises(ConfigError, match=r"privacy: run\.measures \(gap\)"):
        simulated(options=[privacy], selection="poisson")


def test_python_takes_measures_and_their_names() -> None:
    run = simulated(
        measures=["measured:Gap", fk.Measure("two", of=lambda scored: 2, direction="neither")]
    )
    assert run.records[-1]["two"] == 2.0 and run.config.run["measures"][0]["from"] == "measured:Gap"
    with pytest.raises(ConfigError, match=r"measures: expected fk.Measure\(\.\.\.\) or"):
        resolved([gap], "measures")
