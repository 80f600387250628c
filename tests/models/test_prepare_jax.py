"""Settings that JAX gets before its first computation."""

from __future__ import annotations

import os

import pytest

from fedkin.models.model import prepare_jax


@pytest.mark.parametrize(
    ("devices", "before", "after"),
    [
        (4, None, "5"),
        (4, "3", "5"),
        (4, "9", "9"),
        (4, "many", "5"),
        (1, None, None),
        (1, "1", "1"),
    ],
)
def test_one_thread_more_than_devices(
    monkeypatch: pytest.MonkeyPatch, devices: int, before: str | None, after: str | None
) -> None:
    """Unless there is one device, or the user gives more."""
    monkeypatch.setenv("XLA_FLAGS", f"--xla_own=1 --xla_force_host_platform_device_count={devices}")
    monkeypatch.setenv("NPROC", "")  # taken back after the test, whatever it sets
    if before is None:
        monkeypatch.delenv("NPROC")
    else:
        monkeypatch.setenv("NPROC", before)
    prepare_jax()
    assert os.environ.get("NPROC") == after
