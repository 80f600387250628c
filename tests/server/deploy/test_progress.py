"""The lines by which ``fedkin deploy up --wait`` shows how far a run is."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkin.config.server import ServerConfig, load_server
from fedkin.server.deploy.init import init
from fedkin.server.deploy.progress import RunProgress


@pytest.fixture
def config(tmp_path: Path) -> ServerConfig:
    """Five rounds of FlexCFL, and of FedAvg after it."""
    folder = init(tmp_path / "fed", 2, secure=False).folder
    return load_server(folder / "server.toml")


def rounds(run: Path, number: int) -> None:
    """Let a run have completed so many rounds, and have begun another line."""
    run.mkdir(parents=True, exist_ok=True)
    (run / "metrics.jsonl").write_text("{}\n" * number + '{"rou')


def test_rounds_are_counted_and_the_time_left_is_estimated(config: ServerConfig) -> None:
    now = 0.0
    progress = RunProgress(config, lambda: now)
    run = Path(config.federation.folder)
    assert progress.line("waiting for 2 clients: 1 ready, 0 refused") == (
        "progress: waiting for 2 clients: 1 ready, 0 refused"
    )
    assert progress.line("waiting for 2 clients: 1 ready, 0 refused") == ""
    assert progress.line("") == "" and progress.line("") == ""
    now = 20.0
    rounds(run, 2)
    # Two of the twelve rounds (0 to 5, for two methods) took 20 s, so ten take 100 s.
    expected = "progress: 1 of 10 rounds (flexcfl 1 of 5, fedavg 0 of 5), about 2 min left"
    assert progress.line("") == expected
    now = 25.0
    rounds(run, 3)
    assert progress.line("") == ""  # a line every ten seconds is enough
    now = 60.0
    rounds(run, 6)
    rounds(run / "against/fedavg", 3)
    assert progress.line("") == (
        "progress: 7 of 10 rounds (flexcfl 5 of 5, fedavg 2 of 5), about 20 s left"
    )
    assert progress.line("") == ""


def test_rounds_before_a_resume_do_not_count_for_the_time(config: ServerConfig) -> None:
    now = 0.0
    progress = RunProgress(config, lambda: now)
    run = Path(config.federation.folder)
    rounds(run, 4)
    assert progress.line("") == "progress: 3 of 10 rounds (flexcfl 3 of 5, fedavg 0 of 5)"
    now = 10.0
    rounds(run, 5)
    assert progress.line("").endswith("about 70 s left")
