"""(d) A run of FlexCFL's Table III at full length: FEMNIST's CNN, 300 rounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.gpu.size import Size
from papers.flexcfl import cnn_recipes
from papers.recipe import Cell, figures, resumable_in, run

COLUMN = "FlexCFL"


def cell(size: Size) -> Cell:
    """The cell of the table; in its smallest form two rounds on handwritten digits."""
    cells = [
        cell
        for cell in cnn_recipes.TABLE_III
        if cell.setting is cnn_recipes.FEMNIST and cell.column == COLUMN
    ]
    [found] = cells
    if not size.small:
        return found
    setting = replace(
        found.setting,
        data="digits",
        data_options=(("clients", 6),),
        model="mclr",
        model_options=(),
        draws=(0,),
        clusters=2,
        epochs=1,
        rounds=2,
        cohort=6,
        seconds=1,
    )
    return replace(found, setting=setting)


def measure(size: Size, unfinished: Path) -> dict[str, Any]:
    """The figures of the run.

    Args:
        size: of the measurement.
        unfinished: folder of its checkpoints, from which an interrupted run continues.
    """
    of_table = cell(size)
    with resumable_in(unfinished):
        found = figures(run(of_table, seed=0))
    return {
        "rounds": of_table.setting.rounds,
        "seconds": found["seconds"],
        "best": found["best"],
        "published": of_table.published,
    }
