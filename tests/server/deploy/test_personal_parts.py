"""A personal part on real sites: it stays there, and a server that goes on finds it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.server.deploy.test_run_server import CLIENTS, Lab

DITTO = '[personal]\nname = "ditto"\nstrength = 0.5'


def test_it_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labs = {name: Lab(tmp_path / name, monkeypatch) for name in ("whole", "stopped", "plain")}
    for lab in labs.values():
        lab.join(*range(CLIENTS))
    whole = labs["whole"].serve(more=DITTO)
    plain = labs["plain"].serve()
    labs["stopped"].serve(more=DITTO, rounds=2)
    resumed = labs["stopped"].serve(more=DITTO)
    assert resumed.summary()["method"] == "flexcfl+ditto"
    np.testing.assert_array_equal(resumed.models, whole.models)
    # clients' own models leave the clusters' alone.
    np.testing.assert_array_equal(whole.models, plain.models)
    assert (
        resumed.clients["loss"].tolist()
        == whole.clients["loss"].tolist()
        != plain.clients["loss"].tolist()
    )


def test_personal_heads_need_another_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path, monkeypatch)
    lab.join(*range(CLIENTS))
    with pytest.raises(
        ValueError, match=r"personal: method: FlexCFL with personal heads .* no other layer"
    ):
        lab.serve(more='[personal]\nname = "head"')
