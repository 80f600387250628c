"""A run folder is begun whole or not at all."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.config.description import Description
from fedkin.core.errors import CheckpointError, StorageError
from fedkin.data.digest import data_digest
from fedkin.data.federated import FederatedData, Ragged
from fedkin.run.folder.fingerprint import determining_part, environment, fingerprint
from fedkin.run.folder.run_folder import Folder, holds_run, read_config, read_records
from tests.full_disk import no_file_longer_than
from tests.run.toy_method import fake_world

DESCRIPTION = Description({"method": {"name": "toy"}, "run": {"rounds": 3, "cohort": 2, "seed": 0}})


def test_it_describes_the_run_and_its_folder(tmp_path: Path) -> None:
    Folder.create(tmp_path / "deep" / "run", DESCRIPTION)
    assert tomllib.loads((tmp_path / "deep/run/config.toml").read_text()) == DESCRIPTION.sections
    told = json.loads((tmp_path / "deep/run/environment.json").read_text())
    assert told["versions"]["fedkin"] and told["versions"]["numpy"] == np.__version__
    assert set(told) == {"versions", "platform", "machine", "cores", "devices"}
    assert told == environment(DESCRIPTION)


def test_a_folder_that_holds_a_run_is_refused(tmp_path: Path) -> None:
    Folder.create(tmp_path, DESCRIPTION)
    assert holds_run(tmp_path)
    with pytest.raises(
        StorageError, match=r"already holds a run; resume it \(--resume, resume=True"
    ):
        Folder.create(tmp_path, DESCRIPTION)


def test_other_files_in_the_folder_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    Folder.create(tmp_path, DESCRIPTION).abandon()
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot write"):
        Folder.create(tmp_path / "file" / "run", DESCRIPTION)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    with no_file_longer_than(10), pytest.raises(StorageError):
        Folder.create(tmp_path / "deep" / "run", DESCRIPTION)
    assert not list(tmp_path.iterdir())


def test_another_configuration_is_refused_with_the_difference(tmp_path: Path) -> None:
    Folder.create(tmp_path, DESCRIPTION)
    other = DESCRIPTION.with_run(seed=1)
    with pytest.raises(CheckpointError, match=r"run\.seed is 0 there and 1 here"):
        Folder.reopen(tmp_path, other)


def test_a_folder_without_a_run_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no run"):
        read_config(tmp_path)
    (tmp_path / "config.toml").write_text("= nonsense")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_config(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("nonsense\n")
    with pytest.raises(CheckpointError, match="is damaged"):
        read_records(tmp_path)


def test_a_fingerprint_covers_all_settings_that_decide_the_numbers() -> None:
    with_run = DESCRIPTION.with_run
    base = fingerprint(DESCRIPTION, "data")
    assert (
        fingerprint(
            with_run(rounds=9, against=["fedavg"], checkpoint_every=3, target=0.5, devices=2),
            "data",
        )
        == base
    )
    for other in (
        with_run(seed=1),
        with_run(cohort=3),
        with_run(evaluate_every=2),
        DESCRIPTION.with_sections({"method": {}}),
    ):
        assert fingerprint(other, "data") != base
    assert fingerprint(DESCRIPTION, "other data") != base
    assert determining_part(DESCRIPTION)["run"] == {"cohort": 2, "seed": 0}


def test_a_data_digest_sees_labels_features_and_owners(tiny: FederatedData) -> None:
    base = data_digest(tiny)
    assert data_digest(replace(tiny)) == base
    x = tiny.x.copy()
    x[0, 0] += 1
    moved = Ragged(tiny.train.rows[::-1].copy(), tiny.train.offsets)
    assert tiny.true_clusters is not None
    truths = (
        replace(tiny, true_clusters=1 - tiny.true_clusters),
        replace(tiny, true_clusters=None),
    )
    for other in (
        replace(tiny, x=x),
        replace(tiny, y=1 - tiny.y),
        replace(tiny, train=moved),
        *truths,
    ):
        assert data_digest(other) != base


@pytest.mark.parametrize("row", [0, 1, 9_998, 9_999])
def test_a_data_digest_sees_every_sample(row: int) -> None:
    x = np.zeros((10_000, 1), np.float32)
    owner = Ragged.of([np.arange(10_000)])
    base = FederatedData(
        name="large", x=x, y=np.zeros(10_000, np.int64), classes=1, train=owner, test=owner
    )
    changed = x.copy()
    changed[row] = 1
    assert data_digest(replace(base, x=changed)) != data_digest(base)


def resumed_after(folder: Path, **changes: Any) -> str:
    """The environment file after a run has gone on in another environment."""
    Folder.create(folder, DESCRIPTION)
    (folder / "environment.json").write_text(json.dumps(environment(DESCRIPTION) | changes))
    Folder.reopen(folder, DESCRIPTION).restore(fake_world())
    return (folder / "environment.json").read_text()


def test_another_environment_is_one_warning_and_is_written_down(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = environment(DESCRIPTION)
    other = now["versions"] | {"jax": "0.0.1"}
    for i, changes in enumerate(
        ({"versions": other}, {"machine": "abacus"}, {"versions": other, "platform": "Loom"})
    ):
        assert json.loads(resumed_after(tmp_path / str(i), **changes)) == now
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 3 and all("results may differ in their last bits" in line for line in told)
    assert f"jax 0.0.1 -> {now['versions']['jax']}" in told[0]
    assert f"machine abacus -> {now['machine']}" in told[1]
    assert f"platform Loom -> {now['platform']}" in told[2]


def test_the_same_environment_is_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = environment(DESCRIPTION)
    assert json.loads(resumed_after(tmp_path / "same")) == now
    # Bits do not depend on them.
    assert json.loads(resumed_after(tmp_path / "cores", cores=999)) == now
    assert not caplog.records


@pytest.mark.parametrize("path", ["x1/x2/{}", "x1/{}/x2", "{}"])
def test_a_name_that_is_too_long_leaves_nothing(tmp_path: Path, path: str) -> None:
    with pytest.raises(StorageError, match="File name too long"):
        Folder.create(tmp_path / path.format("a" * 300), DESCRIPTION)
    assert not list(tmp_path.iterdir())
