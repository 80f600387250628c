"""``python -m benchmarks.client_memory``: checkpoints with the memory of many clients, and runs
that are killed.

Every client keeps a thousand random numbers that each round changes. Measured: seconds that a
checkpoint with them takes to write, and whether a run that is killed (SIGKILL) at random moments
and resumed ends with the same bits as one that never was.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

import fedkin as fk
from fedkin.core.client_memory import ClientMemory
from fedkin.data.federated import FederatedData, Ragged
from fedkin.methods.fedavg import single_model_state
from fedkin.run.folder import checkpoint
from fedkin.run.folder.run_folder import holds_run
from fedkin.tasks import Client, ClientRows, Memory, Rows, Task, floats, setting

_KEPT = Memory("D")


@dataclass(frozen=True)
class DiaryEntry(Task):
    """Each client halves the numbers that it keeps and adds new random ones; their sum is the
    reply."""

    numbers: int = setting(default=1000)

    up = Rows(total=floats())
    memory = {"diary": _KEPT}  # noqa: RUF012

    def compute(self, client: Client) -> dict[str, Any]:
        diary = client.memory.get("diary", np.zeros(self.numbers, np.float32))
        diary = 0.5 * diary + client.rng().random(self.numbers, np.float32)
        client.memory["diary"] = diary
        return {"total": diary.sum(dtype=np.float64)}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        every = np.arange(len(rows.clients))
        diary = rows.memory.read(
            "diary", rows.clients, np.zeros((len(every), self.numbers), np.float32)
        )
        new = [
            rows.drawn().client(int(client)).random(self.numbers, np.float32)
            for client in rows.ids[rows.clients]
        ]
        diary = 0.5 * diary + np.stack(new)
        rows.store("diary", every, diary)
        yield rows.every, {"total": diary.sum(axis=1, dtype=np.float64)}


@dataclass(frozen=True)
class Diaries:
    """A method with clients that only write memory; the model is the mean of their sums."""

    numbers: int = 1000

    def init(self, world: fk.World, stream: fk.Stream) -> fk.State:
        """One model, one cluster."""
        return single_model_state(world, stream)

    def round(
        self, world: fk.World, state: fk.State, cohort: Int[np.ndarray, "n"], stream: fk.Stream
    ) -> fk.State:
        """All clients of the cohort write."""
        totals = world.run(DiaryEntry(self.numbers), cohort, stream).total
        return fk.State(state.models + np.float32(totals.mean()), state.assignment)

    def place(
        self, world: fk.World, state: fk.State, newcomers: Any, stream: fk.Stream
    ) -> fk.State:
        """There is one cluster."""
        return state


def one_sample_clients(clients: int) -> FederatedData:
    """Clients with one sample for training and one for testing."""
    x = np.random.default_rng(0).normal(size=(2 * clients, 2)).astype(np.float32)
    rows = np.arange(2 * clients).reshape(2, clients, 1)
    return FederatedData(
        name="one sample",
        x=x,
        y=np.arange(2 * clients) % 2,
        classes=2,
        train=Ragged.of(list(rows[0])),
        test=Ragged.of(list(rows[1])),
    )


@dataclass
class KillMoment:
    """A call after each round that kills this process (SIGKILL) in the round after ``after``.

    The moment does not depend on how fast the machine is.

    Attributes:
        after: round after which the process is killed; a later one, if a resumed run begins later.
        share: the moment, as a share of the duration of the last round.
    """

    after: int
    share: float
    _last: float | None = None

    def __call__(self, record: dict[str, Any]) -> None:
        now = time.perf_counter()
        if record["round"] >= self.after:
            seconds = 0.0 if self._last is None else self.share * (now - self._last)
            threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
            self.after = sys.maxsize
        self._last = now


def go_on(
    folder: Path, clients: int, numbers: int, rounds: int, moment: KillMoment | None = None
) -> None:
    """Run to the end, from the start or from the folder's last checkpoint."""
    data = one_sample_clients(clients)
    fk.simulate(
        Diaries(numbers),
        data,
        fk.models.mclr(data),
        rounds=rounds,
        cohort=clients,
        scoring=fk.Scoring(evaluate_every=rounds),
        callbacks=moment or (),
        out=folder,
        resume=holds_run(folder),
    )


def in_process(folder: Path, *settings: int, moment: KillMoment | None = None) -> int:
    """Run in a new process, which is killed at a moment; its exit code."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        go_on(folder, *settings, moment=moment)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_runs(folder: Path, *settings: int, kills: int = 10, seed: int = 0) -> tuple[int, bool]:
    """How often a run was killed, and whether its result equals the result of a run without kills.

    Args:
        folder: for both runs.
        settings: clients, numbers of each and rounds.
        kills: largest number of kills.
        seed: of the moments of the kills.
    """
    assert in_process(folder / "whole", *settings) == 0
    moments = np.random.default_rng(seed)
    killed = 0
    for _ in range(kills):
        moment = KillMoment(after=int(moments.integers(settings[2])), share=moments.random())
        killed += in_process(folder / "killed", *settings, moment=moment) == -signal.SIGKILL
    assert in_process(folder / "killed", *settings) == 0
    whole, resumed = (_arrays(folder / name / "checkpoints") for name in ("whole", "killed"))
    return killed, whole.keys() == resumed.keys() and all(
        np.array_equal(whole[key], resumed[key]) for key in whole
    )


def _arrays(checkpoints: Path) -> dict[str, np.ndarray]:
    """The model, and the memory of clients and metrics, at the end of a run."""
    last = checkpoint.newest(checkpoints)[0]
    return {"models": last.state.models, **last.memory}


def seconds_to_write(folder: Path, clients: int, numbers: int, turns: int = 5) -> float:
    """Median seconds of a checkpoint with the memory of all clients, synchronised with the disk."""
    memory = ClientMemory(clients)
    memory.write(
        task="diary",
        name="diary",
        memory=_KEPT,
        clients=np.arange(clients),
        values=np.random.default_rng(0).random((clients, numbers), np.float32),
    )
    state = fk.State(np.zeros((1, 10), np.float32), np.zeros(clients, np.int64))
    times = []
    for turn in range(turns):
        start = time.perf_counter()
        checkpoint.save(
            folder,
            checkpoint.Checkpoint(
                round=turn, state=state, down={}, up={}, seconds=0.0, memory=memory.arrays()
            ),
            "fingerprint",
        )
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.client_memory", description=__doc__)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--numbers", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        killed, equal = killed_runs(
            folder, options.clients, options.numbers, options.rounds, kills=options.kills
        )
        seconds = seconds_to_write(folder / "checkpoints", options.clients, options.numbers)
    print(
        f"checkpoint with the memory of {options.clients} clients x {options.numbers} numbers: "
        f"{seconds:.2f} s"
    )
    print(
        f"killed {killed} times of {options.kills} and resumed: "
        f"{'equal bits' if equal else 'OTHER BITS'}"
    )


if __name__ == "__main__":
    main()
