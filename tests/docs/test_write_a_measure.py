"""The page "write your own measure" is right: its table equals the list, and the errors are as
shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fedkin as fk
from tests.docs import measure_table
from tests.docs.code_blocks import blocks, language_of, read
from tests.option_lists import simulate_arguments


def test_the_table_equals_the_list() -> None:
    assert measure_table.stored() == measure_table.table(), (
        "write it again: python -m tests.docs.measure_table"
    )


def test_the_first_block_has_twenty_lines() -> None:
    first = next(
        block.parsed for block in blocks(read(measure_table.PAGE)) if language_of(block) == "python"
    )
    assert len([line for line in first.splitlines() if line.strip()]) <= 20


def test_the_errors_are_those_that_are_shown(tmp_path: Path) -> None:
    def third(scored: fk.ScoredClients) -> float:
        return 1 / (3 - scored.round)

    def pair(scored: fk.ScoredClients) -> Any:
        return scored.accuracy[:2] * 0 + [0.1, 0.2]

    data = fk.data.digits(clients=4)

    def said(name: str, of: Any) -> str:
        options: dict[str, Any] = {"rounds": 3, "cohort": 2, "measures": [fk.Measure(name, of=of)]}
        with pytest.raises(fk.ConfigError) as refused:
            fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), **simulate_arguments(options))
        return str(refused.value)

    errors = next(
        block.parsed for block in blocks(read(measure_table.PAGE)) if language_of(block) == "text"
    )
    raised, returned, taken = errors.splitlines()
    assert said("gap", third) == raised and said("gap", pair) == returned
    assert said("accuracy", third).removeprefix("measures: ") == taken.removeprefix(
        "run.measures: "
    )
