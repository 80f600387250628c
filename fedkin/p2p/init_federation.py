"""Makes a trial federation: a folder for each peer with its configuration and, if wanted, its TLS
certificate."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from fedkin.config import peer
from fedkin.config.loader import parse_override
from fedkin.core.errors import ConfigError
from fedkin.core.storage import storage_errors, write_atomic
from fedkin.security.certificates import Authority, write_public, write_secret

CONFIG = "peer.toml"
RULES = "access.json5"
CA = "ca.pem"
CA_KEY = "ca-key.pem"
CERTIFICATE = "certificate.pem"
KEY = "key.pem"

# The trial: handwritten digits, in two clusters of peers with different permutations of the labels.
TRIAL: dict[str, Any] = {
    "data": {
        "name": "planted",
        "base": "digits",
        "kind": "label_permutation",
        "clusters": 2,
        "samples": 60,
    },
    "model": {"name": "mclr"},
    "method": {"name": "panm", "neighbours": 2, "candidates": 4, "stage_one": 10, "period": 2},
    "local": {"epochs": 1, "batch_size": 10, "lr": 0.1},
}


def init_federation(
    folder: Path,
    peers: int,
    *,
    tls: bool = False,
    federation: str = "trial",
    host: str = "127.0.0.1",
    port: int = 7450,
    settings: Sequence[str] = (),
) -> list[Path]:
    """Write ``folder/peer-0/peer.toml`` and so on for all peers.

    Existing peers keep their files. Only their access rules are rewritten, to admit the new peers.

    Args:
        folder: folder for the peers' folders.
        peers: number of peers. Fewer may run at a time.
        tls: whether peers connect by TLS. If so, the certificate and key of an authority are
            written too, and a certificate, a key and access rules for each peer.
        federation: name of the federation.
        host: address at which the peers listen.
        port: port of the first peer; the others get consecutive ports.
        settings: ``section.key=value`` for all peers.

    Returns:
        The peers' configuration files.

    Raises:
        ConfigError: the number of peers, the port or a setting is invalid; existing peers use
            certificates and the new ones do not (or the other way round); or a peer's file of
            access rules is not plain JSON. Then no file is written.
        StorageError: a file cannot be written.
        MissingExtra: ``cryptography`` is not installed.
    """
    if peers < 1 or not 1 <= port <= 65_536 - peers:
        raise ConfigError(
            f"expected at least one peer, and ports up to 65535, got {peers} peers from port "
            f"{port} on"
        )
    names = [f"peer-{k}" for k in range(peers)]
    if any(folder.glob(f"peer-*/{CONFIG}")) and (folder / CA).exists() != tls:
        raise ConfigError(
            f"{folder} holds peers {'with' if not tls else 'without'} certificates, but the new "
            f"peers would be {'with' if tls else 'without'}; {'leave out' if tls else 'add'} "
            "--tls, or choose another folder"
        )
    raws = {}
    for k, name in enumerate(names):
        raws[name] = _raw_config(
            names=names,
            k=k,
            tls=tls,
            federation=federation,
            host=host,
            port=port,
            settings=settings,
        )
    # Check all configurations before any file is written.
    for raw in raws.values():
        peer.from_dict(raw)
    options = _options_of_members(folder, names) if tls else {}
    with storage_errors(folder):
        for name in names:
            (folder / name).mkdir(parents=True, exist_ok=True)
        # The configurations come last: a folder with peers, but without an authority, is one of
        # peers without certificates.
        if tls:
            _write_certificates(folder, federation, options)
        for name, raw in raws.items():
            if not (folder / name / CONFIG).exists():
                write_atomic(folder / name / CONFIG, tomli_w.dumps(raw))
    return [folder / name / CONFIG for name in names]


def _raw_config(
    names: list[str],
    k: int,
    tls: bool,
    federation: str,
    host: str,
    port: int,
    settings: Sequence[str],
) -> dict[str, Any]:
    """The content of peer k's ``peer.toml``. The peer finds all others through the first two
    peers."""
    protocol = "tls" if tls else "tcp"
    addresses = [f"{protocol}/{host}:{port + i}" for i in range(len(names))]
    raw: dict[str, Any] = {
        "peer": {"name": names[k], "federation": federation, "client": k, "seed": 0, "folder": "."},
        "network": {
            "listen": [addresses[k]],
            "connect": [a for a in addresses[:2] if a != addresses[k]],
        },
        **{section: dict(values) for section, values in TRIAL.items()},
    }
    raw["data"]["clients"] = len(names)
    if tls:
        raw["network"] |= {
            "zenoh": RULES,
            "tls": {"ca": CA, "certificate": CERTIFICATE, "key": KEY},
        }
    changes = _by_section(settings)
    for section, values in changes.items():
        # If the user chooses another method (or data set, model), the trial's options for its own
        # choice do not apply.
        name_of_trial = TRIAL.get(section, {}).get("name")
        is_same_choice = values.get("name", name_of_trial) == name_of_trial
        defaults = raw.get(section, {}) if is_same_choice else {}
        raw[section] = {**defaults, **values}
    # The model of the trial is for its data. The default depends on the labels of the user's data.
    if raw["data"].get("name") != TRIAL["data"]["name"] and "model" not in changes:
        raw.pop("model")
    return raw


def _by_section(settings: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The user's settings by section and key. Raises ConfigError for a text that is no setting."""
    changes: dict[str, dict[str, Any]] = {}
    for text in settings:
        section, key, value = parse_override(text)
        changes.setdefault(section, {})[key] = value
    return changes


def _options_of_members(folder: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """The Zenoh options of every peer that has a certificate or gets one, by its name.

    Args:
        folder: folder with the peers' folders.
        names: names of the peers of this call of ``init_federation``; the folder may hold earlier
            peers too.

    Raises:
        ConfigError: a file with options cannot be read.
    """
    earlier = (path.parent.name for path in folder.glob(f"*/{CERTIFICATE}"))
    members = sorted({*names, *earlier})
    return {name: _read_options(folder / name / RULES) for name in members}


def _write_certificates(
    folder: Path, federation: str, options: Mapping[str, dict[str, Any]]
) -> None:
    """Write keys and certificates for the peers that have none, and access rules for all peers.

    Args:
        folder: folder with the peers' folders.
        federation: name of the federation.
        options: the present Zenoh options of each peer, by its name; the access rules are added.
    """
    if (folder / CA).exists():
        authority = Authority.load(folder / CA, folder / CA_KEY)
    else:
        authority = Authority.new(federation)
        authority.save(folder / CA, folder / CA_KEY)
    rules = access_rules(federation, list(options))
    for name, own_options in options.items():
        member = folder / name
        if not (member / CERTIFICATE).exists():
            certificate, key = authority.member(name)
            write_secret(member / KEY, key)
            write_public(member / CERTIFICATE, certificate)
        write_public(member / CA, (folder / CA).read_bytes())
        write_atomic(member / RULES, json.dumps(own_options | rules, indent=1))


def _read_options(path: Path) -> dict[str, Any]:
    """The Zenoh options in a peer's file of access rules, to which the user may have added some;
    empty if there is no file.

    Raises ConfigError for a file that is not plain JSON, because its options would be lost when the
    access rules are written again.
    """
    try:
        options = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}; this command writes its access rules again and keeps "
            "its other options, so make it plain JSON (no comments, no trailing commas), or remove "
            "it for a new one"
        ) from error
    if not isinstance(options, dict):
        raise ConfigError(f"{path}: expected an object {{...}} with options of Zenoh; remove it")
    return options


def access_rules(federation: str, names: Sequence[str]) -> dict[str, Any]:
    """Zenoh's access rules, which identify a peer by the name in its certificate.

    Every peer may query every other peer. A peer may announce itself and reply only under its own
    Zenoh keys (paths that contain its name). Everything else is forbidden.
    """
    root = f"fedkin/{federation}"
    requesting = ["query", "liveliness_query", "declare_liveliness_subscriber"]
    replying = ["reply", "declare_queryable", "liveliness_token"]
    all_keys = [f"{root}/model/*", f"{root}/alive/**"]
    rules: list[dict[str, Any]] = [
        {"id": "in", "messages": requesting, "flows": ["ingress"], "key_exprs": all_keys},
        {
            "id": "out",
            "messages": requesting + replying,
            "flows": ["egress"],
            "key_exprs": all_keys,
        },
    ]
    for name in names:
        rules.append(
            {
                "id": f"own {name}",
                "messages": replying,
                "flows": ["ingress"],
                "key_exprs": [f"{root}/model/{name}", f"{root}/alive/{name}/*"],
            }
        )
    return {
        "access_control": {
            "enabled": True,
            "default_permission": "deny",
            "rules": [{**rule, "permission": "allow"} for rule in rules],
            "subjects": [{"id": name, "cert_common_names": [name]} for name in names],
            "policies": [
                {"rules": ["in", "out", f"own {name}"], "subjects": [name]} for name in names
            ],
        }
    }
