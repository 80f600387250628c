"""The commands of Flower: a key counts as registered only where Flower knows it under the site's
name."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr", reason="a deployment needs pip install 'fedkin[flower]'")
from fedkin.server.deploy import flower_commands
from fedkin.server.deploy.flower_commands import CommandError, _register, _revoke


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site called berlin in a folder of another name, whose key Flower knows already."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site-0").mkdir()
    (tmp_path / "site-0/client.toml").write_text('[client]\nname = "berlin"\n')

    def in_use(*arguments: str) -> str:
        raise CommandError("Public key already in use.")

    monkeypatch.setattr(flower_commands, "flwr", in_use)
    return tmp_path / "site-0"


def known(monkeypatch: pytest.MonkeyPatch, **node: str) -> None:
    monkeypatch.setattr(flower_commands, "_nodes_with", lambda key: [SimpleNamespace(**node)])


@pytest.mark.parametrize("status", ["registered", "online", "offline"])
def test_a_key_of_the_same_name_is_registered(
    site: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    known(monkeypatch, name="berlin", status=status)
    _register(site.name)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"name": "paris", "status": "online"}, ("is registered as 'paris'", "'berlin'")),
        ({"name": "berlin", "status": "unregistered"}, ("was unregistered", "never accepts")),
    ],
)
def test_a_key_that_flower_refuses_is_not_called_registered(
    site: Path, monkeypatch: pytest.MonkeyPatch, node: dict[str, Any], words: tuple[str, ...]
) -> None:
    known(monkeypatch, **node)
    with pytest.raises(CommandError) as refused:
        _register(site.name)
    key = f"{site}/key"
    for word in (
        *words,
        f"{key}.pub",
        f"rm {key} {key}.pub && ssh-keygen -t ecdsa -b 384",
        f"-f {key}",
    ):
        assert word in str(refused.value)


def test_a_site_is_registered_under_the_name_in_its_file(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(flower_commands, "flwr", lambda *arguments: calls.append(arguments) or "")
    _register(site.name)
    assert calls == [("supernode", "register", f"{site}/key.pub", "fedkin", "--name", "berlin")]


def test_all_keys_of_a_name_are_revoked_except_the_kept_one(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [
        SimpleNamespace(node_id=1, name="berlin", status="online", public_key=b"former"),
        SimpleNamespace(node_id=2, name="berlin", status="offline", public_key=b"older"),
        SimpleNamespace(node_id=3, name="berlin", status="registered", public_key=b"new"),
        SimpleNamespace(node_id=4, name="berlin", status="unregistered", public_key=b"oldest"),
        SimpleNamespace(node_id=5, name="paris", status="online", public_key=b"other"),
    ]
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(flower_commands, "_nodes", lambda: nodes)
    monkeypatch.setattr(flower_commands, "_key_content", lambda path: b"new")
    monkeypatch.setattr(flower_commands, "flwr", lambda *arguments: calls.append(arguments) or "")
    assert _revoke("berlin", keep=[site / "key.pub"]) == 2
    assert calls == [("supernode", "unregister", str(node), "fedkin") for node in (1, 2)]
    assert _revoke("berlin", keep=[]) == 3
    assert _revoke("rome", keep=[]) == 0
