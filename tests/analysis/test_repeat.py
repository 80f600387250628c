"""Many seeds in one process equal the seeds alone. Their joint numbers are computed again in
another way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jax
import pandas as pd
import pytest
from safetensors.numpy import load_file

import fedkin as fk
from fedkin.analysis.repeat import execute_seeds, repeat
from fedkin.analysis.repeated_runs import RepeatedRuns
from fedkin.config import run as configuration
from fedkin.config.run import RunConfig
from fedkin.core.errors import CheckpointError, ConfigError, MethodError, StorageError
from fedkin.data.federated import FederatedData
from fedkin.models import mclr
from fedkin.run.run import Run
from fedkin.run.simulate import execute
from fedkin.simulation.jax import local_training
from tests.analysis.written_seeds import with_options

TOGETHER = {"config.toml", "environment.json", "curves.csv", "comparisons.csv"}
# They hold seconds, or sums of such.
NEVER_THE_SAME = {
    "timings.jsonl",
    "summary.json",
    "SHA256SUMS",
}
TRAIN: Any = local_training.train  # a compiled function, which can count its programs


class Stop(Exception):
    pass


def settings(seeds: int | None = 3, rounds: int = 3, **run: Any) -> RunConfig:
    chosen = {
        "rounds": rounds,
        "cohort": 3,
        "seeds": seeds,
        "against": ["fedavg"],
        "checkpoint_every": 2,
    } | run
    sections = {"data": {"name": "digits", "clients": 8}, "local": {"epochs": 1}}
    return configuration.from_dict(
        {**sections, "run": {k: v for k, v in chosen.items() if v is not None}}
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seeds, not interrupted."""
    out = tmp_path_factory.mktemp("whole") / "run"
    execute_seeds(settings(), out=out)
    return out


def files(root: Path) -> set[Path]:
    return {path.relative_to(root) for path in root.rglob("*") if path.is_file()}


def same(one: Path, other: Path, left_out: set[str] = NEVER_THE_SAME) -> None:
    """Byte for byte; of checkpoints, which hold seconds, every array."""
    assert {p for p in files(one) if p.name not in left_out} == {
        p for p in files(other) if p.name not in left_out
    }
    for path in sorted(files(one)):
        if path.suffix == ".safetensors":
            ours = load_file(one / path)
            theirs = load_file(other / path)
            assert ours.keys() == theirs.keys(), path
            assert all(array.tobytes() == theirs[name].tobytes() for name, array in ours.items()), (
                path
            )
        elif path.name not in left_out:
            assert (one / path).read_bytes() == (other / path).read_bytes(), path


def without_seconds(path: Path) -> dict[str, Any]:
    return {
        name: value for name, value in json.loads(path.read_text()).items() if name != "seconds"
    }


# --- seeds in one process


def test_a_seed_in_a_row_is_that_seed_alone(whole: Path, tmp_path: Path) -> None:
    execute(settings(None, seed=2), out=tmp_path / "alone")
    same(whole / "seeds/2", tmp_path / "alone", NEVER_THE_SAME)
    for part in (".", "against/fedavg"):
        ours, alone = (p / part / "summary.json" for p in (whole / "seeds/2", tmp_path / "alone"))
        assert without_seconds(ours) == without_seconds(alone)


def test_a_seed_is_a_run_that_can_be_read_and_gone_on_with_alone(
    whole: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole / "seeds/1", tmp_path / "one")
    again = execute(settings(None, rounds=4, seed=1), out=tmp_path / "one", resume=True)
    longer = execute(settings(None, rounds=4, seed=1), out=None)
    assert again.records == longer.records
    assert Run.load(tmp_path / "one").models.tobytes() == longer.models.tobytes()


def test_seeds_are_not_the_same_run(whole: Path) -> None:
    records = [(whole / f"seeds/{seed}/metrics.jsonl").read_bytes() for seed in range(3)]
    assert len(set(records)) == 3


def test_seeds_start_at_the_given_number(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    repeated = execute_seeds(
        settings(2, 1, seed=5), out=tmp_path / "run", on_seed=lambda *seed: told.append(seed)
    )
    assert told == [(0, 5), (1, 6)] and repeated.seeds == [5, 6]
    assert sorted(p.name for p in (tmp_path / "run/seeds").iterdir()) == ["5", "6"]


def release_programs() -> None:
    """Release all compiled programs: a count begins at zero, and is far from the limit of memory
    maps, at which a run would release some."""
    jax.clear_caches()
    TRAIN.clear_cache()


def test_training_is_compiled_once(tiny: FederatedData) -> None:
    """All clients of the tiny data have as many samples,
    so that shapes are the same from any seed."""
    model = mclr(tiny)
    local = fk.SGD(epochs=2, batch_size=5, lr=0.5)

    def compiled(seeds: list[int]) -> int:
        release_programs()
        repeat(
            lambda seed: fk.simulate(
                fk.FedAvg(), tiny, model, rounds=2, cohort=4, local=local, seed=seed
            ),
            seeds,
        )
        return TRAIN._cache_size()

    assert compiled([0]) == compiled([0, 1, 2]) == 1


def test_a_configuration_compiles_no_more_for_more_seeds() -> None:
    """Every client is selected in every round, so that shapes are the same from any seed."""

    def compiled(seeds: int) -> int:
        release_programs()
        run = {"cohort": 8, "seeds": seeds}
        execute_seeds(
            with_options({"method": {"name": "fedavg"}, "run": {**run, "against": ["fedprox"]}}),
            out=None,
        )
        return TRAIN._cache_size()

    assert compiled(3) == compiled(1) > 0


# --- stopped, and gone on with


@pytest.mark.parametrize(
    ("seed", "method", "round"),
    [(0, "fedgroup", 1), (1, "fedgroup", 3), (1, "fedavg", 0), (2, "fedavg", 3)],
)
def test_stopped_within_a_seed(
    whole: Path, tmp_path: Path, seed: int, method: str, round: int
) -> None:
    def stop(record: dict[str, Any]) -> None:
        if (begun[-1], record["method"], record["round"]) == (seed, method, round):
            raise Stop

    begun: list[int] = []
    with pytest.raises(Stop):
        execute_seeds(
            settings(),
            out=tmp_path / "run",
            on_round=stop,
            on_seed=lambda _, seed: begun.append(seed),
        )
    assert begun == list(range(seed + 1))
    with pytest.raises(CheckpointError):
        RepeatedRuns.load(tmp_path / "run")
    execute_seeds(settings(), out=tmp_path / "run", resume=True)
    same(whole, tmp_path / "run")


def test_stopped_between_seeds(whole: Path, tmp_path: Path) -> None:
    def stop(number: int, _: int) -> None:
        if number == 2:
            raise Stop

    with pytest.raises(Stop):
        execute_seeds(settings(), out=tmp_path / "run", on_seed=stop)
    assert sorted(p.name for p in (tmp_path / "run/seeds").iterdir()) == ["0", "1"]
    with pytest.raises(CheckpointError, match="holds no run"):
        RepeatedRuns.load(tmp_path / "run")
    execute_seeds(settings(), out=tmp_path / "run", resume=True)
    same(whole, tmp_path / "run")


def test_finished_seeds_are_not_run_again(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    told: list[Any] = []
    again = execute_seeds(settings(), out=tmp_path / "run", resume=True, on_round=told.append)
    assert not told
    same(whole, tmp_path / "run")
    assert again.summary() == json.loads((whole / "summary.json").read_text())


def test_more_seeds_and_more_rounds(whole: Path, tmp_path: Path) -> None:
    execute_seeds(settings(2, 2), out=tmp_path / "run")
    execute_seeds(settings(3, 2), out=tmp_path / "run", resume=True)
    execute_seeds(settings(), out=tmp_path / "run", resume=True)
    same(whole, tmp_path / "run", NEVER_THE_SAME | {p.name for p in whole.rglob("*.safetensors")})
    for path in whole.glob("seeds/*/checkpoints/round-000003.safetensors"):
        other = load_file(tmp_path / "run" / path.relative_to(whole))
        assert all(
            array.tobytes() == other[name].tobytes() for name, array in load_file(path).items()
        )


def test_fewer_seeds_are_those_and_the_others_stay(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    assert execute_seeds(settings(2), out=tmp_path / "run", resume=True).seeds == [0, 1]
    assert RepeatedRuns.load(tmp_path / "run").seeds == [0, 1]
    assert json.loads((tmp_path / "run/summary.json").read_text())["seeds"] == [0, 1]
    execute_seeds(settings(), out=tmp_path / "run", resume=True)
    same(whole, tmp_path / "run")


def test_fewer_rounds_are_refused_and_nothing_is_changed(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    with pytest.raises(
        CheckpointError, match=r"is already at round 3; run\.rounds must be at least that"
    ):
        execute_seeds(settings(rounds=2), out=tmp_path / "run", resume=True)
    same(whole, tmp_path / "run", set())


@pytest.mark.parametrize("method", ["fedgroup", "fedavg"])
def test_a_failure_after_a_checkpoint_can_be_gone_on_with(
    whole: Path, tmp_path: Path, method: str
) -> None:
    def full(record: dict[str, Any]) -> None:
        if (record["method"], record["round"]) == (method, 3):
            raise StorageError("no space left")

    with pytest.raises(StorageError):
        execute_seeds(settings(), out=tmp_path / "run", on_round=full)
    execute_seeds(settings(), out=tmp_path / "run", resume=True)
    same(whole, tmp_path / "run")


# --- refused


def test_a_folder_of_one_run_is_refused(tmp_path: Path) -> None:
    execute(settings(None, 1), out=tmp_path / "run")
    before = {path: (tmp_path / "run" / path).read_bytes() for path in files(tmp_path / "run")}
    with pytest.raises(
        CheckpointError, match="holds one run, not several seeds; start them in another folder"
    ):
        execute_seeds(settings(2, 1), out=tmp_path / "run", resume=True)
    with pytest.raises(StorageError, match="already holds a run"):
        execute_seeds(settings(2, 1), out=tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"holds one run, not several seeds; use Run\.load"):
        RepeatedRuns.load(tmp_path / "run")
    assert {
        path: (tmp_path / "run" / path).read_bytes() for path in files(tmp_path / "run")
    } == before


def test_a_folder_of_seeds_says_how_it_is_read(whole: Path) -> None:
    with pytest.raises(CheckpointError, match=r"several seeds; use RepeatedRuns\.load"):
        Run.load(whole)
    assert Run.load(whole / "seeds/0").summary()["seed"] == 0


@pytest.mark.parametrize("change", [{"seed": 1}, {"cohort": 4}, {"selection": "round_robin"}])
def test_other_seeds_or_settings_are_another_experiment(
    whole: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    shutil.copytree(whole, tmp_path / "run")
    with pytest.raises(CheckpointError, match=f"another configuration .*{next(iter(change))}"):
        execute_seeds(settings(**change), out=tmp_path / "run", resume=True)
    same(whole, tmp_path / "run", set())


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"scenario": {"dropout": 1.0}}, MethodError),  # in the cold start
        ({"method": {"clusters": 9}}, ConfigError),
        ({"run": {"cohort": 9}}, ConfigError),
        ({"data": {"clients": 10**6}}, ConfigError),
    ],
)
def test_a_refused_call_leaves_nothing_behind(
    tmp_path: Path, options: dict[str, Any], error: type[Exception]
) -> None:
    options = {**options, "run": {**options.get("run", {}), "seeds": 2}}
    with pytest.raises(error):
        execute_seeds(with_options(options), out=tmp_path / "new/run")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seeds", [0, -1, True, 1.5, "many"])
def test_a_configuration_without_seeds(seeds: Any) -> None:
    with pytest.raises(ConfigError, match=r"^run\.seeds"):
        with_options({"run": {"seeds": seeds}})


# --- files


def test_kept_runs_are_read_again(whole: Path) -> None:
    again = RepeatedRuns.load(whole)
    assert again.seeds == [0, 1, 2] and again.methods == ["fedgroup", "fedavg"]
    assert again.summary() == json.loads(
        (whole / "summary.json").read_text(), parse_constant=pytest.fail
    )
    assert {path.name for path in whole.iterdir()} == TOGETHER | {"seeds", "summary.json"}


def test_a_summary_is_json(whole: Path) -> None:
    summary = RepeatedRuns.load(whole).summary()
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["seeds"] == [0, 1, 2] and summary["rounds"] == 3
    assert [made["against"] for made in summary["comparisons"]] == ["fedavg"]


def test_curves_are_kept_number_by_number(whole: Path) -> None:
    table = pd.read_csv(whole / "curves.csv")
    assert list(table.columns) == ["method", "seed", "round", "accuracy"]
    assert len(table) == 2 * 3 * 4
    for method, part in (("fedgroup", "."), ("fedavg", "against/fedavg")):
        for seed in range(3):
            lines = (whole / f"seeds/{seed}" / part / "metrics.jsonl").read_text().splitlines()
            kept = table[(table["method"] == method) & (table["seed"] == seed)]
            assert list(kept["round"]) == [0, 1, 2, 3]
            assert list(kept["accuracy"]) == [json.loads(line)["accuracy"] for line in lines]


def test_comparisons_are_kept(whole: Path) -> None:
    (row,) = pd.read_csv(whole / "comparisons.csv").to_dict(orient="records")
    (told,) = json.loads((whole / "summary.json").read_text())["comparisons"]
    assert {name: None if value != value else value for name, value in row.items()} == told
