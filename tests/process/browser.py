"""A headless Chromium, spoken to through its debugging pipe: pages are opened,
looked at and asked."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMMAND = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
_FLAGS = (
    *(
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-extensions",
        "--disable-sync",
    ),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--hide-scrollbars",
        "--mute-audio",
    ),
)


class Browser:
    """One page of a running browser. ``errors`` are the page's error messages, ``requests`` its
    requests."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._writing = writing
        self._left = b""
        self._number = 0
        self._session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, and its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._writing, data) :]
        while True:
            reply = self._next()
            if reply.get("id") == self._number:
                assert "error" not in reply, reply
                return reply["result"]

    def open(
        self,
        path: Path,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        fragment: str = "",
    ) -> None:
        """Load a file on a screen of this size, and wait until it is there."""
        self.errors.clear()
        self.requests.clear()
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.scheme("dark" if dark else "light")
        self.ask("Page.navigate", url="about:blank")
        self.ask("Page.navigate", url=path.as_uri() + fragment)
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def scheme(self, name: str) -> None:
        """What the reader's system prefers: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.ask("Emulation.setEmulatedMedia", features=features)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, promises awaited."""
        reply = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def wait(self, condition: str, most: int = 600) -> None:
        """Until something is so, looked at once every 50 ms."""
        pause = "new Promise((done) => setTimeout(done, 50))"
        for _ in range(most):
            if self.evaluate(condition):
                return
            self.evaluate(pause)
        raise AssertionError(f"never came true: {condition}; complaints: {self.errors}")

    def press(self, key: str, code: int, text: str = "") -> None:
        """A key, down and up; ``text`` is the text that it would write."""
        for kind in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                text=text,
            )

    def screenshot(self) -> bytes:
        """The whole page as PNG."""
        return base64.b64decode(
            self.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        )

    def _next(self) -> dict[str, Any]:
        """The next message; complaints and requests are noted."""
        while b"\0" not in self._left:
            more = os.read(self._reading, 1 << 20)
            assert more, "the browser has gone"
            self._left += more
        whole, _, self._left = self._left.partition(b"\0")
        reply = json.loads(whole)
        method = reply.get("method")
        of = reply.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(of["exceptionDetails"]))
        if method == "Runtime.consoleAPICalled" and of["type"] in ("error", "warning", "assert"):
            self.errors.append(str(of["args"]))
        if method == "Log.entryAdded" and of["entry"]["level"] in ("error", "warning"):
            self.errors.append(of["entry"]["text"])
        if method == "Network.requestWillBeSent":
            self.requests.append(of["request"]["url"])
        return reply


@contextmanager
def browsing() -> Iterator[Browser]:
    """A new browser process, ended on exit."""
    assert COMMAND
    to_browser = os.pipe()
    from_browser = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # the browser reads file descriptor 3 and writes to 4
        flags = (*_FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank")
        script = f'exec "$0" "$@" 3<&{to_browser[0]} 4>&{from_browser[1]}'
        process = subprocess.Popen(
            ["bash", "-c", script, COMMAND, *flags],
            pass_fds=(to_browser[0], from_browser[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser[0])
        os.close(from_browser[1])
        try:
            yield Browser(from_browser[0], to_browser[1])
        finally:
            os.close(to_browser[1])  # which ends it
            os.close(from_browser[0])
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
