"""``data.seed = "run"``: each seed of a run or comparison draws the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.analysis.repeat import execute_seeds
from fedkin.config.registry import datasets, refuse_simulated_only, resolve
from fedkin.config.run import load
from fedkin.core.errors import CheckpointError, ConfigError
from fedkin.reporting.comparison_tables import table_notes
from fedkin.run.simulate import execute

SHORT = (
    "data.name=digits",
    "data.clients=6",
    "data.seed=run",
    "model.name=mclr",
    "method.name=fedavg",
    "run.against=[]",
    "run.rounds=1",
    "run.cohort=3",
)


def samples(run: fk.Run) -> list[int]:
    """The number of training samples of each client: they differ between draws of the data."""
    return run.clients["train_samples"].tolist()


def drawn(seed: int) -> list[int]:
    """What ``samples`` should be, from the data themselves."""
    return fk.data.digits(clients=6, seed=seed).train.sizes.tolist()


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of a run with a compared method, in a folder."""
    out = tmp_path_factory.mktemp("drawn") / "runs"
    config = load(None, [*SHORT, "run.seeds=2", 'run.against=["fedprox"]'])
    execute_seeds(config, out=out)
    return out


def test_each_seed_draws_the_data_and_methods_share_them(seeds: Path) -> None:
    runs = fk.RepeatedRuns.load(seeds).runs
    assert [samples(run) for run in runs] == [drawn(0), drawn(1)]
    assert [samples(run.against["fedprox"]) for run in runs] == [drawn(0), drawn(1)]
    assert drawn(0) != drawn(1)


def test_a_fixed_seed_of_the_data_is_shared_by_all_seeds() -> None:
    fixed = [text for text in SHORT if text != "data.seed=run"]
    runs = execute_seeds(load(None, [*fixed, "run.seeds=2"]), out=None).runs
    assert [samples(run) for run in runs] == [drawn(0), drawn(0)]


def test_a_seed_is_the_single_run_with_this_seed(seeds: Path) -> None:
    alone = execute(load(None, [*SHORT, 'run.against=["fedprox"]', "run.seed=1"]), out=None)
    inner = fk.Run.load(seeds / "seeds" / "1")
    assert inner.fingerprint == alone.fingerprint
    np.testing.assert_array_equal(inner.models, alone.models)
    number = execute(
        load(None, [*SHORT, 'run.against=["fedprox"]', "run.seed=1", "data.seed=1"]), out=None
    )
    np.testing.assert_array_equal(number.models, alone.models)
    assert inner.config.data["seed"] == "run"  # config.toml, run with another seed, draws again


def test_a_stored_run_makes_its_own_data_again(seeds: Path) -> None:
    run = fk.Run.load(seeds / "seeds" / "1")
    assert run.evaluate().summary["accuracy"] == run.summary()["final_accuracy"]
    assert run.trained.parts.data.train.sizes.tolist() == drawn(1)


def test_resuming_adds_seeds_with_their_own_data(seeds: Path) -> None:
    config = load(seeds / "config.toml", ["run.seeds=3"])
    runs = execute_seeds(config, out=seeds, resume=True).runs
    assert [samples(run) for run in runs] == [drawn(0), drawn(1), drawn(2)]
    with pytest.raises(CheckpointError, match=r"data\.seed is 'run' there and 5 here"):
        execute_seeds(load(seeds / "config.toml", ["data.seed=5"]), out=seeds, resume=True)


def test_validation_samples_are_drawn_as_well() -> None:
    config = load(None, [*SHORT, "data.validation=0.2", "run.seed=3"])
    own = fk.data.digits(clients=6, seed=3).with_validation(0.2, 3).part("validation")
    np.testing.assert_array_equal(config.make_data().part("validation").rows, own.rows)


@pytest.mark.parametrize("jobs", [None, 2])
def test_a_comparison_pairs_methods_on_the_data_of_their_seed(
    tmp_path: Path, jobs: int | None
) -> None:
    """Also over a grid, and when the comparison goes on with more seeds."""
    grid = {"local.lr": [0.01, 0.1]}
    few: dict[str, Any] = {"methods": ["fedavg", "fedprox"], "grid": grid, "jobs": jobs}
    out = tmp_path / "compared"
    fk.compare(None, *SHORT, **few, seeds=2, out=out)
    compared = fk.compare(None, *SHORT, **few, seeds=3, out=out, resume=True)
    assert not compared.failed
    for setting in compared.settings:
        for method in compared.methods:
            runs = compared.runs(setting, method)
            assert [samples(run) for run in runs] == [drawn(0), drawn(1), drawn(2)]
    notes = " ".join(table_notes(compared))
    assert "Each seed draws the data, so intervals" in notes
    assert "All seeds share the data" not in notes


def test_noise_can_be_drawn_by_each_seed() -> None:
    """The partition stays the same, and the noise differs: another digest of the data."""
    noise = ["data.seed=0", "label_noise.name=symmetric", "label_noise.rate=0.5"]
    config = load(None, [*SHORT, *noise, "label_noise.seed=run", "run.seeds=2"])
    assert config.draws_data
    runs = execute_seeds(config, out=None).runs
    assert [samples(run) for run in runs] == [drawn(0), drawn(0)]
    labels = [run.trained.parts.data.y for run in runs]
    assert (labels[0] != labels[1]).any()
    fixed = execute_seeds(load(None, [*SHORT, *noise, "run.seeds=2"]), out=None).runs
    labels = [run.trained.parts.data.y for run in fixed]
    np.testing.assert_array_equal(labels[0], labels[1])


@pytest.mark.parametrize("options", [{}, {"attack": "label_flip"}])
def test_a_run_with_changed_data_can_be_read_and_scored(
    tmp_path: Path, options: dict[str, str]
) -> None:
    """The stored run makes the noisy (or poisoned) data again, so its training scores agree."""
    settings = ["label_noise.name=pair", "label_noise.rate=0.5"]
    if options:
        settings = ["attack.name=byzantine", "attack.attack=label_flip"]
    run = execute(load(None, [*SHORT, *settings]), out=tmp_path / "run")
    read = fk.Run.load(tmp_path / "run")
    assert read.evaluate("train").summary == run.evaluate("train").summary

    data = fk.data.digits(clients=6)
    model = fk.models.mclr(data)
    option = fk.Byzantine("label_flip") if options else fk.PairFlips(rate=0.5)
    python = fk.simulate(
        fk.FedAvg(), data, model, rounds=1, cohort=3, options=[option], out=tmp_path / "python"
    )
    read = fk.Run.load(tmp_path / "python", data=data, model=model)
    assert read.evaluate("train").summary == python.evaluate("train").summary


def test_settings_of_a_grid_share_data_without_noise(tmp_path: Path) -> None:
    """Flips of labels are not applied a second time for the second setting, where they would undo
    themselves."""
    flips = ["data.seed=0", "attack.name=byzantine", "attack.attack=label_flip", "attack.share=0.5"]
    compared = fk.compare(
        None,
        *SHORT,
        *flips,
        methods=["fedavg"],
        seeds=1,
        grid={"run.evaluate_every": [1, 2]},
        out=tmp_path / "compared",
    )
    first, second = (compared.runs(setting, "FedAvg")[0] for setting in compared.settings)
    np.testing.assert_array_equal(first.models, second.models)


def test_bad_seeds() -> None:
    with pytest.raises(ConfigError, match=r"^data\.seed: expected a valid integer or 'run', got"):
        load(None, [*SHORT, "data.seed=each"])
    entry = resolve("data set", datasets(), {"name": "digits", "seed": "run"}, str)
    with pytest.raises(ConfigError, match=r"no run here; give a number, such as seed = 0"):
        entry.make()
    with pytest.raises(ConfigError, match=r"^client\.toml: data\.seed: 'run' does not apply to a"):
        refuse_simulated_only({"seed": "run"}, lambda key: f"client.toml: {key}")
