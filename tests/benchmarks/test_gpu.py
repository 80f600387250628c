"""``python -m benchmarks.gpu`` in its smallest form on this machine's device, and its page."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import pytest
from jax.errors import JaxRuntimeError

from benchmarks import flute
from benchmarks.gpu import device, needs, page, parts, rounds, server, store
from benchmarks.gpu.__main__ import RESULTS, main
from benchmarks.gpu.parts import COLD_START, CPU, SCORING, TABLE_III, attempt
from benchmarks.gpu.rounds import COMPILED, LOOP, LOW
from benchmarks.gpu.size import FULL, SMALL
from fedkin.core.errors import DataError

PAGE = Path("docs/gpu.md")
FULL_CARD = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 GiB"
MLP = "784-128-10"


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A page without measurements."""
    path = tmp_path / "page.md"
    path.write_text("before\n<!-- measured -->\nold\n<!-- /measured -->\nafter\n")
    return path


def test_everything_is_measured_in_small_and_not_again(
    tmp_path: Path, empty: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    results = tmp_path / "results.json"
    command = ["--small", "--results", str(results), "--page", str(empty)]
    # In another process: where torchax has registered its devices, torch.compile fails.
    script = [sys.executable, "-m", "benchmarks.gpu", *command]
    subprocess.run(script, check=True, capture_output=True)
    found = json.loads(results.read_text())
    assert found["machine"]["device"] == jax.devices()[0].device_kind
    assert found["check"][f"difference, {MLP}"] < 1e-4
    measured = found["measured"]
    assert "fault" not in json.dumps(measured)
    assert set(measured["a"]) == {MLP, CPU}
    assert set(measured["a"][MLP]) == {"1", "8", LOW, LOOP, COMPILED}
    assert set(measured["b"]) == set(flute.SETTINGS)
    assert set(measured["c"]) == {SCORING + MLP, *server.MATHS} | {
        COLD_START + name for name in server.METHODS
    }
    assert measured["d"][TABLE_III]["rounds"] == 2
    # The device's forms of the maths are those of NumPy.
    assert all(measured["c"][name]["difference"] < 1e-4 for name in server.MATHS)
    assert empty.read_text().startswith("before\n<!-- measured -->\nOne ")
    # The smallest form has neither the CNN nor 32 and 128 clients in parallel.
    left_out = (f"| {MLP} |", "| CNN |", "| scoring 1,000 clients, CNN |")
    rows = empty.read_text().splitlines()
    assert all(row.startswith(left_out) for row in rows if "not measured" in row)

    def again(*_: Any) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(rounds, "measure", again)
    monkeypatch.setattr(device, "check", again)
    capsys.readouterr()
    main(command)
    assert json.loads(results.read_text()) == found
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_page_has_the_stored_results() -> None:
    assert page.section(store.load(RESULTS)) in PAGE.read_text()


def test_missing_measurements_are_named() -> None:
    text = page.section(store.load(Path("nowhere.json")))
    assert text.startswith("**No run on a GPU has been measured yet.**")
    assert f"| {MLP} | not measured | not measured |" in text
    assert "| ResNet-18, CIFAR-100 | not measured | below 0.4 | 1.53 |" in text


def test_numbers_of_the_page() -> None:
    """Fedkin takes 0.5 s at best; PyTorch 0.625 s for 8 of 128 clients, that is 10 s for all."""
    assert FULL.cohort == 128 and FULL.of_loop == 8
    seconds: dict[str, Any] = {"1": [4.0, 4.0], "8": [0.4, 0.6], "32": [3.0, 3.0]}
    seconds |= {"128": "too little memory", LOOP: [0.625, 0.625], COMPILED: [0.25, 0.25]}
    results = {"machine": {}, "measured": {"a": {MLP: seconds}, "b": {}, "c": {}, "d": {}}}
    results["measured"]["b"] = {"CNN of FLUTE, FEMNIST": {store.FAULT: "the time was over"}}
    results["measured"]["c"] = {
        "cosines": {"NumPy": [6.0], "device": [2.0], "device, without the copy": [1.0]}
    }
    text = page.section(results)
    cells = "4.000 | 0.500 | 3.000 | too little memory | not measured | not measured"
    assert f"| {MLP} | {cells} | 10.000 | 4.000 |" in text
    # The ratios of the turns are 25 and 16.7.
    assert f"| {MLP} | 8 | **20.8** (18.8-22.9) | **8.3** (7.5-9.2) |" in text
    assert "| CNN of FLUTE, FEMNIST | not measured: the time was over |" in text
    assert "| cosines | 6.000 | 2.000 | 1.000 | 3.0 |" in text


def failing(error: Exception) -> Callable[[], dict[str, Any]]:
    def measure() -> dict[str, Any]:
        raise error

    return measure


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (JaxRuntimeError(FULL_CARD), "too little free memory"),
        (JaxRuntimeError("INTERNAL: cuDNN\nmore"), "INTERNAL: cuDNN"),
        (ModuleNotFoundError("No module", name="torch"), "torch is not installed"),
        (DataError("FEMNIST is missing\nhelp"), "not there (FEMNIST is missing)"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_a_fault_is_stored(error: Exception, word: str) -> None:
    assert word in attempt(failing(error), 60)[store.FAULT]


def test_a_measurement_is_stopped_when_the_time_is_over() -> None:
    assert attempt(lambda: time.sleep(60) or {}, 0.05) == {store.FAULT: "the time was over"}


def test_seconds_of_the_cpu_are_not_taken_for_those_of_the_device() -> None:
    def measure() -> dict[str, Any]:
        parts.logging.getLogger("fedkin").warning("cuda:0 cannot be used: a fault")
        return {"seconds": 1.0}

    assert attempt(measure, 60) == {store.FAULT: "cuda:0 cannot be used: a fault"}


def test_a_number_of_lanes_without_memory_is_left_out() -> None:
    def large(_: int) -> None:
        raise JaxRuntimeError(FULL_CARD)

    running, faults = rounds.split({"1": print, "128": large})
    assert list(running) == ["1"] and faults == {"128": "too little memory"}


@pytest.mark.parametrize("number", [0.5, float("nan")])
def test_a_device_with_other_numbers_measures_nothing(
    number: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "difference", lambda *_: number)
    with pytest.raises(SystemExit, match="differ from the CPU's by"):
        device.check(SMALL)


def test_a_device_without_memory_for_one_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> float:
        raise JaxRuntimeError(FULL_CARD)

    monkeypatch.setattr(device, "difference", full)
    with pytest.raises(SystemExit, match="cannot train one client: it has too little free memory"):
        device.check(SMALL)


def test_results_of_another_machine_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    store.save(path, {"machine": {"device": "another card"}, "measured": {}})
    with pytest.raises(SystemExit, match=r"another card.*--results"):
        main(["--small", "--results", str(path)])


def test_without_an_accelerator_nothing_is_measured_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    with pytest.raises(SystemExit, match="no accelerator"):
        main(["--results", str(tmp_path / "results.json")])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert needs.missing() == []
    monkeypatch.setattr(needs, "installed", lambda name: None if name == "pydantic" else "1")
    with pytest.raises(SystemExit, match="fedkin needs pydantic, not installed"):
        main([])
