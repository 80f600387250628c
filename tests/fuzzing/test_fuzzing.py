"""Damage is named or changes nothing, in a few hundred cases; ``make chaos`` has thousands. Every
fault they ever found has its own test at the end."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.server import load_client
from fedkin.core.errors import ConfigError, DataError
from fedkin.data import files
from fedkin.run.folder.folder_state import state_of
from fedkin.server.message import RpcMessage
from fedkin.server.node import respond
from tests.fuzzing import configurations
from tests.fuzzing.cases import failure
from tests.fuzzing.targets import TARGETS, Target
from tests.server.small_federations import fake_node

CASES = {"runs": 150, "configurations": 1500, "samples": 500, "messages": 2000}


@pytest.fixture(scope="module", params=TARGETS)
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Target]:
    return request.param, TARGETS[request.param](tmp_path_factory.mktemp(request.param))


def test_damage_is_named_or_changes_nothing(target: tuple[str, Target]) -> None:
    name, damaged = target
    failures = {seed: text for seed in range(CASES[name]) if (text := failure(damaged, seed))}
    assert not failures


def test_a_case_can_fail(tmp_path: Path) -> None:
    class Believes(Target):
        def case(self, rng: np.random.Generator) -> None:
            if rng.random() < 0.5:
                raise KeyError("a traceback")

    texts = [failure(Believes(tmp_path), seed) for seed in range(20)]
    assert any(texts) and not all(texts)


def test_a_finished_run_without_its_last_checkpoint(
    run_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = fk.Run.load(run_folder)
    newest, *older = sorted((run_folder / "checkpoints").glob("round-*"), reverse=True)
    shutil.copy(newest, run_folder / "kept")
    newest.unlink()
    assert older
    with caplog.at_level(logging.WARNING, "fedkin"):
        fk.Run.load(run_folder)
    assert (
        "has no intact checkpoint of its last round, 2, so its models are from round" in caplog.text
    )
    assert any("no intact checkpoint" in problem for problem in state_of(run_folder).problems)
    shutil.move(run_folder / "kept", newest)
    assert (
        not state_of(run_folder).problems and (fk.Run.load(run_folder).models == run.models).all()
    )


def test_a_sites_file_without_a_data_set_or_a_shape(tmp_path: Path) -> None:
    path = tmp_path / "client.toml"
    text = configurations.CLIENT
    path.write_text(text.replace('name = "file"\n', ""))
    with pytest.raises(ConfigError, match=r"data\.name: is required"):
        load_client(path)
    path.write_text(text.replace("shape = [2]", "shape = []"))
    assert load_client(path).samples.shape == []


def test_columns_of_types_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    def read(path: Path) -> None:
        raise TypeError("data type 'fl_at32' not understood")

    monkeypatch.setattr(pd, "read_parquet", read)
    with pytest.raises(DataError, match=r"damaged or of another kind .*fl_at32"):
        files.read_table(tmp_path / "mine.parquet")


def test_a_request_for_clients_that_no_server_gives() -> None:
    header = {"operation": "train", "run": "trial", "first": 2**70, "count": 1}
    reply = respond(lambda: fake_node("berlin"), lambda: RpcMessage(header))
    assert "an id must be from 0 to" in reply.header["failed"]


@pytest.mark.parametrize("seed", [5098, 9719])
def test_damaged_names_of_a_parquet_files_columns_are_named(seed: int, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a Parquet file, but it is damaged"):
        TARGETS["samples"](tmp_path).case(np.random.default_rng(seed))
