"""Malformed requests for ``fedkin serve``, drawn by a seed."""

from __future__ import annotations

import json
import random
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

_TIMEOUT = 5.0  # seconds for an answer
_PATHS = (
    "/predict",
    "/v2/models/cluster-0/infer",
    "/v2/models/none/infer",
    "/v2",
    "/v2/models/%00",
    "/../../etc/passwd",
    "/predict?x=" + "y" * 300,
)
# Values that stand in places where others belong.
_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**400,
    1e308,
    "text",
    "\ud800",
    [],
    {},
    [[]],
    [[[1]]],
    [{"a": None}],
    [["a"]],
    [[1.0] * 3],
    [[1.0] * 784] * 2,
)
_TEXTS = (
    b"",
    b"{",
    b"[" * 100_000,
    b'{"rows": ' + b"[" * 5000,
    b'{"rows": [[NaN]]}',
    b'{"rows": [[1e999]]}',
    b'{"rows": [[' + b"9" * 5000 + b"]]}",
    b"\xff\xfe\x00",
    b'{"rows": 1, "rows": 2}',
)
_KEYS = ("rows", "client", "clients", "cluster", "labelled", "inputs", "outputs", "id", "other")
_TENSOR = ("name", "datatype", "shape", "data", "parameters")


def malformed(count: int, seed: int) -> Iterator[bytes]:
    """Requests as bytes.

    Args:
        count: their number.
        seed: seed of the draws.
    """
    rng = random.Random(seed)
    for _ in range(count):
        yield _request(rng)


def _request(rng: random.Random) -> bytes:
    """A request with wrong values, or a right one with damaged bytes, or noise."""
    kind = rng.random()
    if kind < 0.1:
        return rng.randbytes(rng.randrange(1, 400))
    body = rng.choice(_TEXTS) if kind < 0.3 else _body(rng)
    message = _head(rng, len(body)) + body
    if kind < 0.55:
        return message
    return _damaged(rng, message)


def _body(rng: random.Random) -> bytes:
    """A JSON object with wrong values."""
    value = {key: rng.choice(_VALUES) for key in rng.sample(_KEYS, rng.randrange(1, 4))}
    if rng.random() < 0.4:
        tensor = {key: rng.choice(_VALUES) for key in rng.sample(_TENSOR, 3)}
        tensor["datatype"] = rng.choice(("FP32", "INT64", "BYTES", None))
        tensor["shape"] = rng.choice(([1, 784], [2**62, 2**62], [-1], [0], [], "x", [1] * 40))
        value["inputs"] = [tensor]
    return json.dumps(value).encode()


def _head(rng: random.Random, length: int) -> bytes:
    """The head of a request; its length, method or encoding may be wrong."""
    method = rng.choice(("POST", "POST", "POST", "GET", "PUT", "BREW"))
    stated = rng.choice((length, length, length, length + 1, 10**12, -1, "x"))
    lines = [f"{method} {rng.choice(_PATHS)} HTTP/1.1", "Host: here"]
    if rng.random() < 0.9:
        lines.append(f"Content-Length: {stated}")
    if rng.random() < 0.1:
        lines.append("Transfer-Encoding: chunked")
    if rng.random() < 0.1:
        lines.append("X: " + "y" * rng.randrange(100_000))
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def _damaged(rng: random.Random, message: bytes) -> bytes:
    """A message with some bytes changed, cut off or repeated."""
    damaged = bytearray(message)
    for _ in range(rng.randrange(1, 8)):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    if rng.random() < 0.3:
        del damaged[rng.randrange(len(damaged)) :]
    return bytes(damaged)


def send(port: int, requests: Iterator[bytes]) -> dict[str, int]:
    """Send each request over its own connection. Returns how many got which status; ``none`` for a
    connection that ended without an answer.

    Args:
        port: port of the service on this machine.
        requests: the requests.
    """
    counts: Counter[str] = Counter()
    for message in requests:
        counts[_status(port, message)] += 1
    return dict(sorted(counts.items()))


def _status(port: int, message: bytes) -> str:
    """The status of the answer to a message."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), _TIMEOUT) as connection:
        # The service may close the connection before all was sent.
        with suppress(OSError):
            connection.sendall(message)
            connection.shutdown(socket.SHUT_WR)
        with suppress(OSError):
            answer = connection.recv(16)
    return answer[9:12].decode(errors="replace") if answer.startswith(b"HTTP/") else "none"
