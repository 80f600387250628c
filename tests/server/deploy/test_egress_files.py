"""The ledger of a site's folder: its outbox, its floors, and the server's handshake."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from fedkin.config.server import load_client, load_server
from fedkin.config.server_settings import DisclosureSettings, SiteSettings
from fedkin.core.errors import ConfigError
from fedkin.core.requirements import requirements_of
from fedkin.data.federated import FederatedData
from fedkin.methods.fedavg import FedAvg
from fedkin.methods.ifca import IFCA
from fedkin.methods.pacfl import PACFL
from fedkin.server.deploy.build_node import build_node, node_from_config
from fedkin.server.deploy.custom_clients import _outbox
from fedkin.server.deploy.run_server import RemoteWorlds
from fedkin.server.deploy.site_outbox import site_outbox
from fedkin.server.deploy.stated_needs import stated_needs, tasks_of
from fedkin.server.egress_outbox import Receiver
from fedkin.tasks.evaluate import Evaluate
from tests.server.memory_transport import MemoryTransport, request_round
from tests.server.small_federations import clustered_data, model_of

SITE = {
    "client": {"name": "berlin", "federation": "north"},
    "samples": {"shape": [6], "classes": 6},
    "model": {"name": "mclr"},
    "data": {"name": "digits", "clients": 6},
}


def site(folder: Path, **sections: Any) -> Path:
    """A site's file."""
    path = folder / "client.toml"
    path.write_text(tomli_w.dumps({**SITE, **sections}))
    return path


def test_the_outbox_knows_the_server(tmp_path: Path) -> None:
    path = site(tmp_path, disclosure={"models": 2, "bytes_per_round": 10_000})
    (tmp_path / "flower.env").write_text("SUPERLINK=fed.example.org:8000\n")
    (tmp_path / "ca.pem").write_bytes(b"certificate")
    outbox = site_outbox(path)
    assert outbox.ledger.path == tmp_path / "egress.jsonl"
    assert outbox.site == "berlin"
    certificate = hashlib.sha256(b"certificate").hexdigest()
    assert outbox.receiver == Receiver("north", "fed.example.org:8000", certificate)
    assert outbox.bytes_per_round == 10_000
    assert outbox.floors == {
        "subjects": 10,
        "count": "samples",
        "per_class": 5,
        "test": 10,
        "bytes_per_round": 10_000,
        "models": 2,
    }


@pytest.mark.parametrize("extra", [b"\xef\xbb\xbf", b"# M\xfcnchen\n"])
def test_the_limit_holds_in_a_file_with_a_mark_or_another_encoding(
    tmp_path: Path, extra: bytes
) -> None:
    path = site(tmp_path, disclosure={"bytes_per_round": 10_000})
    path.write_bytes(extra + path.read_bytes())
    limits = load_client(path).disclosure
    assert limits is not None and limits.bytes_per_round == 10_000
    outbox = site_outbox(path)
    assert outbox.bytes_per_round == 10_000
    assert outbox.floors["bytes_per_round"] == 10_000
    assert outbox.site == "berlin"


@pytest.mark.parametrize(
    "text", ["", "client = 3\n", "[client\n", "[disclosure]\nmodels = 0\n", "disclosure = 3\n"]
)
def test_a_site_with_damaged_files_still_has_a_ledger(tmp_path: Path, text: str) -> None:
    (tmp_path / "client.toml").write_text(text)
    outbox = site_outbox(tmp_path / "client.toml")
    assert (outbox.site, outbox.receiver, outbox.floors) == ("", Receiver(), {})
    assert outbox.bytes_per_round is None
    assert site_outbox(tmp_path / "absent" / "client.toml").receiver == Receiver()


def test_a_client_in_python_has_a_ledger_in_its_folder() -> None:
    outbox = _outbox({"name": "berlin", "folder": "mine"})
    assert outbox is not None and outbox.ledger.path == Path("mine/egress.jsonl")
    assert _outbox({}) is None


def test_the_section_is_optional_and_checked(tmp_path: Path) -> None:
    assert load_client(site(tmp_path)).disclosure is None
    assert load_client(site(tmp_path, disclosure={})).disclosure == DisclosureSettings()
    allowed = load_client(site(tmp_path, disclosure={"tasks": ["train"]})).disclosure
    assert allowed is not None and allowed.tasks == ("train",)
    for key, value in {"subjects": 0, "count": "rows", "tests": 3, "bytes_per_round": -1}.items():
        with pytest.raises(ConfigError, match=f"disclosure.{key}"):
            load_client(site(tmp_path, disclosure={key: value}))


def node(data: FederatedData, **floors: Any) -> Any:
    """The node of all clients of a data set."""
    settings = DisclosureSettings(**floors)
    return build_node(model_of(), data, SiteSettings("berlin"), disclosure=settings)


def test_a_node_compares_with_its_samples() -> None:
    data = clustered_data()
    made = node(data, test=2)
    assert made.floors.samples.tolist() == data.train.sizes.tolist()
    assert made.floors.sizes("test").tolist() == data.test.sizes.tolist() == [2] * 6
    assert (made.floors.class_counts() == data.label_counts()).all()
    assert made.split_sizes("test").tolist() == [2] * 6
    assert build_node(model_of(), data, SiteSettings("berlin")).floors is None
    with pytest.raises(ConfigError, match=r"disclosure.tasks: unknown task"):
        node(data, tasks=["none"])


def test_few_test_samples_are_hidden() -> None:
    data = clustered_data()
    models = np.zeros((1, model_of().spec.parameters), np.float32)
    task = Evaluate(models, np.zeros(6, np.int64))
    shown = node(data, test=2).world(np.arange(6)).run(task, np.arange(6))
    hidden = node(data, test=3).world(np.arange(6)).run(task, np.arange(6))
    assert shown.examples.tolist() == [2] * 6
    assert hidden.examples.tolist() == [0] * 6
    # The floor is compared with the samples that there are.
    assert node(data, test=3).floors.sizes("test").tolist() == [2] * 6


def test_the_file_of_a_site_sets_the_floors(tmp_path: Path) -> None:
    values = {**SITE, "samples": {"shape": [64], "classes": 10}}
    path = site(tmp_path, **{**values, "disclosure": {"subjects": 7}})
    floors = node_from_config(load_client(path)).floors
    assert floors is not None and floors.settings.subjects == 7


# --- the server's handshake


def test_a_server_states_its_methods_needs() -> None:
    assert tasks_of(FedAvg()) == {"train"}
    assert stated_needs([FedAvg()], {}) == {"tasks": ["train"], "single": False}
    # These options average the updates of single clients.
    for option in ("quorum", "late", "robust"):
        assert stated_needs([FedAvg()], {option})["single"]
    assert stated_needs([FedAvg(), PACFL()], {}) == {
        "tasks": ["label_subspaces", "train"],
        "single": requirements_of(PACFL()).reads.updates == "single",
    }
    assert stated_needs([IFCA(clusters=2)], {})["single"]
    # Options may replace the tasks, so they are not stated.
    assert stated_needs([FedAvg()], {"secret": None}) == {}


def test_a_method_of_the_user_in_no_known_module() -> None:
    class Own(FedAvg):
        __module__ = "not_imported"

    assert tasks_of(Own()) == {"train"}


def test_the_handshake_of_a_server_has_them(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    content = {
        "samples": {"shape": [6], "classes": 6},
        "model": {"name": "mclr"},
        "method": {"name": "ifca", "clusters": 2},
        "run": {"rounds": 1, "cohort": 1, "against": ["fedavg"]},
    }
    path.write_text(tomli_w.dumps(content))
    worlds = RemoteWorlds(load_server(path), request_round(MemoryTransport(), capacity=16))
    assert worlds.membership.states == {"tasks": ["train"], "single": True}
    assert json.dumps(worlds.membership.states)
