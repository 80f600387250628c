"""Zenoh's access rules of a federation with certificates."""

from __future__ import annotations

import json

import pytest

from fedkin.p2p.init_federation import access_rules


def test_zenoh_accepts_the_rules_and_no_peer_may_declare_keys_of_others() -> None:
    zenoh = pytest.importorskip("zenoh")
    rules = access_rules("trial", ["ada", "bob"])
    config = zenoh.Config.from_json5(json.dumps(rules))  # it refuses words that it does not know
    assert json.loads(config.get_json("access_control/enabled")) is True
    control = rules["access_control"]
    assert control["default_permission"] == "deny"
    by_name = {rule["id"]: rule for rule in control["rules"]}
    for name, other in (("ada", "bob"), ("bob", "ada")):
        (policy,) = [entry for entry in control["policies"] if entry["subjects"] == [name]]
        into = [by_name[rule] for rule in policy["rules"] if "ingress" in by_name[rule]["flows"]]
        replying = [
            rule
            for rule in into
            if {"reply", "declare_queryable", "liveliness_token"} & set(rule["messages"])
        ]
        assert [rule["key_exprs"] for rule in replying] == [
            [f"fedkin/trial/model/{name}", f"fedkin/trial/alive/{name}/*"]
        ]
        assert f"fedkin/trial/model/{other}" not in replying[0]["key_exprs"]
