"""The reference has every section and key of every kind of file."""

from __future__ import annotations

import pytest

from fedkin.config import peer, reference, run, server
from fedkin.core.errors import ConfigError

ALLOWED = {
    "run": run.SECTIONS,
    "comparison": (*(name for name in run.SECTIONS if name != "metrics"), "compare"),
    "server": server.SERVER,
    "site": server.CLIENT,
    "peer": (*peer.SECTIONS, "network.tls"),
}


@pytest.mark.parametrize("kind", reference.FILES)
def test_a_kind_of_file_has_the_sections_that_its_reader_allows(kind: str) -> None:
    assert set(reference.FILES[kind]) == set(ALLOWED[kind])


def test_every_section_has_its_content_and_keys() -> None:
    allowed = {section for sections in ALLOWED.values() for section in sections}
    assert set(reference.SECTIONS) == allowed
    assert all(reference.CONTENTS.values())
    for section in reference.SECTIONS:
        for row in reference.rows(section):
            assert row.key.type and row.key.meaning and row.key.example != "...", row


def test_equal_keys_are_one_row() -> None:
    found = [row for row in reference.rows("data") if row.key.name == "changes"]
    assert [row.names for row in found] == [("sine",), ("circle", "sea")]
    (validation,) = [row for row in reference.rows("data") if row.key.name == "validation"]
    assert validation.names == ()


def test_one_entry() -> None:
    names = [row.key.name for row in reference.rows("method", "fedprox")]
    assert names == ["name", "mu"]
    assert reference.rows("data", "csv") == reference.rows("data", "file")
    with pytest.raises(ConfigError, match=r"\[method\]: unknown method 'fedprx'; did you mean"):
        reference.rows("method", "fedprx")
    with pytest.raises(ConfigError, match="unknown section 'locl'; did you mean 'local'"):
        reference.rows("locl")


def test_the_first_keys_come_first() -> None:
    assert [row.key.name for row in reference.rows("run")][:2] == ["rounds", "cohort"]
    assert [row.key.name for row in reference.rows("data", "csv")][:2] == ["name", "path"]


def test_each_kind_of_file_has_its_default_method() -> None:
    names = {
        kind: sections["method"].default({})
        for kind, sections in reference.FILES.items()
        if "method" in sections
    }
    assert names == {
        "run": "fedgroup",
        "comparison": "fedgroup",
        "server": "fedavg",
        "peer": "panm",
    }


def test_a_search_finds_names_before_meanings() -> None:
    found = [row.setting for row in reference.search("Dropout")]
    assert {"scenario.dropout", "secret.dropout", "model.dropout"} == set(found)
    found = [row.setting for row in reference.search("momentum")]
    assert found[0] == "local.momentum"
    assert {"local.nesterov", "server_optimizer.beta"} <= set(found[1:])
    assert reference.search("no such word") == []
