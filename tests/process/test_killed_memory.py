"""What clients keep between rounds survives SIGKILL at random moments, to the bit."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_memory_of_clients_survives_kills() -> None:
    command = [sys.executable, "-m", "benchmarks.client_memory"]
    command += [
        *("--clients", "300"),
        *("--numbers", "50"),
        *("--rounds", "12"),
        *("--kills", "10"),
    ]
    output = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True).stdout
    assert "equal bits" in output, output
    killed = re.search(r"killed (\d+) times of 10", output)
    assert killed and int(killed[1]) >= 8, output
