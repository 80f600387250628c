"""The lab of Flower's processes: they work, and all end with it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower's processes need pip install 'fedkin[flower]'")
pytest.importorskip("cryptography", reason="the lab's keys need pip install 'fedkin[flower]'")
if not Path("/proc/self/environ").is_file():
    pytest.skip(
        f"the lab finds its processes in /proc, which {sys.platform} has not",
        allow_module_level=True,
    )

from tests.process.flower_lab import Ended, Lab, Refused

PROJECT = """
[project]
name = "counting"
version = "1.0.0"
description = "Clients count their messages."
license = "Apache-2.0"

[tool.flwr.app]
publisher = "lab"
components = {serverapp = "counting:server", clientapp = "counting:client"}
config = {nodes = 1}
"""
PROGRAM = """
import time
from flwr.app import Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

server = ServerApp()
client = ClientApp()

@client.query()
def count(message, context):
    before = context.state["count"]["n"] if "count" in context.state else 0
    context.state["count"] = MetricRecord({"n": before + 1})
    reply = MetricRecord({"n": before + 1, "k": context.node_config["k"]})
    return Message(RecordDict({"count": reply}), reply_to=message)

@server.main()
def main(grid, context):
    while len(nodes := list(grid.get_node_ids())) < context.run_config["nodes"]:
        time.sleep(0.1)
    sent = grid.push_messages([Message(RecordDict(), node, "query") for node in nodes])
    left = set(sent)
    while left:
        for reply in grid.pull_messages(left):
            left.discard(reply.metadata.reply_to_message_id)
            print("reply", reply.content["count"]["k"], reply.content["count"]["n"], flush=True)
        time.sleep(0.1)
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "counting.py").write_text(PROGRAM)
    return folder


def test_two_nodes_reply_one_is_killed_and_no_process_is_left(tmp_path: Path, app: Path) -> None:
    with Lab(tmp_path / "lab") as lab:
        lab.superlink()
        ids = lab.nodes({"a": {"k": 7}, "b": {"k": 8}})
        assert ids["a"] != ids["b"]
        run = lab.run(app, {"nodes": 2})
        assert lab.wait(run, 60) == "finished:completed", lab.output(run)
        assert sorted(re.findall(r"^reply (\d) (\d)$", lab.output(run), re.MULTILINE)) == [
            ("7", "1"),
            ("8", "1"),
        ]
        assert lab.processes("a", "flower-superexec") and lab.processes("b")
        lab.kill("a")
        assert not lab.processes("a") and lab.processes("b")
    assert not lab.processes()


def test_an_unregistered_key_is_refused(tmp_path: Path) -> None:
    with Lab(tmp_path / "lab", tls=True) as lab:
        lab.superlink()
        with pytest.raises(Ended, match="Failed to activate SuperNode"):
            lab.node("a", {})
        known = lab.register("a")
        assert lab.restart("a") == known
        with pytest.raises(Refused, match="lready"):
            lab.register("a")
        assert lab.stop("a") == 0
    assert not lab.processes()
