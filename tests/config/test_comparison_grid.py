"""A grid of a comparison: folders of its cells, its measure, and its description in
comparison.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedkin.config.comparison import load
from fedkin.config.comparison_grid import from_description, slug
from fedkin.core.errors import ConfigError


def test_labels_in_any_script_and_of_any_length_have_different_folders() -> None:
    names = [slug(label) for label in ("平均", "聚类", "x" * 300, "x" * 299 + "y", "é", "e")]
    assert (
        len(set(names)) == 6 and max(map(len, names)) < 80 and all(name.isascii() for name in names)
    )


@pytest.mark.parametrize(
    ("label", "name"),
    [("", "all"), ("..", "all"), ("IFCA, clusters 2", "ifca-clusters-2"), ("a/../b", "a-..-b")],
)
def test_a_label_as_a_folder_stays_inside(label: str, name: str) -> None:
    assert slug(label) == name


@pytest.mark.parametrize(
    "change",
    [
        {"seeds": []},
        {"methods": []},
        {"settings": []},
        {"seeds": "three"},
        {"seeds": [0, 0]},
        {"seeds": [-1]},
        {"methods": [{"label": "x", "method": {"name": ["ifca"]}}]},
        {"methods": [{"label": "x"}]},
        {"methods": 3},
        {"settings": [{"label": "", "data": {"name": "nothing"}}]},
        {"settings": [{"data": {"name": "digits"}}]},
    ],
    ids=str,
)
def test_a_description_that_is_none(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"c\.toml does not describe a comparison"):
        from_description(load(None).description() | change, Path("c.toml"))
    keys = load(None).description()
    for key in list(keys):
        with pytest.raises(ConfigError, match=r"c\.toml"):
            from_description(
                {name: value for name, value in keys.items() if name != key}, Path("c.toml")
            )
