"""``python -m papers.ideas``: draw the pictures of docs/papers into docs/images; with names, such
as ``fedgroup``, only these. Seconds in all."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure

from fedkin.reporting.style import STYLE, write
from papers.ideas import athena, fedgroup, fedsim, flexcfl, panm

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"


class Picture(NamedTuple):
    """One picture: what it needs, and how it is drawn."""

    measure: Callable[..., Any]
    draw: Callable[[Any], Figure]


PICTURES = {
    "fedgroup": Picture(fedgroup.measure, fedgroup.draw),
    "flexcfl": Picture(flexcfl.measure, flexcfl.draw),
    "athena": Picture(athena.measure, athena.draw),
    "panm": Picture(panm.measure, panm.draw),
    "fedsim": Picture(fedsim.measure, fedsim.draw),
}


def draw(name: str, path: Path, **size: int) -> None:
    """Measure and draw one picture, as the file ``path`` (svg or png).

    Args:
        name: of the picture.
        path: of the file.
        size: sizes of the run; by default those of the page.
    """
    picture = PICTURES[name]
    measured = picture.measure(**size)
    with matplotlib.rc_context(STYLE):
        figure = picture.draw(measured)
        write(figure, path)


def main(arguments: list[str] | None = None) -> None:
    """Draw the pictures that the command line names."""
    parser = argparse.ArgumentParser("python -m papers.ideas", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    names = parser.parse_args(arguments).names
    unknown = set(names) - PICTURES.keys()
    if unknown:
        parser.error(f"no picture {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}")
    for name in names or PICTURES:
        draw(name, IMAGES / f"idea-{name}.svg")


if __name__ == "__main__":
    main()
