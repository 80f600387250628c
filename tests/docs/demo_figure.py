"""The README's picture, drawn from the demonstration: ``python -m tests.docs.demo_figure``.

Its curves may differ a little between machines and versions of JAX, so the test compares the text
in it.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from pathlib import Path

from fedkin.config import run as configuration
from fedkin.reporting.draw import draw
from fedkin.run.simulate import execute

FILE = Path(__file__).resolve().parents[2] / "docs" / "images" / "demo.svg"


def draw_demo(folder: Path) -> str:
    """The figure of the demonstration, as SVG.

    Args:
        folder: for the run; it need not exist.
    """
    run = execute(configuration.load(None, []), out=folder)
    return draw(run).with_suffix(".svg").read_text()


def words(svg: str) -> Counter[str]:
    """The titles, axis labels and legends of a figure: its texts but for numbers, each with its
    count."""
    texts = re.findall(r"<text [^>]*>([^<]*)</text>", svg)
    return Counter(text for text in texts if re.search(r"[A-Za-z]", text))


def panels(svg: str) -> int:
    """How many panels a figure has."""
    return len(re.findall(r'<g id="axes_\d+">', svg))


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        FILE.write_text(draw_demo(Path(folder) / "run"))


if __name__ == "__main__":
    main()
