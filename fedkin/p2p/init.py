"""A federation to try out: a folder per peer with its configuration, and certificates where they are wished."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from fedkin.config import peer
from fedkin.config.run import parse_override
from fedkin.core.errors import ConfigError
from fedkin.core.storage import storing, write_atomic
from fedkin.p2p.access_rules import access_rules
from fedkin.security.certificates import Authority, write_public, write_secret

CONFIG, RULES = "peer.toml", "access.json5"
CA, CA_KEY, CERTIFICATE, KEY = "ca.pem", "ca-key.pem", "certificate.pem", "key.pem"

# Handwritten digits of two kinds of peers, each of which calls the digits by names of its own.
TRIAL: dict[str, Any] = {
    "data": {"name": "planted", "base": "digits", "kind": "label_permutation", "clusters": 2, "samples": 60},
    "model": {"name": "mclr"},
    "method": {"name": "panm", "neighbours": 2, "candidates": 4, "stage_one": 10, "period": 2},
    "local": {"epochs": 1, "batch_size": 10, "lr": 0.1},
}


def init(
    folder: Path,
    peers: int,
    *,
    tls: bool = False,
    federation: str = "trial",
    host: str = "127.0.0.1",
    port: int = 7450,
    settings: Sequence[str] = (),
) -> list[Path]:
    """Write ``folder/peer-0/peer.toml`` and so on; with ``tls`` an authority, and for each a key, a certificate and
    access rules. Peers that are there already keep what they have but the access rules, which know the new ones.

    Raises ConfigError for what cannot be, StorageError where it cannot be written, MissingExtra without cryptography.
    """
    if peers < 1 or not 1 <= port <= 65_536 - peers:
        raise ConfigError(f"expected at least one peer and ports up to 65535, got {peers} peers from port {port} on")
    names = [f"peer-{k}" for k in range(peers)]
    before = [path.name for path in folder.glob(f"peer-*/{CONFIG}")]
    if before and (folder / CA).exists() != tls:
        raise ConfigError(
            f"{folder} holds peers {'with' if not tls else 'without'} certificates; choose another folder"
        )
    raws = {name: _described(names, k, tls, federation, host, port, settings) for k, name in enumerate(names)}
    for raw in raws.values():
        peer.from_dict(raw)
    with storing(folder):
        for name, raw in raws.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            if not (folder / name / CONFIG).exists():
                write_atomic(folder / name / CONFIG, tomli_w.dumps(raw))
        if tls:
            _certify(folder, federation, names)
    return [folder / name / CONFIG for name in names]


def _described(
    names: list[str], k: int, tls: bool, federation: str, host: str, port: int, settings: Sequence[str]
) -> dict[str, Any]:
    """The configuration of peer k: it finds the others through the first two."""
    way = "tls" if tls else "tcp"
    addresses = [f"{way}/{host}:{port + i}" for i in range(len(names))]
    raw: dict[str, Any] = {
        "peer": {"name": names[k], "federation": federation, "client": k, "seed": 0, "folder": "."},
        "network": {"listen": [addresses[k]], "connect": [a for a in addresses[:2] if a != addresses[k]]},
        **{section: dict(values) for section, values in TRIAL.items()},
    }
    raw["data"]["clients"] = len(names)
    if tls:
        raw["network"] |= {"zenoh": RULES, "tls": {"ca": CA, "certificate": CERTIFICATE, "key": KEY}}
    for text in settings:
        section, key, value = parse_override(text)
        raw.setdefault(section, {})
        if section in TRIAL and key == "name" and value != TRIAL[section]["name"]:
            raw[section] = {}  # the options of another choice mean nothing to this one
        raw[section][key] = value
    return raw


def _certify(folder: Path, federation: str, names: list[str]) -> None:
    """Keys and certificates for those that have none, access rules for all."""
    if (folder / CA).exists():
        authority = Authority.load(folder / CA, folder / CA_KEY)
    else:
        authority = Authority.new(federation)
        authority.save(folder / CA, folder / CA_KEY)
    known = sorted({*names, *(path.parent.name for path in folder.glob(f"*/{CERTIFICATE}"))})
    for name in known:
        own = folder / name
        if not (own / CERTIFICATE).exists():
            certificate, key = authority.member(name)
            write_secret(own / KEY, key)
            write_public(own / CERTIFICATE, certificate)
        write_public(own / CA, (folder / CA).read_bytes())
        told = _kept(own / RULES) | access_rules(federation, known)
        write_public(own / RULES, json.dumps(told, indent=1).encode())


def _kept(path: Path) -> dict[str, Any]:
    """What a peer tells Zenoh besides; nothing where the file is not there, or no plain JSON."""
    try:
        told = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}
