"""What a run imports before its first round: nothing that only tables, figures or a clustering
need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("pandas", "sklearn", "scipy", "matplotlib", "pyarrow")
CODE = """
import sys
from fedkin.cli import main
from fedkin.methods import FedAvg, {method}

def begins(self, *arguments):
    print("imported:", *(name for name in {heavy} if name in sys.modules))
    raise KeyboardInterrupt

{method}.init = begins
sys.argv = ["fedkin", "run", "method.name={name}", "run.rounds=1", "run.against=[]"]
sys.argv += ["--out", {out!r}]
main()
"""


@pytest.mark.parametrize(
    ("method", "name"),
    [("FedAvg", "fedavg"), ("FedGroup", "fedgroup"), ("Hierarchical", "hierarchical")],
)
def test_nothing_heavy_is_imported_before_a_method_begins(
    method: str, name: str, tmp_path: Path
) -> None:
    code = CODE.format(method=method, name=name, heavy=HEAVY, out=str(tmp_path / "run"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 130, done.stderr
    assert done.stdout.split("\n")[0].split() == ["imported:"]


def test_texts_are_predicted_without_jax_if_no_features_are_computed() -> None:
    """Every ``fedkin predict`` imports this module, also for an export that needs no JAX."""
    code = "import sys, fedkin.export.text_inputs; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "False", done.stderr


def test_garbage_is_collected_again_after_a_command(tmp_path: Path) -> None:
    """Also if the command fails; a process may run several commands."""
    code = (
        "import gc\n"
        "from fedkin.cli import main\n"
        "import sys\n"
        f"sys.argv = ['fedkin', 'run', 'run.rounds=0', '--out', {str(tmp_path / 'run')!r}]\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    print(end.code, gc.isenabled())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "2 True", done.stderr
