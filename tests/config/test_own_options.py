"""A user's option: a section of a configuration names its class. Also the messages where that
fails."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.run import from_dict
from fedkin.core.errors import ConfigError
from fedkin.options.with_options import by_section
from fedkin.run.simulate import execute
from tests.docs.code_blocks import ROOT

PAGE = (ROOT / "docs" / "write-an-option.md").read_text()
CODE = PAGE.split("```python\n", 1)[1].split("\ndata = fk.data", 1)[0]
RUN: dict[str, Any] = {
    "data": {"name": "digits", "clients": 6},
    "model": {"name": "mclr"},
    "method": {"name": "fedavg"},
    "run": {"rounds": 3, "cohort": 4},
}


@pytest.fixture(autouse=True)
def decay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with the option of the page."""
    (tmp_path / "decay.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "decay", raising=False)


def section(**values: Any) -> dict[str, Any]:
    return {**RUN, "server_decay": {"name": "decay:ServerDecay", **values}}


def test_a_section_with_a_class_is_the_option_in_python() -> None:
    from decay import ServerDecay  # type: ignore[import-not-found]

    configured = execute(from_dict(section(rate=0.5)), out=None)
    data = fk.data.digits(clients=6)
    in_python = fk.simulate(
        fk.FedAvg(),
        data,
        fk.models.mclr(data),
        rounds=3,
        cohort=4,
        local=from_dict(RUN).work,
        options=[ServerDecay(rate=0.5)],
    )
    plain = execute(from_dict(RUN), out=None)
    np.testing.assert_array_equal(configured.models, in_python.models)
    # The first round takes half of the method's change.
    assert np.abs(configured.models).max() < 0.9 * np.abs(plain.models).max()


def test_its_run_is_resumed_with_it(tmp_path: Path) -> None:
    whole = execute(from_dict(section()), out=tmp_path / "whole")
    config = from_dict({**section(), "run": {**RUN["run"], "checkpoint_every": 1}})
    execute(
        config,
        out=tmp_path / "part",
        on_round=lambda record: fk.STOP if record["round"] == 1 else None,
    )
    longer = from_dict({**section(), "run": {**RUN["run"], "rounds": 4}})
    resumed = execute(longer, out=tmp_path / "part", resume=True)
    np.testing.assert_array_equal(resumed.models, execute(longer, out=None).models)
    assert fk.Run.load(tmp_path / "whole").config.section("server_decay") == {
        "name": "decay:ServerDecay",
        "rate": 0.9,
    }
    assert whole.summary()["method"] == "fedavg"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"server_decay": {"name": "decay:ServerDecay", "rat": 1}},
            r"server_decay\.rat: unknown key 'rat'; did you mean",
        ),
        (
            {"decay": {"name": "decay:ServerDecay"}},
            r"decay\.name: .* is an option of the section \[server_decay\]",
        ),
        (
            {"server_decay": {"name": "decay:Nothing"}},
            r"server_decay\.name: .* does not define 'Nothing'",
        ),
        (
            {"server_decay": {"name": "nowhere:Mine"}},
            r"server_decay\.name: .* there is no module 'nowhere'",
        ),
        (
            {"server_decay": {"name": "decay:fk"}},
            r"is not an option: expected a frozen dataclass that derives",
        ),
        ({"server_decay": {"rate": 0.5}}, "unknown section 'server_decay'"),
        (
            {"robust": {"name": "decay:ServerDecay"}},
            r"is an option of the section \[server_decay\], not of \[robust\]",
        ),
    ],
)
def test_bad_sections_are_refused_with_their_place(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_dict({**RUN, **values})


def test_options_in_python_are_options_that_were_made_and_one_of_a_kind() -> None:
    for wrong in ("fedadam", fk.FedAdam, fk.FedAvg()):
        with pytest.raises(
            ConfigError, match=r"options: expected options such as fk\.FedAdam\(\), got"
        ):
            by_section([wrong])
    with pytest.raises(
        ConfigError, match="options: server_optimizer is given twice; give at most one"
    ):
        by_section([fk.FedAdam(), fk.FedAvgM()])
    with pytest.raises(ConfigError, match="options: Nameless has no section"):
        by_section([Nameless()])


def test_an_option_cannot_have_a_section_that_says_something_else() -> None:
    data = fk.data.digits(clients=4)
    with pytest.raises(ConfigError, match="options: OfData cannot use the section 'data'"):
        fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=2, options=[OfData()])


@dataclass(frozen=True)
class Nameless(fk.Option):
    """An option without a section."""


@dataclass(frozen=True)
class OfData(fk.Option):
    """An option with the section of something else."""

    section = "data"
