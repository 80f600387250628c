"""How fast ``fedkin serve`` answers, next to ONNX Runtime called directly, and whether malformed
requests end it.

    python -m benchmarks.serve             # both, with 10,000 malformed requests
    python -m benchmarks.serve --fuzz 0    # the speed only

One process of this program sends requests of one row over several connections at a given rate. A
latency counts from when the request was due, so that a slow answer delays none that follows it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import fedkin as fk
from benchmarks.malformed_requests import malformed, send

FEATURES = 784
CLASSES = 10
CONNECTIONS = 16
_HEAD = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def export(folder: Path, format: str) -> Path:
    """An export of two mlp models (784-128-10), each of half of the clients."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, FEATURES)).astype(np.float32)
    y = rng.integers(0, CLASSES, 400)
    data = fk.data.from_arrays(x, y, clients=np.repeat(np.arange(8), 50))
    run = fk.simulate(fk.IFCA(clusters=2), data, fk.models.mlp(data), rounds=1, cohort=8)
    return run.export(folder / format, format).parent


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """A process of ``fedkin serve``, and its port."""
    command = [sys.executable, "-m", "fedkin", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r":(\d+);", line)
        assert found, line
        yield int(found[1])
    finally:
        process.terminate()
        process.wait()


def request(path: str, body: dict) -> bytes:
    """A request as bytes."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


def one_row(client: str) -> dict[str, bytes]:
    """The same row for both addresses."""
    row = np.random.default_rng(1).normal(size=FEATURES).round(4).tolist()
    tensor = {"name": "samples", "datatype": "FP32", "shape": [1, FEATURES], "data": row}
    return {
        "/predict": request("/predict", {"client": client, "rows": [row]}),
        "/v2 infer": request("/v2/models/cluster-0/infer", {"inputs": [tensor]}),
    }


async def measure(port: int, message: bytes, rate: float, count: int) -> tuple[np.ndarray, float]:
    """Latencies of requests at a rate, in seconds, and the rate that was reached."""
    latencies = np.zeros(count)
    start = time.perf_counter() + 0.05
    numbers = iter(range(count))

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in numbers:
            due = start + number / rate
            wait = due - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            writer.write(message)
            head = await reader.readuntil(b"\r\n\r\n")
            found = _HEAD.search(head)
            assert head.startswith(b"HTTP/1.1 200") and found, head
            await reader.readexactly(int(found[1]))
            latencies[number] = time.perf_counter() - due
        writer.close()

    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))
    return latencies, count / (time.perf_counter() - start)


def direct(folder: Path, count: int = 5000) -> np.ndarray:
    """Seconds of each call of ONNX Runtime with one row, in this process."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        folder / "cluster-0.onnx", providers=["CPUExecutionProvider"]
    )
    row = np.random.default_rng(1).normal(size=(1, FEATURES)).astype(np.float32)
    seconds = np.zeros(count)
    for number in range(count):
        start = time.perf_counter()
        session.run(None, {"samples": row})
        seconds[number] = time.perf_counter() - start
    return seconds


def line(name: str, seconds: np.ndarray, rate: float) -> str:
    """A row of the table."""
    p50, p99 = np.quantile(seconds, [0.5, 0.99]) * 1e3
    return f"| {name} | {rate:,.0f} | {p50:.2f} | {p99:.2f} |"


def main() -> None:
    """Print the table, and the result of malformed requests."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=1000.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a pass")
    parser.add_argument("--passes", type=int, default=5, help="other work disturbs some of them")
    parser.add_argument("--fuzz", type=int, default=10_000, help="number of malformed requests")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    count = int(options.rate * options.seconds)
    with tempfile.TemporaryDirectory() as name:
        print("| one row of 784 numbers | requests a second | p50 ms | p99 ms |\n|---|---|---|---|")
        for format in ("onnx", "safetensors"):
            folder = export(Path(name), format)
            client = json.loads((folder / "card.json").read_text())["models"][0]["clients"][0]
            if format == "onnx":
                seconds = direct(folder)
                print(line("ONNX Runtime, called directly", seconds, 1 / seconds.mean()))
            gc.collect()
            gc.freeze()  # no pause of this program counts as one of the service
            with served(folder) as port:
                for path, message in one_row(client).items():
                    asyncio.run(measure(port, message, options.rate, 500))
                    passes = [
                        asyncio.run(measure(port, message, options.rate, count))
                        for _ in range(options.passes)
                    ]
                    passes.sort(key=lambda found: np.quantile(found[0], 0.99))
                    print(line(f"{path}, {format}, best pass", *passes[0]), flush=True)
                    middle = passes[len(passes) // 2]
                    print(line(f"{path}, {format}, median pass", *middle), flush=True)
                    fastest = max(
                        asyncio.run(measure(port, message, 1e9, 2000))[1]
                        for _ in range(options.passes)
                    )
                    print(f"| {path}, {format}, as many as it answers | {fastest:,.0f} | | |")
                if options.fuzz and format == "onnx":
                    counts = send(port, malformed(options.fuzz, options.seed))
                    asyncio.run(measure(port, one_row(client)["/predict"], options.rate, 100))
                    print(f"{options.fuzz:,} malformed requests: {counts}; it still answers")


if __name__ == "__main__":
    main()
