"""The device: what it is, whether it computes the right numbers, and who else uses it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys

import jax
import numpy as np
from jax.errors import JaxRuntimeError

import fedkin
from benchmarks.gpu.needs import ROOT, installed
from benchmarks.gpu.size import Size
from benchmarks.turns import MODEL, federated
from benchmarks.work import BATCH, LR, clients
from fedkin.core.randomness import Stream
from fedkin.core.train_call import TrainCall
from fedkin.core.training import LocalTraining
from fedkin.models import MODELS
from fedkin.simulation.jax.device_trial import no_memory, usable
from fedkin.simulation.jax.trainer import JaxTrainer

TESTS = ("tests/simulation/jax/test_default_device.py", "tests/simulation/jax/test_accelerators.py")
# Largest difference of an update, relative to its largest number. A device that rounds to TF32
# stays below.
TOLERANCE = 0.02
_PROCESSES = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]


def machine() -> dict[str, str]:
    """The device, the processor and the versions."""
    device = jax.devices()[0]
    memory = (device.memory_stats() or {}).get("bytes_limit")
    libraries = [f"{p} {installed(p)}" for p in ("jax", "numpy", "torch") if installed(p)]
    versions = [f"Python {platform.python_version()}", f"fedkin {fedkin.__version__}", *libraries]
    return {
        "device": device.device_kind,
        "memory": f"{memory / 2**30:.0f} GiB for JAX" if memory else "not reported",
        "cores": str(os.cpu_count()),
        "versions": ", ".join(versions),
    }


def other_processes() -> int:
    """How many other processes compute on the card; 0 if nvidia-smi is not there."""
    if shutil.which(_PROCESSES[0]) is None:
        return 0
    done = subprocess.run(_PROCESSES, capture_output=True, text=True, check=False)
    found = {int(line) for line in done.stdout.split() if line.isdecimal()}
    return len(found - {os.getpid()})


def check(size: Size) -> dict[str, float | str]:
    """Compare training on the device with the CPU, and run the tests of accelerators.

    Returns:
        The difference of each network, what the tests print, and the number of other processes.

    Raises:
        SystemExit: the device cannot be used, or gives other numbers than the CPU.
    """
    device = jax.local_devices()[0]
    try:
        # The warning of the log has the reason for which the CPU would train instead.
        if usable([device])[0].platform != device.platform:
            raise SystemExit(f"{device} cannot be used, so nothing is measured")
        apart = {name: difference(name, size) for name in size.epochs}
    except JaxRuntimeError as error:
        reason = no_memory(error) or str(error).splitlines()[0]
        raise SystemExit(f"{device} cannot train one client: {reason}") from error
    for name, number in apart.items():
        # A comparison with NaN is false.
        if not number <= TOLERANCE:
            raise SystemExit(
                f"{name}: updates of {device} differ from the CPU's by {number:.2g} of the "
                f"largest number (at most {TOLERANCE}), so nothing is measured"
            )
    found = {f"difference, {name}": number for name, number in apart.items()}
    return {**found, "tests": tests(size), "other processes": float(other_processes())}


def difference(name: str, size: Size) -> float:
    """The largest difference between updates from the device and from the CPU, relative to the
    largest number. Eight clients train for one epoch, in parallel on the device.

    Args:
        name: of the network.
        size: of the measurement.
    """
    data = federated(clients(size.clients))
    model = MODELS[MODEL[name]](data)
    call = TrainCall(
        models=model.initial(Stream(0).words())[None],
        clients=np.arange(8),
        model_index=np.zeros(8, np.int64),
        work=LocalTraining(epochs=1, batch_size=BATCH, lr=LR),
        num_steps=np.ones(8, np.int64),
        stream=Stream(0),
    )
    ids = np.arange(data.clients)
    ours, expected = (
        JaxTrainer(data=data, model=model, devices=devices, lanes=lanes, ids=ids).train(call).update
        for devices, lanes in ((jax.local_devices()[:1], 8), (jax.local_devices(backend="cpu"), 1))
    )
    return float(np.max(np.abs(ours - expected)) / np.max(np.abs(expected)))


def tests(size: Size) -> str:
    """The last line of the tests of accelerators."""
    if size.small:
        return "left out"
    # The tests take a little of the memory that this process leaves free.
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[-1].strip("= ") if lines else "no output"
