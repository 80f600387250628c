"""Small files in the published formats, and folders to search for them."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Neither the user's data nor the user's cache: FEDKIN_DATA is an empty folder (returned), so
    is the cache."""
    for variable, name in (("FEDKIN_DATA", "data"), ("FEDKIN_CACHE", "cache")):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / name))
    return tmp_path / "data"


@pytest.fixture
def real(shared_data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The real sets, and an empty cache, so that nothing else can be found."""
    monkeypatch.setenv("FEDKIN_DATA", str(shared_data))
    monkeypatch.setenv("FEDKIN_CACHE", str(tmp_path / "cache"))
    return shared_data


@dataclass
class Web:
    """What a server answers: whole files, and how many bytes too many it promises of some."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    missing_bytes: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def web(places: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rsplit("/", 1)[-1]
            site.asked.append(name)
            if name not in site.files:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header(
                "Content-Length", str(len(site.files[name]) + site.missing_bytes.get(name, 0))
            )
            self.end_headers()
            self.wfile.write(site.files[name])

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site = Web(f"http://127.0.0.1:{server.server_address[1]}/sets")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


def idx(array: np.ndarray) -> bytes:
    """The bytes of an idx file, by the format's definition."""
    kinds = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}
    kind = kinds[array.dtype.str[1:]]
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, kind, array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.fixture
def to_idx() -> Callable[[np.ndarray], bytes]:
    return idx


@pytest.fixture
def little_mnist(places: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A miniature MNIST, 600 + 100 images, in $FEDKIN_DATA/MNIST and /FashionMNIST, with its own
    checksums."""
    from fedkin.data import image_files

    rng = np.random.default_rng(0)
    parts = {"train": 600, "t10k": 100}
    content = {}
    for name in image_files.IDX_NAMES:
        count = parts[name.split("-")[0]]
        array = (
            rng.integers(0, 256, (count, 28, 28))
            if "images" in name
            else rng.permutation(np.arange(count) % 10)
        )
        content[name] = gzip.compress(idx(array.astype(np.uint8)))
    sums: dict[str, str | None] = {
        name: hashlib.md5(raw).hexdigest() for name, raw in content.items()
    }
    for source, folder in (("MNIST", "MNIST"), ("FASHION_MNIST", "FashionMNIST")):
        (places / folder).mkdir()
        for name, raw in content.items():
            (places / folder / name).write_bytes(raw)
        monkeypatch.setattr(image_files, source, replace(getattr(image_files, source), files=sums))
    return places


_PLAIN = """
import json, sys
import numpy as np
from fedkin.data import FederatedData, Ragged, digits, femnist, fashion_mnist, load, synthetic

came = []
for expression in json.loads(sys.argv[1]):
    try:
        came.append(f"made {eval(expression).name}")
    except Exception as error:
        came.append(f"{type(error).__name__}: {error}")
print(json.dumps(came))
"""


@pytest.fixture(scope="session")
def plainly() -> Callable[[Sequence[str]], list[str]]:
    """Results or errors of expressions without checked annotations, as a user has them. The tests'
    jaxtyping would refuse wrong types before fedkin sees them."""

    def run(expressions: Sequence[str]) -> list[str]:
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        command = [sys.executable, "-c", _PLAIN, json.dumps(list(expressions))]
        return json.loads(
            subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            ).stdout
        )

    return run
