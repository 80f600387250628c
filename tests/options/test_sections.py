"""What the declarations of options say about their sections, and who derives lists from them."""

from __future__ import annotations

import pytest

import fedkin as fk
from fedkin.analysis.serving.candidates import Repetition
from fedkin.config.comparison_axes import PROBLEM_SECTIONS
from fedkin.core.errors import ConfigError
from fedkin.options import SECTIONS


def test_options_that_cannot_be_repeated_or_tuned() -> None:
    not_repeated = {name for name, option in SECTIONS.items() if not option.repeatable}
    assert not_repeated == {"privacy", "secret", "attack", "late", "monitor", "asynchronous"}
    assert set(PROBLEM_SECTIONS) == {"data", "scenario", "shift", "attack", "privacy"}
    extras = {name: option.extra for name, option in SECTIONS.items() if option.extra}
    assert extras == {"privacy": "privacy", "secret": "secret"}


def test_a_repetition_asks_the_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    data = fk.data.digits(clients=4)
    options = [fk.FedAdam(lr=0.1)]
    run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=4, options=options)
    assert Repetition(run)._options() == options
    changed = SECTIONS["server_optimizer"]._replace(repeatable=False)
    monkeypatch.setitem(SECTIONS, "server_optimizer", changed)
    with pytest.raises(ConfigError, match="the run has the option server_optimizer"):
        Repetition(run)._options()
