"""What every test may lean on: oracle vectors, real data, and settings that make runs repeatable.

Nothing of fedkin is imported at the top: pytest reads this file before jaxtyping has put its checks
in place.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from _pytest import runner
from hypothesis import settings
from threadpoolctl import threadpool_limits

from tests import type_checks

if TYPE_CHECKING:
    from fedkin.data.federated import FederatedData
    from fedkin.simulation.engine import SimulatedWorld

ROOT = Path(__file__).resolve().parents[1]
ORACLES = ROOT / "tests" / "oracles"
SHARED = ROOT.parent / "shared"

# The level of each folder's tests; a file named here leaves its folder's level, a test may carry a
# separate mark. ``make test`` runs the unit level, the arithmetic of every method and measure in
# worlds of a few numbers, and the examples. Unit tests need no extra: other levels test what needs
# cryptography, dp-accounting, PyTorch or Flower.
LEVELS = {
    "aggregation": "unit",
    "analysis": "simulation",
    "benchmarks": "simulation",
    "cli": "simulation",
    "clustering": "unit",
    "config": "unit",
    "core": "unit",
    "data": "simulation",
    "deterministic": "simulation",
    "docs": "docs",
    "estimator": "simulation",
    "export": "simulation",
    "fidelity": "unit",
    "fuzzing": "simulation",
    "house": "unit",
    "house/test_public.py": "process",
    "measures": "unit",
    "methods": "unit",
    "methods/test_athena_runs.py": "simulation",
    "methods/test_fedgwc_runs.py": "simulation",
    "methods/test_fedsim_runs.py": "simulation",
    "methods/test_hierarchical_runs.py": "simulation",
    "methods/test_own_levels.py": "simulation",
    "methods/test_private_clusters.py": "simulation",
    "methods/test_task_types.py": "simulation",
    "models": "simulation",
    "options": "unit",
    "options/monitor/test_monitor.py": "simulation",
    "options/privacy": "simulation",
    "options/privacy/test_clip_and_noise.py": "unit",
    "options/test_options_on_numbers.py": "simulation",
    "p2p": "simulation",
    "papers": "simulation",
    "process": "process",
    "process/test_examples.py": "example",
    "removal": "simulation",
    "removal/test_taint.py": "unit",
    "reporting": "simulation",
    "run": "simulation",
    "scenarios": "unit",
    "secret": "simulation",
    "secret/test_quantization.py": "unit",
    "security": "simulation",
    "server": "simulation",
    "simulation": "simulation",
    "service": "simulation",
    "tasks": "simulation",
    "tasks/test_shift.py": "unit",
    "task_types": "unit",
    "task_types/test_losses_in_torch.py": "simulation",
    "tracking": "simulation",
}
QUICK_LEVELS = {"unit", "example"}
# Memory maps of one process; Linux ends it at 65,530, and every compiled program holds some.
MOST_MAPS = 24_000

# Compiled programs are kept between test runs, in CI between checkouts too. Set before anything
# imports jax.
KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedkin-tests"
PROGRAMS = KEPT if os.environ.get("CI") else ROOT / ".pytest_cache" / "jax"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(PROGRAMS))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("MPLBACKEND", "agg")

# Ray gives its actors a low priority, with which they hardly run next to the workers.
os.environ.setdefault("RAY_worker_niceness", "0")

# Workers and the processes that tests start share the cores, so each of them computes matrix
# products on one. Else threads that wait for each other take most of the time of small products.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
threadpool_limits(1)  # for libraries that pytest's plugins have loaded before

# Where byte code is not written, each of the tests' many processes compiles fedkin again: seconds
# each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

type_checks.use()

# No deadline: tests never time anything. Derandomised: the same commit gives the same verdict.
settings.register_profile("fedkin", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("fedkin")


def pytest_sessionstart() -> None:
    """Before a module of tests computes anything: once it has, the number of JAX's devices is
    fixed."""
    from fedkin.models.model import prepare_jax

    prepare_jax()
    # In the background of a shell; processes inherit it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def level_of(path: Path) -> str:
    """The level of a test file, from its longest line in the table."""
    name = path.relative_to(ROOT / "tests").as_posix()
    lines = [
        line for line in LEVELS if name == line or name.startswith((f"{line}/", f"test_{line}."))
    ]
    if not lines:
        raise pytest.UsageError(f"{name} has no line in LEVELS, tests/conftest.py")
    return LEVELS[max(lines, key=len)]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """``make test`` leaves files of other levels closed, because their imports take longer than the
    unit tests."""
    levels = set(config.option.markexpr.split(" or "))
    if not levels <= QUICK_LEVELS or not collection_path.match("test_*.py"):
        return None
    return True if level_of(collection_path) not in levels else None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Every test has the mark of its level, and of one level only. Then, without the tests of the
    levels that do not run, the order."""
    levels = set(LEVELS.values())
    for item in items:
        if not levels & {mark.name for mark in item.iter_markers()}:
            item.add_marker(level_of(item.path))
    yield
    items[:] = shared_out(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def shared_out(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests in an order in which every second worker begins with some of the longest.

    Tests of separate processes wait for much of their time, but a deployment of many processes
    becomes slow where several of them share two cores. pytest-xdist cuts the list into equal parts,
    one for each worker, and moves tests from one part to another only when a worker has none left.
    So every second part begins with whole files of these tests. Those with the fewest tests come
    first, since they have the longest.
    """
    waiting: dict[Path, list[pytest.Item]] = {}
    others = []
    for item in items:
        if item.get_closest_marker("process"):
            waiting.setdefault(item.path, []).append(item)
        else:
            others.append(item)
    others.sort(key=lambda item: not item.get_closest_marker("docs"))
    files = sorted(waiting.values(), key=len)
    shares = -(-workers // 2)
    order: list[pytest.Item] = []
    for worker in range(workers):
        part = (len(items) - len(order)) // (workers - worker)
        own = [] if worker % 2 else files[worker // 2 :: shares]
        begin = [item for file in own for item in file]
        room = max(0, part - len(begin))
        order += begin + others[:room]
        others = others[room:]
    return order + others


def _in_a_large_frame(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    return runner.pytest_runtest_protocol(item, nextitem)


# Python keeps the frames of its functions in pieces of 2,048 numbers. A loop that begins at the end
# of a piece calls each of its functions in a new piece, which the system gives and takes back at
# every call: a quarter of the time of tests/run. A larger frame makes its own piece, and the frames
# of the test fit into the rest of it.
_in_a_large_frame.__code__ = _in_a_large_frame.__code__.replace(co_stacksize=2**17)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    """Run a test, with its fixtures, inside a large frame."""
    return _in_a_large_frame(item, nextitem)


def pytest_collection_finish() -> None:
    """Python's searches for garbage leave out the modules that are loaded by now: they are large,
    and stay. Searches are rare, because tracing makes many objects that live long: they took a
    tenth of the time of tests that train."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


# --- memory maps are counted, and compiled programs are released where there are many

TESTS_BETWEEN = 20  # between two counts
# So many maps release the programs. Fewer keep them: the next modules use many of them too.
MANY_MAPS = 12_000
# For this process and every worker: the most maps, after which module, and how often programs were
# released.
_maps: dict[str, tuple[int, str, int]] = {}
_tests_since_count = 0
_releases = 0


@pytest.hookimpl(trylast=True)  # after the fixtures of the module
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Release all compiled programs where they hold many memory maps."""
    global _tests_since_count, _releases
    _tests_since_count += 1
    if nextitem is not None and _tests_since_count < TESTS_BETWEEN:
        return
    _tests_since_count = 0
    table = Path("/proc/self/maps")  # Linux has it
    count = table.read_bytes().count(b"\n") if table.exists() else 0
    module = item.path.relative_to(ROOT / "tests").as_posix()
    most, after, _ = max(_maps.get("this process", (0, "", 0)), (count, module, 0))
    if count >= MANY_MAPS and "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
        _releases += 1
    _maps["this process"] = (most, after, _releases)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Store the counts of a worker of pytest-xdist."""
    if "maps" in getattr(node, "workeroutput", {}):
        _maps[f"worker {node.gateway.id}"] = node.workeroutput["maps"]


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """End the run at once when a worker has died: the other one would go on through half of all
    tests."""
    if report.when not in ("setup", "call", "teardown"):
        pytest.exit(str(report.longrepr), returncode=1)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where a process came near the system's limit."""
    if hasattr(session.config, "workeroutput"):
        output = session.config.workeroutput  # type: ignore[attr-defined]
        output["maps"] = _maps.get("this process", (0, "", 0))
    elif any(count >= MOST_MAPS for count, _, _ in _maps.values()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many memory maps each process had."""
    for process, (count, module, releases) in sorted(_maps.items()):
        line = f"{process} had {count:,} memory maps after {module}, {releases} times released"
        if count >= MOST_MAPS:
            terminalreporter.write_line(f"ERROR: {line}; the limit is {MOST_MAPS:,}", red=True)
        elif process != "this process":
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """A test that shows fedkin's log from INFO on, as a server does, leaves the level and handlers
    as they were."""
    log = logging.getLogger("fedkin")
    level = log.level
    handlers = list(log.handlers)
    propagate = log.propagate
    yield
    log.setLevel(level)
    log.handlers[:] = handlers
    log.propagate = propagate


@cache
def _read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


@pytest.fixture(scope="session")
def oracle() -> Callable[[str], dict[str, Any]]:
    """``oracle("fedgroup_v1")`` is the content of ``tests/oracles/fedgroup_v1.json``."""

    def read(name: str) -> dict[str, Any]:
        return _read_json(ORACLES / f"{name}.json")

    return read


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets, $FEDKIN_DATA."""
    folder = os.environ.get("FEDKIN_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real data are not here; set FEDKIN_DATA to the folder that holds them")
    return Path(folder)


@pytest.fixture(scope="session")
def tiny() -> FederatedData:
    """Twelve clients with two features: six of them have the labels the other way round. One has no
    test sample."""
    from fedkin.data.federated import FederatedData, Ragged

    rng = np.random.default_rng(0)
    x = rng.normal(size=(12 * 20, 2)).astype(np.float32)
    true_clusters = np.arange(12) % 2
    y = (x[:, 0] > 0).astype(np.int64) ^ np.repeat(true_clusters, 20)
    rows = np.arange(len(x)).reshape(12, 20)
    test = [row[15:] for row in rows[:-1]] + [rows[-1][:0]]
    return FederatedData(
        name="tiny",
        x=x,
        y=y,
        classes=2,
        train=Ragged.of([row[:15] for row in rows]),
        test=Ragged.of(test),
        true_clusters=true_clusters,
    )


@pytest.fixture
def tiny_world(tiny: FederatedData) -> SimulatedWorld:
    """The tiny federation in the simulator."""
    from fedkin.core.training import LocalTraining
    from fedkin.models import mclr
    from fedkin.simulation.engine import SimulatedWorld

    return SimulatedWorld(tiny, mclr(tiny), LocalTraining(epochs=2, batch_size=5, lr=0.5))


@pytest.fixture(scope="session")
def _finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from typer.testing import CliRunner

    from fedkin.cli import app

    folder = tmp_path_factory.mktemp("finished") / "run"
    settings = ["run.rounds=2", "run.cohort=3", "local.epochs=1", "data.clients=8"]
    assert CliRunner().invoke(app, ["run", *settings, "--out", str(folder)]).exit_code == 0
    return folder


@pytest.fixture
def short_path() -> Iterator[Path]:
    """An empty folder whose path leaves room for a socket's, which systems limit to about 100
    bytes."""
    with tempfile.TemporaryDirectory(prefix="fedkin-") as folder:
        yield Path(folder)


@pytest.fixture
def hangup() -> Iterator[None]:
    """SIGHUP as a terminal sends it. Under ``nohup`` it is ignored, by all children too."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def run_folder(_finished_run: Path, tmp_path: Path) -> Path:
    """The folder ``a`` with a small finished run of the command line, FedGroup against FedAvg: a
    copy of one run."""
    return shutil.copytree(_finished_run, tmp_path / "a")
