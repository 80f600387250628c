"""The transport of real peers: Eclipse Zenoh.

    fedkin/FEDERATION/model/NAME            the key under which a peer replies to requests
                                            (``messages.request_text``)
    fedkin/FEDERATION/alive/NAME/SESSION    a token that exists while the peer is connected

Peers listen, connect to one or two known addresses, and find all others from there (Zenoh's
gossip). No address is special, and any peer may leave. A reply also carries the names of the peers
that its sender sees online. Zenoh's ``get`` returns at once if it knows no peer that could reply,
even while a route is being established. Therefore a request without a reply is sent once more.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkin.config.peer_settings import ENCRYPTED, NetworkSettings
from fedkin.core.errors import ConfigError, MissingExtra
from fedkin.core.identifiers import is_name
from fedkin.p2p.messages import HEADER_LIMIT, size_limit
from fedkin.p2p.missing_peers import PATIENCE, MissingPeers, names_of_bytes, names_to_bytes
from fedkin.p2p.transport import RequestHandler

if TYPE_CHECKING:
    import zenoh

_log = logging.getLogger("fedkin")
_PAUSE = 0.1  # seconds before a request is sent again, and between leaving and closing
_REFRESH = 2.0  # seconds between two queries for the peers that are online
_RETURN = 5.0  # seconds within which peers return after a new connection


class ZenohTransport:
    """A ``PeerTransport`` that uses a Zenoh session.

    Args:
        federation: name of the peer's federation.
        name: name of the peer.
        settings: where and how to listen and connect (section [network]).
        parameters: number of parameters P. A message much longer than two vectors of this size is
            refused.

    Raises:
        MissingExtra: Zenoh is not installed.
        ConfigError: the session cannot be opened (its port is in use, a file is missing, or Zenoh
            does not know an option).
    """

    def __init__(
        self, federation: str, name: str, settings: NetworkSettings, parameters: int
    ) -> None:
        self._zenoh = _load_zenoh()
        self._root = f"fedkin/{federation}"
        self._name = name
        # Later sessions have larger ids. If two peers have the same name, the later one leaves.
        self.session = f"{time.time_ns():016x}{secrets.token_hex(4)}"
        self._settings = settings
        self._parameters = parameters
        self._liveliness_keys = f"{self._root}/alive/*/*"
        self._lock = threading.Lock()
        self._handler: RequestHandler | None = None
        self._error = ""  # error of the last attempt to open the session again
        self._online: set[tuple[str, str]] = set()
        config = zenoh_config(settings, parameters)
        lease = json.loads(config.get_json("transport/link/tx/lease")) / 1000
        # After a peer hangs, others drop it at different times, up to a lease apart. Meanwhile some
        # still name it, which must not make this peer reconnect.
        self._missing = MissingPeers(name, max(PATIENCE, 0.6 * lease))
        self._open(config)

    def _open(self, config: Any) -> None:
        """Open a Zenoh session, and listen for peers that come and go. Raises ConfigError if the
        session cannot be opened."""
        try:
            self._session = self._zenoh.open(config)
        except self._zenoh.ZError as error:
            raise ConfigError(f"network: Zenoh cannot start: {_reason(error)}") from error
        with self._lock:
            self._online = set()
        liveliness = self._session.liveliness()
        self._subscriber = liveliness.declare_subscriber(
            self._liveliness_keys, self._on_change, history=True
        )
        self._last_refresh = time.monotonic()
        self._queryable = self._token = None

    def peers(self) -> dict[str, str]:
        if missing := self._missing.check():
            names = ", ".join(missing[:5])
            if len(missing) > 5:
                names += f" and {len(missing) - 5} more"
            _log.warning(
                "%s: online for other peers but not for this peer, which therefore reconnects",
                names,
            )
            self.close()
        if self._session.is_closed() and not self._open_again():
            return {}
        self._refresh()
        with self._lock:
            # The earliest session of each name stays: in this order it overwrites later ones.
            online = sorted(self._online, reverse=True)
        if any(name == self._name and session < self.session for name, session in online):
            raise ConfigError(
                f"peer.name: another peer had the name {self._name!r} first; choose another name. "
                "Or end the other process: the name is free at once if it was killed, and after "
                "about 10 seconds if it hangs"
            )
        return {name: session for name, session in online if name != self._name}

    def request(
        self, names: Sequence[str], text: str, timeout: float
    ) -> dict[str, tuple[bytes, ...]]:
        end = time.monotonic() + timeout
        replies = self._send(names, text, end)
        missing = [name for name in names if not replies[name]]
        if missing and time.monotonic() + _PAUSE < end:
            time.sleep(_PAUSE)
            replies |= self._send(missing, text, end)
        return replies

    def serve(self, handler: RequestHandler) -> None:
        self.peers()
        self._declare(handler)

    def _declare(self, handler: RequestHandler) -> None:
        """Answer requests from now on, and announce that this peer is online."""
        key = f"{self._root}/model/{self._name}"

        def answer(query: zenoh.Query) -> None:
            with query:
                senders = []
                if query.attachment is not None:
                    senders = [query.attachment.to_bytes().decode(errors="replace")]
                self._note(senders)
                text = b"" if query.payload is None else query.payload.to_bytes()
                if len(text) > HEADER_LIMIT:
                    return
                reply = handler(text.decode(errors="replace"))
                if reply is not None:
                    query.reply(key, reply, attachment=names_to_bytes(self._names_online()))

        self._handler = handler
        self._queryable = self._session.declare_queryable(key, answer)
        self._token = self._session.liveliness().declare_token(
            f"{self._root}/alive/{self._name}/{self.session}"
        )

    def close(self) -> None:
        token = self._token
        self._token = None
        if token is not None:
            token.undeclare()
            time.sleep(_PAUSE)  # so that pending requests still get a reply
        if not self._session.is_closed():
            self._session.close()

    def _send(self, names: Iterable[str], text: str, end: float) -> dict[str, tuple[bytes, ...]]:
        """Send one request to several peers, and return the different replies of each by name.

        All requests are sent before the peer waits for the first reply, so that peers answer at the
        same time. Zenoh holds replies (tested with 400 kB) until they are read.
        """
        timeout = max(end - time.monotonic(), 0.001)
        pending = {}
        for name in names:
            pending[name] = self._session.get(
                f"{self._root}/model/{name}",
                payload=text.encode(),
                attachment=self._name.encode(),
                timeout=timeout,
                # Query all matches, so that two peers with the same name are detected.
                target=self._zenoh.QueryTarget.ALL,
                consolidation=self._zenoh.ConsolidationMode.NONE,
            )
        return {name: self._distinct(replies) for name, replies in pending.items()}

    def _distinct(self, replies: Any) -> tuple[bytes, ...]:
        """The different replies to one request, at most two: two already show a contradiction (e.g.
        two peers with the same name)."""
        contents: dict[bytes, None] = {}
        for reply in replies:
            if reply.ok is not None:
                contents[reply.ok.payload.to_bytes()] = None
                if reply.ok.attachment is not None:
                    self._note(names_of_bytes(reply.ok.attachment.to_bytes()))
            if len(contents) == 2:
                break
        return tuple(contents)

    def _refresh(self) -> None:
        """Query from time to time which peers are online, without waiting for the answer.

        Zenoh also reports when peers come and go, but that is not enough. After a reconnection, the
        message that a peer has left may arrive after the message that it is back.
        """
        if time.monotonic() - self._last_refresh < _REFRESH:
            return
        self._last_refresh = time.monotonic()
        self._session.liveliness().get(self._liveliness_keys, self._on_reply, timeout=_REFRESH)

    def _note(self, names: list[str]) -> None:
        """Record names that another peer sees online, if they are not online here. Thread-safe."""
        self._missing.add(set(names) - self._names_online())

    def _open_again(self) -> bool:
        """Open a new Zenoh session, if possible. Returns whether a session is open.

        If a peer hangs for about the length of a lease (time after which Zenoh drops a silent
        peer), one side may open a new connection while the other keeps the old one and never
        repeats its declarations. Or both drop the old connection and neither opens a new one. Peers
        treat a new session as unknown, so they connect and declare again.
        """
        former = self._names_online()
        handler = self._handler
        try:
            self._open(zenoh_config(self._settings, self._parameters))
        except ConfigError as error:
            # A port or file that is missing for a moment does not end a peer.
            if str(error) != self._error:
                _log.warning("%s; trying again every round", error)
            self._error = str(error)
            return False
        if handler is not None:
            self._declare(handler)
        self._error = ""
        end = time.monotonic() + _RETURN
        while not former <= self._names_online() and time.monotonic() < end:
            time.sleep(_PAUSE)
        return True

    def _on_reply(self, reply: zenoh.Reply) -> None:
        """Handle an answer to ``_refresh``: a token of a peer that is online. Called on a Zenoh
        thread."""
        # ``ok`` is None if the query failed.
        if reply.ok is not None:
            self._on_change(reply.ok)

    def _on_change(self, sample: zenoh.Sample) -> None:
        """Handle the token of a peer that has appeared (the peer is online) or disappeared. Called
        on a Zenoh thread."""
        peer = tuple(str(sample.key_expr).removeprefix(f"{self._root}/alive/").split("/"))
        if len(peer) != 2 or not is_name(peer[0]) or not is_name(peer[1]):
            return
        with self._lock:
            if sample.kind == self._zenoh.SampleKind.PUT:
                self._online.add(peer)
                self._missing.remove(peer[0])
            else:
                self._online.discard(peer)

    def _names_online(self) -> set[str]:
        """Names of the peers that are online here, including this peer. Thread-safe."""
        with self._lock:
            return {name for name, _ in self._online}


def zenoh_config(settings: NetworkSettings, parameters: int) -> Any:
    """Zenoh's configuration, from the user's file if there is one. Settings that a peer needs
    override the settings in the file.

    Raises:
        ConfigError: the file is missing or not a Zenoh configuration.
    """
    zenoh = _load_zenoh()
    try:
        config = zenoh.Config.from_file(settings.zenoh) if settings.zenoh else zenoh.Config()
    except zenoh.ZError as error:
        raise ConfigError(f"network.zenoh: {settings.zenoh}: {_reason(error)}") from error
    defaults: dict[str, Any] = {
        "mode": "peer",
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": True,
    }
    for key, value in defaults.items():
        # The user's file has priority: it may set another value, for example behind a firewall.
        if json.loads(config.get_json(key)) is None:
            config.insert_json5(key, json.dumps(value))
    required: dict[str, Any] = {
        "connect/endpoints": settings.connect,
        "transport/link/rx/max_message_size": size_limit(parameters),
        "transport/shared_memory/enabled": False,  # it would bypass the size limit and TLS
    }
    # A Zenoh client does not listen.
    if json.loads(config.get_json("mode")) != "client":
        any_port = "tls/0.0.0.0:0" if settings.tls else "tcp/127.0.0.1:0"
        required["listen/endpoints"] = settings.listen or [any_port]
    if settings.tls:
        required |= _tls(settings)
    for key, value in required.items():
        config.insert_json5(key, json.dumps(value))
    return config


def _tls(settings: NetworkSettings) -> dict[str, Any]:
    """Zenoh's settings for mutual TLS.

    Peers are identified by name at any address, so certificates need not contain addresses.
    """
    tls = settings.tls
    assert tls is not None
    for key in ("ca", "certificate", "key"):
        path = Path(getattr(tls, key))
        if not path.is_file():
            raise ConfigError(
                f"network.tls.{key}: {path}: there is no such file; fedkin peer init makes it"
            )
    options = {
        "listen_certificate": str(tls.certificate),
        "listen_private_key": str(tls.key),
        "connect_certificate": str(tls.certificate),
        "connect_private_key": str(tls.key),
        "root_ca_certificate": str(tls.ca),
        "enable_mtls": True,
        "verify_name_on_connect": False,
    }
    entries: dict[str, Any] = {f"transport/link/tls/{key}": options[key] for key in options}
    entries["transport/link/protocols"] = [protocol.rstrip("/") for protocol in ENCRYPTED]
    return entries


def _reason(error: Exception) -> str:
    """Zenoh's error message without the places in its source code."""
    return str(error).split(" at /")[0].strip()


def _load_zenoh() -> Any:
    """Import Zenoh. Raises MissingExtra if it is not installed."""
    try:
        import zenoh
    except ImportError as error:
        raise MissingExtra(
            "real peers need Eclipse Zenoh, which is not installed: pip install 'fedkin[p2p]'"
        ) from error
    return zenoh
