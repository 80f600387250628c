"""A key that takes a list has one on the command line, without brackets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedkin.config import comparison, declarations, peer, reference, server
from fedkin.config.key_examples import annotation_of, shell_word, takes_list
from fedkin.config.keys import keys
from fedkin.config.list_values import listed
from fedkin.config.loader import parse_override
from fedkin.config.run import load
from fedkin.core.errors import ConfigError

LISTS = [
    (section, name, key)
    for section, declared in reference.SECTIONS.items()
    for name, kind in declared.kinds().items()
    for key in keys(kind)
    if takes_list(annotation_of(declarations.fields_of(kind)[key.name]))
]


@pytest.mark.parametrize(
    ("section", "name", "key"), LISTS, ids=[f"{s}.{n}.{key.name}" for s, n, key in LISTS]
)
def test_every_key_that_takes_a_list_takes_commas(section: str, name: str, key: Any) -> None:
    kind = reference.SECTIONS[section].kinds()[name]
    annotation = annotation_of(declarations.fields_of(kind)[key.name])
    if not isinstance(key.example, list) or isinstance(key.example[0], dict):
        return
    text = ",".join(map(str, key.example))
    assert listed(parse_override(f"{section}.{key.name}={text}").value, annotation) == key.example


def test_all_kinds_of_lists_are_among_them() -> None:
    found = {f"{section}.{key.name}" for section, _, key in LISTS}
    assert {"data.features", "run.against", "samples.labels", "lockstep.peers"} <= found


def test_words_numbers_and_names_of_columns() -> None:
    config = load(None, ["data.path=my.csv", "data.features=age,weight", "data.label_names=no,yes"])
    assert config.data.values["features"] == ["age", "weight"]
    assert config.data.values["label_names"] == ["no", "yes"]
    assert load(None, ["model.name=mlp", "model.hidden=64,32"]).model.values["hidden"] == [64, 32]
    assert load(None, ["data.augment=flip"]).data.values["augment"] == ["flip"]
    assert load(None, ["local.class_weights=1,2.5"]).local.class_weights == [1.0, 2.5]
    assert load(None, ["local.class_weights=balanced"]).local.class_weights == "balanced"
    # A key that also takes text: without a comma it is text, as in a file.
    config = load(None, ["data.path=my.csv", "data.features=age"])
    assert config.data.values["features"] == "age"
    config = load(None, ["data.path=my.csv", "data.label_names=1,2"])
    assert config.data.values["label_names"] == ["1", "2"]


def test_text_of_a_file_is_not_divided(tmp_path: Path) -> None:
    """A column may have a comma in its name."""
    path = tmp_path / "run.toml"
    path.write_text("[data]\npath = 'my.csv'\nfeatures = 'age, in years'\n")
    assert load(path).data.values["features"] == "age, in years"
    assert load(path, ["run.rounds=1"]).data.values["features"] == "age, in years"


def test_text_for_a_key_without_a_list_keeps_its_comma() -> None:
    assert load(None, ["data.path=a,b.csv"]).data.values["path"] == "a,b.csv"


def test_a_wrong_value_in_a_list_is_refused_as_it_was_given() -> None:
    with pytest.raises(ConfigError, match=r"^model\.hidden: expected .* got '64,wide'"):
        load(None, ["model.name=mlp", "model.hidden=64,wide"])


def test_comparisons_keep_the_list(tmp_path: Path) -> None:
    settings = ["data.path=my.csv", "data.features=age,weight", "compare.methods=fedavg,ifca"]
    grid = comparison.load(None, settings)
    assert grid.settings[0].raw["data"]["features"] == ["age", "weight"]
    assert [variant.label for variant in grid.methods] == ["FedAvg", "IFCA"]


def test_servers_sites_and_peers(tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text("[samples]\nshape = [2]\nclasses = 2\n")
    config = server.load_server(
        tmp_path / "server.toml", ["samples.labels=no,yes", "federation.track=tensorboard"]
    )
    assert config.samples.labels == ["no", "yes"] and config.federation.track == ("tensorboard",)
    (tmp_path / "client.toml").write_text(
        "[client]\nname = 'a'\n[samples]\nshape = [2]\nclasses = 2\n"
    )
    path = tmp_path / "client.toml"
    assert server.load_client(path, ["client.clients=0,3"]).site.clients == (0, 3)
    assert server.load_client(path, ["client.clients=0:3"]).site.clients == "0:3"
    (tmp_path / "peer.toml").write_text("[peer]\nname = 'a'\n")
    found = peer.load(tmp_path / "peer.toml", ["lockstep.peers=a,b"])
    assert found.lockstep is not None and found.lockstep.peers == ["a", "b"]


def test_an_example_of_a_list_can_be_typed() -> None:
    assert shell_word("run.against", ["fedavg", "ifca"]) == "run.against=fedavg,ifca"
