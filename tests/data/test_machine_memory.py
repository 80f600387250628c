"""The estimate of memory against a machine whose memory is made up, and the control groups of
containers."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

import fedkin as fk
from fedkin.data import machine_memory
from fedkin.data.machine_memory import available_memory, check_memory
from fedkin.data.synthetic import generate

GB = 10**9
MEMINFO = "MemTotal: 16000000 kB\nMemAvailable:    8000000 kB\nSwapFree:        1000000 kB\n"


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 9_000_000 * 1024),
        (  # its own group has no limit, the one above has one; cached files can be taken back
            {
                "proc/self/cgroup": "0::/user/job\n",
                "sys/fs/cgroup/user/job/memory.max": "max\n",
                "sys/fs/cgroup/user/job/memory.current": "5\n",
                "sys/fs/cgroup/user/memory.max": "4000\n",
                "sys/fs/cgroup/user/memory.current": "3000\n",
                "sys/fs/cgroup/user/memory.stat": "anon 7\ninactive_file 500\n",
            },
            1500,
        ),
        (  # in a container the group of the host is not to be seen, and its root is the container's
            {
                "proc/self/cgroup": "0::/docker/abc\n",
                "sys/fs/cgroup/memory.max": "700\n",
                "sys/fs/cgroup/memory.current": "100\n",
            },
            600,
        ),
        (  # the first version of control groups
            {
                "proc/self/cgroup": "3:cpu:/other\n2:memory,hugetlb:/job\n",
                "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "900\n",
                "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "800\n",
                "sys/fs/cgroup/memory/job/memory.stat": "total_inactive_file 50\n",
            },
            150,
        ),
        (  # more than the limit is in use
            {
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/memory.max": "10\n",
                "sys/fs/cgroup/memory.current": "20\n",
            },
            0,
        ),
    ],
)
def test_the_least_of_machine_and_groups_is_available(
    tmp_path: Path, files: dict[str, str], expected: int
) -> None:
    assert available_memory(machine(tmp_path, files)) == expected


def test_clearly_more_is_refused_with_numbers_and_cure() -> None:
    parts = {"small things": 10**6, "samples": 10 * GB, "models": 3 * GB}
    with pytest.raises(fk.ConfigError) as refusal:
        check_memory(parts, "take fewer clients", 10 * GB)
    assert str(refusal.value) == (
        "not enough memory: about 13.0 GB of memory are needed (10.0 GB for samples, 3.0 GB for "
        "models), and 10.0 GB are available; take fewer clients"
    )


@pytest.mark.parametrize(("needed", "warnings"), [(7.4, 0), (7.6, 1), (12.4, 1)])
def test_a_need_near_the_limit_is_a_warning(
    needed: float, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "fedkin"):
        check_memory({"samples": int(needed * GB)}, "take fewer clients", 10 * GB)
    assert len(caplog.messages) == warnings
    assert all(
        f"{needed:.1f} GB for samples), and 10.0 GB are available" in text
        for text in caplog.messages
    )


def test_a_generator_is_refused_before_it_allocates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_memory, "available_memory", lambda: 10**6)
    with pytest.raises(fk.ConfigError, match=r"samples of synthetic.*data\.clients"):
        fk.data.synthetic(clients=100)


@pytest.mark.parametrize("position", [0, 1, 5, 6])
def test_the_first_wrong_sample_is_named_in_any_block(
    position: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedkin.data.array_checks._BLOCK_BYTES", 2 * 3 * 4)
    x = np.zeros((7, 3), np.float32)
    x[position:, 1] = np.nan
    rows = fk.data.Ragged.of([np.arange(7)])
    with pytest.raises(fk.DataError, match=f"sample {position} holds NaN"):
        fk.data.FederatedData(
            name="toy", x=x, y=np.zeros(7, np.int64), classes=2, train=rows, test=rows
        )


def test_samples_are_drawn_in_single_precision_as_in_double() -> None:
    """The numbers are the generator's in double precision, rounded. Labels are made before
    rounding."""
    drawn = generate(1, 1, 3, np.random.RandomState(0))
    random = np.random.RandomState(0)
    sizes = random.lognormal(4, 2, 3).astype(int) + 50
    centre = random.normal(0, 1, 3)
    spread = random.normal(0, 1, 3)
    means = [random.normal(b, 1, 60) for b in spread]
    W = random.normal(centre[0], 1, (60, 10))
    b = random.normal(centre[0], 1, 10)
    x = random.multivariate_normal(means[0], np.diag(np.arange(1.0, 61) ** -1.2), sizes[0])
    assert np.array_equal(drawn.x[: sizes[0]], x.astype(np.float32)) and drawn.x.dtype == np.float32
    assert np.array_equal(drawn.y[: sizes[0]], (x @ W + b).argmax(axis=1))
