"""The cost of secret sums, and a check that they are exact.

    python -m benchmarks.trust.secret_sums [--parameters 3000000] [--clients 100] [--dropout 0.3]

First, one client among 20 with a model of P = 3e6: its CPU seconds in the four exchanges, and its
bytes against the bytes of a plain update. Then 100 clients, and 30% of them drop out, a third of
these before each of the last three exchanges: is the sum, as integers, the plain sum of the vectors
that arrived? Last, a simulated run with as many drop-outs, and the same run without secret sums.
The claims: CPU <= 1 s, upload <= 1.1 times a plain one, exact.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import fedkin as fk
from fedkin.secret import client
from fedkin.secret.client import Group
from fedkin.secret.quantization import IntegerGrid
from fedkin.secret.server import Exchange
from fedkin.server.message import RpcMessage, encode

ABOUT = b"benchmark round 1 group 0"
COHORT = 20


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trust.secret_sums", description=__doc__
    )
    parser.add_argument("--parameters", type=int, default=3_000_000)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--dropout", type=float, default=0.3)
    options = parser.parse_args()
    one_client(options.parameters)
    many_clients(options.clients, options.dropout)
    simulated(options.clients, options.dropout)


class Measured:
    """A secret sum step by step, with the CPU seconds and the bytes of the client at position 0.

    Args:
        vectors: [n, V], of the clients.
        neighbours: of each.
    """

    def __init__(self, vectors: np.ndarray, neighbours: int) -> None:
        self.seconds = 0.0
        self.bytes = 0
        self.vectors = vectors
        count = len(vectors)
        begun = [self._timed(i, client.begin, ABOUT) for i in range(count)]
        self.sessions = [session for session, _ in begun]
        announced = np.stack([message for _, message in begun])
        self._sent("announced", announced[0].astype(np.int64))
        self.exchange = Exchange.of(ABOUT, np.arange(count), announced, neighbours)
        self.revealed = np.zeros((*self.exchange.places.shape, 16), np.uint8)
        self.replied = np.zeros(count, bool)

    def run(self, lost: list[np.ndarray]) -> np.ndarray:
        """The sum; clients are lost before the second, the third and the last exchange."""
        exchange = self.exchange
        gone = np.zeros(len(self.vectors), bool)
        for step, now in zip((self._share, self._mask, self._reveal), lost, strict=True):
            gone[now] = True
            for i in np.flatnonzero(~gone):
                step(int(i))
        return exchange.unmasked(self.revealed, self.replied)

    def _share(self, i: int) -> None:
        self.sessions[i], self.exchange.sealed[i] = self._timed(
            i, client.share, self.sessions[i], self._group(i)
        )
        self.exchange.shared[i] = True
        if i == 0:
            self._sent("sealed", self.exchange.sealed[0].astype(np.int64))

    def _mask(self, i: int) -> None:
        self.sessions[i], masked = self._timed(
            i,
            client.mask,
            self.sessions[i],
            self._group(i),
            self.exchange.partners[i],
            self.vectors[i],
        )
        self.exchange.add(i, masked)
        if i == 0:
            self._sent("masked", masked)

    def _reveal(self, i: int) -> None:
        self.sessions[i], self.revealed[i] = self._timed(
            i,
            client.reveal,
            self.sessions[i],
            self._group(i),
            self.exchange.partners[i],
            self.exchange.inbox()[i],
            self.exchange.wanted()[i],
        )
        self.replied[i] = True
        if i == 0:
            self._sent("shares", self.revealed[0].astype(np.int64))

    def _group(self, i: int) -> Group:
        exchange = self.exchange
        return Group(ABOUT, i, exchange.holder_numbers()[i], exchange.announced[exchange.places[i]])

    def _timed(self, i: int, step, *given):
        start = time.process_time()
        result = step(*given)
        self.seconds += (time.process_time() - start) if i == 0 else 0.0
        return result

    def _sent(self, name: str, array: np.ndarray) -> None:
        self.bytes += len(encode(RpcMessage({}, {name: array})))


def one_client(parameters: int) -> None:
    """Its CPU seconds and its upload."""
    rng = np.random.default_rng(0)
    grid = IntegerGrid(COHORT, 8.0, 1000)
    update = (0.01 * rng.normal(size=parameters)).astype(np.float32)
    start = time.process_time()
    vector = grid.quantized(update, 100, rng)
    quantizing = time.process_time() - start
    measured = Measured(np.tile(vector, (COHORT, 1)), COHORT)
    exact = (measured.run([np.zeros(0, np.int64)] * 3) == vector * np.uint32(COHORT)).all()
    plain = len(encode(RpcMessage({}, {"update": update})))
    print(f"one of {COHORT} clients, P = {parameters:,}: exact: {bool(exact)}")
    print(f"  CPU {quantizing + measured.seconds:.3f} s (of which integers {quantizing:.3f} s)")
    print(
        f"  upload {measured.bytes:,} bytes, {measured.bytes / plain:.4f} times a plain update",
        flush=True,
    )


def many_clients(clients: int, dropout: float, numbers: int = 10_000) -> None:
    """Whether the sum is exact where many are lost; every client has all others as neighbours."""
    rng = np.random.default_rng(1)
    vectors = rng.integers(0, 2**32, (clients, numbers), dtype=np.uint32)
    lost = np.array_split(rng.permutation(np.arange(1, clients))[: round(dropout * clients)], 3)
    measured = Measured(vectors, clients)
    start = time.process_time()
    total = measured.run([np.asarray(some) for some in lost])
    expected = vectors[measured.exchange.answered].sum(axis=0, dtype=np.uint32)
    exact = bool((total == expected).all())
    print(f"{clients} clients, {round(dropout * clients)} lost between exchanges: exact: {exact}")
    print(f"  all clients and the server {time.process_time() - start:.1f} s of CPU", flush=True)


def simulated(clients: int, dropout: float) -> None:
    """Compare a run with the scenario's drop-outs with the same run without secret sums."""
    data = fk.data.digits(clients=clients)
    cap = int(data.train.sizes.max())
    runs = [
        fk.simulate(
            fk.FedAvg(),
            data,
            fk.models.mclr(data),
            rounds=2,
            cohort=clients,
            scenario=fk.Population(dropout=dropout),
            options=options,
            callbacks=fk.Progress(False),
        )
        for options in ([], [fk.SecretSums(neighbours=clients, examples_cap=cap)])
    ]
    difference = np.abs(runs[0].models - runs[1].models).max()
    print(f"a run of {clients} clients, drop-out {dropout:g}: {runs[1].summary()['secret']}")
    print(f"  models differ from those without secret sums by at most {difference:.1e}", flush=True)


if __name__ == "__main__":
    main()
