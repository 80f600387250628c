"""Killed in the middle of one of several seeds and resumed, the folder ends with the same bytes as
if never stopped."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from tests.process.test_killed_runs import exit_codes, run

SETTINGS = [
    *(
        "data.clients=8",
        "run.rounds=3",
        "run.cohort=3",
        "local.epochs=1",
        "run.seeds=3",
        "run.checkpoint_every=2",
    ),
    "run.against=[]",
]
# A seed adds 8 lines (records and timings of rounds 0 to 3) and 3 checkpoints (rounds 0, 2 and 3).
MOMENTS = [
    ("in a line", 13, ["0", "1"]),  # a record of the second seed
    ("in a checkpoint", 9, ["0", "1", "2"]),  # the very last
]
# They hold seconds, or sums of such.
NEVER_THE_SAME = {
    "timings.jsonl",
    "summary.json",
    "SHA256SUMS",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The uninterrupted seeds."""
    out = tmp_path_factory.mktemp("whole") / "run"
    run(*SETTINGS, "--out", out)
    return out


def contents(root: Path) -> dict[str, object]:
    """Every file's bytes; of checkpoints, which hold seconds, every array's."""
    files: dict[str, object] = {}
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        name = str(path.relative_to(root))
        if path.suffix == ".safetensors":
            files[name] = {key: array.tobytes() for key, array in load_file(path).items()}
        else:
            files[name] = None if path.name in NEVER_THE_SAME else path.read_bytes()
    return files


def test_killed_and_resumed(whole: Path, tmp_path: Path) -> None:
    folders = [tmp_path / f"{number}-{how.replace(' ', '-')}" for how, number, _ in MOMENTS]
    jobs = [
        (how, n, ["run", *SETTINGS, "--out", str(f)])
        for (how, n, _), f in zip(MOMENTS, folders, strict=True)
    ]
    assert exit_codes(jobs) == [-signal.SIGKILL] * len(jobs)
    for folder, (_, _, begun) in zip(folders, MOMENTS, strict=True):
        assert sorted(p.name for p in (folder / "seeds").iterdir()) == begun
        assert not (folder / "summary.json").exists()
        run("--resume", folder)
        assert contents(folder) == contents(whole)
