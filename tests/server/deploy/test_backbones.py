"""Sites that train adapters: the backbone may be in another folder on each machine, with the same
weights."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

pytest.importorskip("tokenizers", reason="texts need pip install 'fedkin[text]'")

from fedkin.config.server import load_client, load_server
from fedkin.core.errors import ConfigError, DataError
from fedkin.server.deploy import check as checks
from fedkin.server.deploy.build_node import node_from_config
from fedkin.server.deploy.configurations import check_files, configurations
from fedkin.server.deploy.run_server import RemoteWorlds
from fedkin.server.message import RpcMessage
from tests.models.tiny_bert import WIDTH, write_bert
from tests.server.memory_transport import MemoryTransport, request_round

TOKENS = 5


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """server.toml and the client.toml of a site, each with its own copy of the backbone."""
    model = {"name": "lora", "backbone": "backbone", "rank": 2}
    shared = {"samples": {"shape": [TOKENS], "classes": 2, "words": 18}, "model": model}
    server = {"federation": {"capacity": 1, "wait_for": 1}, "run": {"rounds": 1, "cohort": 1}}
    client = {"name": "berlin", "federation": "federation", "folder": "state", "clients": [0]}
    data = {"name": "file", "path": "texts.npz", "integers": True}
    for name, content in (("server", server), ("client", {"client": client, "data": data})):
        write_bert(tmp_path / name / "backbone")
        (tmp_path / name / f"{name}.toml").write_text(tomli_w.dumps(content | shared))
    tokens = np.random.default_rng(0).integers(4, 18, (12, TOKENS))
    np.savez(tmp_path / "client" / "texts.npz", x=tokens, y=[0, 1] * 6, client_id=np.zeros(12, int))
    return tmp_path


def answer(files: Path, server: str = "server/server.toml", site: str = "client") -> RpcMessage:
    """The site's reply to the server's handshake."""
    rounds = request_round(MemoryTransport(), capacity=2, deadline=90.0)
    worlds = RemoteWorlds(load_server(files / server), rounds)
    header: dict[str, Any] = {"operation": "hello", **worlds.membership.own.header()}
    header["federation"] = ""
    node = node_from_config(load_client(files / site / "client.toml"))
    return node.handle(RpcMessage(header))


def test_the_same_weights_in_another_folder_take_part(files: Path) -> None:
    reply = answer(files)
    assert "refused" not in reply.header
    assert len(reply.header["backbone"]) == 16


def test_other_weights_are_refused_by_name(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_bert(files / "client" / "backbone", seed=1)
    with caplog.at_level(logging.ERROR, "fedkin"):
        reply = answer(files)
    assert "the backbone's weights have the digest" in reply.header["refused"]
    assert "model.backbone" in caplog.text
    config = load_client(files / "client" / "client.toml")
    server = load_server(files / "server" / "server.toml")
    with pytest.raises(ConfigError, match=r"model\.backbone: the weights in .* are not those in"):
        checks._refuse_other_backbone(config, server)


def test_another_rank_is_another_configuration(files: Path) -> None:
    path = files / "client" / "client.toml"
    config = load_client(path, ["model.rank=3"])
    server = load_server(files / "server" / "server.toml")
    assert load_client(path).shared_digest == server.shared_digest
    assert config.shared_digest != server.shared_digest


def test_new_files_name_the_backbone_from_where_the_command_runs(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files / "client")
    settings = [
        "data.name=file",
        f"data.path={files / 'client' / 'texts.npz'}",
        "data.integers=true",
        "model.name=lora",
        "model.backbone=backbone",
        "model.rank=2",
        "method.name=fedavg",
    ]
    server, sites = configurations(tmp_path / "dep", ["a"], ["a"], settings, False)
    assert server["model"]["backbone"] == str(files / "client" / "backbone")
    assert sites["a"]["model"] == server["model"]
    assert server["samples"]["words"] == 18


def test_the_words_of_all_sites_count(files: Path, tmp_path: Path) -> None:
    """The largest token may occur at one site only, whichever comes first."""
    for name, largest in (("a", 12), ("b", 17)):
        folder = tmp_path / "dep" / name
        folder.mkdir(parents=True)
        tokens = np.full((4, TOKENS), 4)
        tokens[0, 0] = largest
        np.savez(folder / "texts.npz", x=tokens, y=[0, 1] * 2, client_id=np.zeros(4, int))
    settings = [
        "data.name=file",
        "data.path=texts.npz",
        "data.integers=true",
        "model.name=lora",
        f"model.backbone={files / 'client' / 'backbone'}",
        "model.rank=2",
        "method.name=fedavg",
    ]
    server, _ = configurations(tmp_path / "dep", ["a", "b"], ["a", "b"], settings, False)
    assert server["samples"]["words"] == 18


# --- texts whose features the sites compute


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A deployment's folder with the tables of two sites, and a backbone next to it."""
    write_bert(tmp_path / "tiny")
    for name in ("a", "b"):
        lines = [f"the {'cat' if row % 2 else 'dog'} sat,{row % 2}" for row in range(8)]
        folder = tmp_path / "dep" / name
        folder.mkdir(parents=True)
        (folder / "remarks.csv").write_text("\n".join(["remark,answer", *lines]) + "\n")
    return tmp_path / "dep"


def features_settings(texts: Path) -> list[str]:
    return [
        "data.name=texts",
        "data.path=remarks.csv",
        "data.text=remark",
        "data.label=answer",
        f"data.tokenizer={texts.parent / 'tiny'}",
        "data.length=5",
        "data.partition=iid",
        "data.clients=1",
        "data.features_layer=1",
        "model.name=lora",
        f"model.backbone={texts.parent / 'tiny'}",
        "model.rank=2",
        "model.layers=[1]",
        "method.name=fedavg",
    ]


def test_sites_that_compute_features_train_the_layers_above(texts: Path) -> None:
    server, sites = configurations(texts, ["a", "b"], ["a", "b"], features_settings(texts), False)
    described = server["samples"]["features_of"]
    assert described["layer"] == 1 and server["samples"]["shape"] == [5, WIDTH]
    (texts / "a" / "client.toml").write_text(tomli_w.dumps(sites["a"]))
    (texts / "server.toml").write_text(tomli_w.dumps(server))
    reply = answer(texts, "server.toml", "a")
    assert "refused" not in reply.header


def test_texts_may_lie_in_the_folders_of_the_sites(texts: Path) -> None:
    """A relative path starts there, and the check of new files does not look elsewhere."""
    server, sites = configurations(texts, ["a", "b"], ["a", "b"], features_settings(texts), False)
    assert all("clients" not in content["client"] for content in sites.values())
    check_files(texts, server, sites)


def test_labels_of_texts_have_the_order_of_all_sites(texts: Path) -> None:
    for name, answers in (("a", ("yes", "no")), ("b", ("maybe", "yes"))):
        lines = [f"the cat sat,{answers[row % 2]}" for row in range(8)]
        (texts / name / "remarks.csv").write_text("\n".join(["remark,answer", *lines]) + "\n")
    settings = [*features_settings(texts), 'data.label_names=["yes", "no", "maybe"]']
    server, sites = configurations(texts, ["a", "b"], ["a", "b"], settings, False)
    assert server["samples"]["labels"] == ["yes", "no", "maybe"]
    for name in ("a", "b"):
        sites[name]["data"].pop("label_names", None)  # [samples] has them
        path = texts / name / "client.toml"
        path.write_text(tomli_w.dumps(sites[name]))
        node = node_from_config(load_client(path))
        assert node is not None


def test_a_site_with_the_inputs_of_another_layer_is_refused(texts: Path) -> None:
    _, sites = configurations(texts, ["a", "b"], ["a", "b"], features_settings(texts), False)
    sites["a"]["samples"]["features_of"]["layer"] = 0
    (texts / "a" / "client.toml").write_text(tomli_w.dumps(sites["a"]))
    with pytest.raises(
        DataError, match=r"inputs of layer 1 .*\[samples\] says the inputs of layer 0"
    ):
        node_from_config(load_client(texts / "a" / "client.toml"))


def test_an_incomplete_description_of_features_is_refused(files: Path) -> None:
    with pytest.raises(ConfigError, match="features_of: has the entries backbone, digest, layer"):
        load_client(files / "client" / "client.toml", ["samples.features_of={layer=1}"])
