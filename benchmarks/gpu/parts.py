"""All measurements, by worth, and the loop that makes them."""

from __future__ import annotations

import logging
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
from jax.errors import JaxRuntimeError

import fedkin as fk
from benchmarks import flute
from benchmarks.gpu import device, paper_run, rounds, server, store
from benchmarks.gpu.size import FULL, Size
from fedkin.core.errors import DataError
from fedkin.models.model import prepare_jax
from fedkin.simulation.jax.device_trial import no_memory

CPU = "CPU"  # a measurement of part a
SCORING = "scoring, "
COLD_START = "cold start, "
TABLE_III = "FlexCFL, FEMNIST-CNN"


@dataclass(frozen=True)
class Measurement:
    """One step of the script.

    Attributes:
        part: its letter.
        name: its name in the results.
        measure: returns its numbers.
    """

    part: str
    name: str
    measure: Callable[[], dict[str, Any]]


def measurements(size: Size, unfinished: Path) -> list[Measurement]:
    """All measurements, the most valuable first.

    Args:
        size: of the measurements.
        unfinished: folder of checkpoints of part d.
    """
    networks = tuple(size.epochs)
    found = [Measurement("a", name, partial(rounds.measure, name, size)) for name in networks]
    found += [Measurement("b", name, partial(_flute, name, size)) for name in flute.SETTINGS]
    found += [
        Measurement("c", SCORING + name, partial(server.scoring, name, size)) for name in networks
    ]
    found += [
        Measurement("c", COLD_START + name, partial(server.cold_start, name, size))
        for name in server.METHODS
    ]
    found += [Measurement("c", name, partial(server.maths, name, size)) for name in server.MATHS]
    found.append(Measurement("a", CPU, partial(rounds.measure_on_cpu, networks, size)))
    found.append(Measurement("d", TABLE_III, partial(paper_run.measure, size, unfinished)))
    return found


def _flute(name: str, size: Size) -> dict[str, Any]:
    """Seconds of a round with a setting of FLUTE's table."""
    setting = flute.SETTINGS[name]
    if not size.small:
        return {"seconds": flute.round_seconds(setting, size.rounds)}
    tiny = replace(setting, classes=3, samples=2, model=fk.models.mclr)
    return {"seconds": flute.round_seconds(tiny, size.rounds, clients=size.clients)}


def measure_all(size: Size, parts: str, minutes: float, path: Path) -> None:
    """Check the device, and make all measurements that are not stored, until the time is over.

    Args:
        size: of the measurements.
        parts: letters of the parts.
        minutes: of time; a measurement that is running then is stopped.
        path: of the stored results.
    """
    end = time.monotonic() + 60 * minutes
    prepare_jax()
    if jax.default_backend() == "cpu" and size is FULL:
        raise SystemExit("JAX sees no accelerator: nothing was measured")
    results = _of_this_machine(path)
    print(results["machine"], flush=True)
    if "check" not in results:
        results["check"] = device.check(size)
        store.save(path, results)
    print(results["check"], flush=True)
    for step in measurements(size, path.with_suffix(".unfinished")):
        if step.part not in parts or store.numbers(results, step.part, step.name) is not None:
            continue
        left = end - time.monotonic()
        if left <= 0:
            print("the time is over; the same command continues", flush=True)
            break
        begin = time.monotonic()
        found = attempt(step.measure, left)
        results["measured"].setdefault(step.part, {})[step.name] = found
        store.save(path, results)
        print(f"{step.part}, {step.name}: {time.monotonic() - begin:.1f} s, {found}", flush=True)


def _of_this_machine(path: Path) -> store.Results:
    """The stored results.

    Raises:
        SystemExit: they are from another device or from other versions.
    """
    results = store.load(path)
    here = device.machine()
    if results["machine"] not in ({}, here):
        raise SystemExit(
            f"{path} has results of {results['machine']}, and this is {here}: name another file "
            "with --results"
        )
    return {**results, "machine": here}


def attempt(measure: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """The numbers of a measurement, or the fault that prevented it. A fault ends no other
    measurement, because the time on a device is short.

    Args:
        measure: returns the numbers.
        seconds: after which it is stopped.
    """
    try:
        with stopped_after(seconds), warnings_of_fedkin() as warnings:
            found = measure()
        left = [text for text in warnings if "cannot be used" in text]
        return {store.FAULT: left[0]} if left else found
    except TimeoutError:
        return {store.FAULT: "the time was over"}
    except ImportError as error:
        return {store.FAULT: f"{error.name} is not installed"}
    except DataError as error:
        return {store.FAULT: f"its data are not there ({str(error).splitlines()[0]})"}
    except JaxRuntimeError as error:
        traceback.print_exc()
        return {store.FAULT: no_memory(error) or str(error).splitlines()[0]}
    # The last resort: the fault is stored, and the next measurement begins.
    except Exception as error:
        traceback.print_exc()
        return {store.FAULT: f"{type(error).__name__}: {str(error).splitlines()[0]}"}


@contextmanager
def warnings_of_fedkin() -> Iterator[list[str]]:
    """The warnings in the log while the block runs: one says that the CPU trains instead of the
    device."""
    texts: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: texts.append(record.getMessage())
    log = logging.getLogger("fedkin")
    log.addHandler(handler)
    try:
        yield texts
    finally:
        log.removeHandler(handler)


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block when the time is over."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
