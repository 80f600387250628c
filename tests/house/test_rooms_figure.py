"""The figure of the rooms shows the import table as it is."""

from __future__ import annotations

from tests.house.rooms_figure import ABOUT, FILE, arrows, below, levels, svg
from tests.house.test_imports import ROOMS


def test_every_room_is_shown() -> None:
    assert ABOUT.keys() == ROOMS.keys() - {""}


def test_rooms_stand_above_what_they_import() -> None:
    level = levels(below())
    assert all(level[room] > level[other] for room, others in below().items() for other in others)
    assert ("cli", "core") not in arrows(below()) and ("measures", "core") in arrows(below())


def test_the_stored_figure_is_the_table_s() -> None:
    assert FILE.read_text() == svg(), "draw it again: python -m tests.house.rooms_figure"
