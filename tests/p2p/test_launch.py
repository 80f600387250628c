"""A peer that is built from its configuration."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from fedkin.config import peer
from fedkin.core.errors import ConfigError
from fedkin.p2p.init_federation import init_federation
from fedkin.p2p.launch import build_peer


def test_a_built_peer_keeps_its_folder_and_goes_on_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("zenoh")
    (config,) = init_federation(
        tmp_path / "fed", 1, settings=["data.clusters=1", "data.samples=20", "peer.rounds=2"]
    )
    records: list[dict[str, Any]] = []
    with caplog.at_level(logging.WARNING, "fedkin"):
        for changes in ([], ["peer.rounds=3"]):
            free = [*changes, "network.listen=['tcp/127.0.0.1:0']"]
            build_peer(peer.load(config, free), on_round=records.append).run()
    assert [record["round"] for record in records] == [1, 2, 3]
    assert all("no other peer can be reached" in record.getMessage() for record in caplog.records)
    assert {path.name for path in config.parent.iterdir()} == {
        "peer.toml",
        "peer.safetensors",
        "metrics.jsonl",
    }


def test_a_peer_with_text_labels_must_name_all_classes(tmp_path: Path) -> None:
    """Each peer would number those that occur in its own file."""
    pytest.importorskip("zenoh")
    (config,) = init_federation(
        tmp_path / "fed", 1, settings=["data.clusters=1", "data.samples=20"]
    )
    rows = "\n".join(f"{i},{'ill' if i % 2 else 'well'},me" for i in range(20))
    (tmp_path / "mine.csv").write_text(f"age,y,client_id\n{rows}\n")
    text = config.read_text()
    start = text.index("[data]")
    end = text.index("[", start + 1)
    config.write_text(
        f'{text[:start]}[data]\nname = "file"\npath = "{tmp_path}/mine.csv"\n\n{text[end:]}'
    )
    with pytest.raises(
        ConfigError,
        match=r"data: labels are text.*on every site, such as label_names = \['ill', 'well'\]",
    ):
        build_peer(peer.load(config))
