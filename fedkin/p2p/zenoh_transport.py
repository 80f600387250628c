"""How peers find and question each other: Eclipse Zenoh, or whatever has these four verbs.

    fedkin/FEDERATION/model/NAME            answers questions (``wire.what``)
    fedkin/FEDERATION/alive/NAME/SESSION    there as long as the process is, and connected

Peers listen, connect to one or two known addresses, and hear of all others from there (Zenoh's gossip); no address is
special, and none has to stay. Zenoh's ``get`` comes back at once where nobody is known who could answer, even if a
route is just being made: an empty answer is asked for once more.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from fedkin.config.peer_settings import ENCRYPTED, NetworkSettings
from fedkin.core.errors import ConfigError, MissingExtra
from fedkin.core.names import is_name
from fedkin.p2p.messages import HEADER_LIMIT

if TYPE_CHECKING:
    import zenoh

_PAUSE = 0.1  # seconds: before an empty answer is asked for again, and between going and being gone
_LOOK = 2.0  # seconds between two looks at who is there
_MARGIN = 65_536  # bytes that a message may have besides its numbers

Answer = Callable[[str], bytes | None]


@runtime_checkable
class Network(Protocol):
    """What a peer needs of a network. Tests put one in memory in its place."""

    def peers(self) -> dict[str, str]:
        """Who is there, without oneself: names, and the session of each, another one after a restart.

        Raises ConfigError where another peer has this one's name, and had it first.
        """
        ...

    def fetch(self, names: Sequence[str], what: str, deadline: float) -> dict[str, tuple[bytes, ...]]:
        """Ask all of them at once; the different answers of each (none, or as a rule one, at most two) after
        ``deadline`` seconds at most."""
        ...

    def serve(self, answer: Answer) -> None:
        """Be there for others from now on. ``answer`` is called on another thread. Raises as ``peers`` does."""
        ...

    def close(self) -> None:
        """Leave; a second time it does nothing."""
        ...


class ZenohNetwork:
    """A Zenoh session as a ``Network``.

    Args:
        federation, name: of this peer.
        links: where to listen and connect, and how.
        parameters: P; messages much longer than two vectors of that size are not taken in.

    Raises MissingExtra without Zenoh, ConfigError where the session cannot be opened (a port that is taken, a file
    that is not there, an option that Zenoh does not know).
    """

    def __init__(self, federation: str, name: str, links: NetworkSettings, parameters: int) -> None:
        self._zenoh = _zenoh()
        self._root, self._name = f"fedkin/{federation}", name
        # later ones are larger: of two peers with one name, the larger one goes
        self.session = f"{time.time_ns():016x}{secrets.token_hex(4)}"
        self._lock = threading.Lock()
        self._alive: set[tuple[str, str]] = set()
        try:
            self._session = self._zenoh.open(config(links, parameters))
        except self._zenoh.ZError as error:
            raise ConfigError(f"network: Zenoh cannot begin: {_reason(error)}") from error
        self._watched = f"{self._root}/alive/*/*"
        self._subscriber = self._session.liveliness().declare_subscriber(self._watched, self._seen, history=True)
        self._looked = time.monotonic()
        self._queryable = self._token = None

    def peers(self) -> dict[str, str]:
        self._look_again()
        with self._lock:
            alive = sorted(self._alive, reverse=True)  # of one name, the earliest session stays
        if any(name == self._name and session < self.session for name, session in alive):
            raise ConfigError(
                f"peer.name: another peer is called {self._name!r} and was there first; choose another name (a process "
                "that was just killed is forgotten at once, one that hangs after some 10 seconds)"
            )
        return {name: session for name, session in alive if name != self._name}

    def fetch(self, names: Sequence[str], what: str, deadline: float) -> dict[str, tuple[bytes, ...]]:
        end = time.monotonic() + deadline
        found = self._ask(names, what, end)
        empty = [name for name in names if not found[name]]
        if empty and time.monotonic() + _PAUSE < end:
            time.sleep(_PAUSE)
            found |= self._ask(empty, what, end)
        return found

    def serve(self, answer: Answer) -> None:
        self.peers()
        key = f"{self._root}/model/{self._name}"

        def reply(query: zenoh.Query) -> None:
            with query:
                text = b"" if query.payload is None else query.payload.to_bytes()
                found = answer(text.decode(errors="replace")) if len(text) <= HEADER_LIMIT else None
                if found is not None:
                    query.reply(key, found)

        self._queryable = self._session.declare_queryable(key, reply)
        alive = f"{self._root}/alive/{self._name}/{self.session}"
        self._token = self._session.liveliness().declare_token(alive)

    def close(self) -> None:
        token, self._token = self._token, None
        if token is not None:
            token.undeclare()
            time.sleep(_PAUSE)  # who had just asked still gets its answer
        if not self._session.is_closed():
            self._session.close()

    def _ask(self, names: Iterable[str], what: str, end: float) -> dict[str, tuple[bytes, ...]]:
        """All questions leave before the first answer is waited for; an answer of 400 kB waits in Zenoh meanwhile."""
        options = {
            "payload": what.encode(),
            "timeout": max(end - time.monotonic(), 0.001),
            "target": self._zenoh.QueryTarget.ALL,  # two that answer for one name are seen
            "consolidation": self._zenoh.ConsolidationMode.NONE,
        }
        open_questions = {name: self._session.get(f"{self._root}/model/{name}", **options) for name in names}
        return {name: self._answers(replies) for name, replies in open_questions.items()}

    @staticmethod
    def _answers(replies: Any) -> tuple[bytes, ...]:
        """The different answers to one question; two are enough to know that something is wrong."""
        found: dict[bytes, None] = {}
        for reply in replies:
            if reply.ok is not None:
                found[reply.ok.payload.to_bytes()] = None
            if len(found) == 2:
                break
        return tuple(found)

    def _look_again(self) -> None:
        """Ask from time to time who is there, without waiting. Where a link breaks and is made anew, the news that
        somebody went may come after the news that it is back, and would be the last that is ever heard of it."""
        if time.monotonic() - self._looked < _LOOK:
            return
        self._looked = time.monotonic()
        self._session.liveliness().get(self._watched, self._found, timeout=_LOOK)

    def _found(self, reply: zenoh.Reply) -> None:
        """Somebody says that it is there. Called on a thread of Zenoh's."""
        if reply.ok is not None:
            self._seen(reply.ok)

    def _seen(self, sample: zenoh.Sample) -> None:
        """Somebody came or went. Called on a thread of Zenoh's."""
        who = tuple(str(sample.key_expr).removeprefix(f"{self._root}/alive/").split("/"))
        if len(who) != 2 or not is_name(who[0]) or not is_name(who[1]):
            return
        with self._lock:
            if sample.kind == self._zenoh.SampleKind.PUT:
                self._alive.add(who)
            else:
                self._alive.discard(who)


def config(links: NetworkSettings, parameters: int) -> Any:
    """What Zenoh is told: the user's own file, and on top of it what a peer is.

    Raises ConfigError for a file that is not there or not for Zenoh.
    """
    zenoh = _zenoh()
    try:
        told = zenoh.Config.from_file(links.zenoh) if links.zenoh else zenoh.Config()
    except zenoh.ZError as error:
        raise ConfigError(f"network.zenoh: {links.zenoh}: {_reason(error)}") from error
    ours: dict[str, Any] = {"mode": "peer", "scouting/multicast/enabled": False, "scouting/gossip/enabled": True}
    for key, value in ours.items():
        if json.loads(told.get_json(key)) is None:  # the file may know better, as behind a firewall
            told.insert_json5(key, json.dumps(value))
    always: dict[str, Any] = {
        "connect/endpoints": links.connect,
        "transport/link/rx/max_message_size": 8 * parameters + _MARGIN,
        "transport/shared_memory/enabled": False,  # it would go round the limit, and round TLS
    }
    if json.loads(told.get_json("mode")) != "client":  # who listens to nobody
        always["listen/endpoints"] = links.listen or ["tls/0.0.0.0:0" if links.tls else "tcp/127.0.0.1:0"]
    if links.tls:
        always |= _tls(links)
    for key, value in always.items():
        told.insert_json5(key, json.dumps(value))
    return told


def _tls(links: NetworkSettings) -> dict[str, Any]:
    """Both sides show a certificate. A peer is its name, wherever it is: no address is looked for in one."""
    assert links.tls is not None
    for key in ("ca", "certificate", "key"):
        path = Path(getattr(links.tls, key))
        if not path.is_file():
            raise ConfigError(f"network.tls.{key}: {path}: there is no such file; fedkin peer init makes them")
    side = {f"{way}_{kind}": str(path)
            for way in ("listen", "connect")
            for kind, path in (("certificate", links.tls.certificate), ("private_key", links.tls.key))}  # fmt: skip
    rest = {"root_ca_certificate": str(links.tls.ca), "enable_mtls": True, "verify_name_on_connect": False}
    entries = {f"transport/link/tls/{key}": value for key, value in (side | rest).items()}
    return {**entries, "transport/link/protocols": [protocol.rstrip("/") for protocol in ENCRYPTED]}


def _reason(error: Exception) -> str:
    """What Zenoh says, without the places in its sources."""
    return str(error).split(" at /")[0].strip()


def _zenoh() -> Any:
    try:
        import zenoh
    except ImportError as error:
        raise MissingExtra(
            "real peers need Eclipse Zenoh, which is not installed: pip install 'fedkin[p2p]'"
        ) from error
    return zenoh
