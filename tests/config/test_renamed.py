"""Old names are refused with what replaced them."""

from __future__ import annotations

import pytest

from fedkin.config import renamed, schema
from fedkin.config.run import load
from fedkin.core.errors import ConfigError

OLD = {
    ("key", "step"): "lr",
    ("section", "world"): "scenario",
    ("value", "random"): "uniform",
    ("method", "avg"): "fedavg",
}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("local.step=0.1", "local.step: key 'step' was renamed; use 'lr'"),
        ("world.dropout=0.1", "world: section 'world' was renamed; use 'scenario'"),
        ("run.selection=random", "run.selection: was renamed; use 'uniform', got 'random'"),
        ("method.name=avg", "method.name: method 'avg' was renamed; use 'fedavg'"),
        ("run.step=0.1", "run.step: unknown key 'step'"),  # the new name is not of this section
    ],
)
def test_the_message_names_the_replacement(override: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renamed, "RENAMED", OLD)
    monkeypatch.setattr(schema, "RENAMED", OLD)
    with pytest.raises(ConfigError) as error:
        load(None, [override])
    assert str(error.value).startswith(message)
