"""The notebook runs from top to bottom, and gives the outputs that it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks need pip install 'fedkin[docs]'")
nbclient = pytest.importorskip("nbclient", reason="notebooks need pip install 'fedkin[docs]'")
NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "quickstart.ipynb"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel of the very interpreter that runs the tests, whatever others are installed on the
    machine."""
    from ipykernel.kernelspec import write_kernel_spec

    write_kernel_spec(tmp_path / "kernels" / "under-test")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    # Pictures go into the notebook, as the kernel has it.
    monkeypatch.delenv("MPLBACKEND", raising=False)
    return "under-test"


def shown(notebook: Any) -> Iterator[tuple[str, str, str]]:
    """For every output: its cell, its kind and its text."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            kind = "picture" if "image/png" in data else output.output_type
            yield cell.id, kind, output.get("text") or data.get("text/plain", "")


def test_it_shows_data_a_table_a_figure_and_a_comparison() -> None:
    stored = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(stored)
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert all(cell.source.strip() for cell in code)
    # One execution, in order.
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [kind for _, kind, _ in shown(stored)]
    assert outputs.count("picture") >= 2 and "execute_result" in outputs and "error" not in outputs
    assert any("fedavg" in text for _, _, text in shown(stored))


def test_it_runs_and_shows_the_stored_outputs(kernel: str, tmp_path: Path) -> None:
    stored = nbformat.read(NOTEBOOK, as_version=4)
    fresh = nbformat.read(NOTEBOOK, as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(fresh, timeout=600, kernel_name=kernel, resources=where).execute()
    before = list(shown(stored))
    after = list(shown(fresh))
    assert [one[:2] for one in before] == [one[:2] for one in after]
    for (cell, kind, was), (_, _, text) in zip(before, after, strict=True):
        if kind != "picture":
            assert words(was) == words(text), cell
            # the last bits of a training, and so a few test samples, may differ from machine to
            # machine
            assert numbers(text) == pytest.approx(numbers(was), abs=0.05), cell


def words(text: str) -> list[str]:
    return re.findall(r"[a-z_]{3,}", text.lower())


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]
