"""Zenoh's access rules of a federation of peers with certificates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def access_rules(federation: str, names: Sequence[str]) -> dict[str, Any]:
    """Zenoh's access control by certificate name: every peer may query every other, declare and reply only under its
    own keys, and nothing else."""
    root = f"fedkin/{federation}"
    requesting = ["query", "liveliness_query", "declare_liveliness_subscriber"]
    replying = ["reply", "declare_queryable", "liveliness_token"]
    all_keys = [f"{root}/model/*", f"{root}/alive/**"]
    rules: list[dict[str, Any]] = [
        {"id": "in", "messages": requesting, "flows": ["ingress"], "key_exprs": all_keys},
        {"id": "out", "messages": requesting + replying, "flows": ["egress"], "key_exprs": all_keys},
    ]
    for name in names:
        own = [f"{root}/model/{name}", f"{root}/alive/{name}/*"]
        rules.append({"id": f"own {name}", "messages": replying, "flows": ["ingress"], "key_exprs": own})
    return {
        "access_control": {
            "enabled": True,
            "default_permission": "deny",
            "rules": [{**rule, "permission": "allow"} for rule in rules],
            "subjects": [{"id": name, "cert_common_names": [name]} for name in names],
            "policies": [{"rules": ["in", "out", f"own {name}"], "subjects": [name]} for name in names],
        }
    }
