"""The figure of the rooms in docs/design.md, drawn from the import table: ``python -m tests.house.rooms_figure``.

A room stands above all rooms that it imports. An arrow that follows from two others is left out.
"""

from __future__ import annotations

from pathlib import Path

from tests.house.test_imports import ROOMS

FILE = Path(__file__).resolve().parents[2] / "docs" / "images" / "rooms.svg"
WIDTH, HEIGHT, BOX, ROW = 1060, 34, 136, 84  # of the figure, of a box, and from row to row
ABOUT = {  # what a room is for, in two words
    "core": "world, method",
    "aggregation": "means",
    "measures": "similarities",
    "clustering": "K-means, DBSCAN",
    "security": "certificates",
    "methods": "one paper each",
    "models": "networks",
    "data": "federated sets",
    "scenarios": "shifts, drop-out",
    "simulation": "compiled clients",
    "simulation.torch": "PyTorch clients",
    "config": "TOML, schemas",
    "server": "Flower",
    "p2p": "Zenoh",
    "tracking": "TensorBoard ...",
    "run": "loop, folder",
    "server.deploy": "init, check, run",
    "analysis": "seeds, statistics",
    "analysis.compare": "grids",
    "analysis.advise": "does it help",
    "reporting": "figures, tables",
    "reporting.html": "the report",
    "cli": "commands",
}


def below() -> dict[str, set[str]]:
    """The rooms that each room imports, from the table."""
    return {room: set(line.split()) & ABOUT.keys() for room, line in ROOMS.items() if room}


def levels(imports: dict[str, set[str]]) -> dict[str, int]:
    """How many rooms stand below each other under a room."""

    def level(room: str) -> int:
        return 1 + max((level(other) for other in imports[room]), default=-1)

    return {room: level(room) for room in imports}


def arrows(imports: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The pairs that do not follow from others."""

    def reach(room: str) -> set[str]:
        return imports[room] | {far for other in imports[room] for far in reach(other)}

    return [
        (room, other)
        for room, others in imports.items()
        for other in sorted(others)
        if not any(other in reach(between) for between in others - {other})
    ]


def svg() -> str:
    """The figure as text; the same table gives the same text."""
    imports = below()
    level = levels(imports)
    rows = [[room for room in imports if level[room] == height] for height in range(max(level.values()) + 1)][::-1]
    place = {}
    for number, row in enumerate(rows):
        gap = WIDTH / len(row)
        place |= {room: (gap * (i + 0.5), 30 + ROW * number) for i, room in enumerate(row)}
    tall = 30 + ROW * (len(rows) - 1) + HEIGHT + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall}" font-family="sans-serif">',
        '<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="6" refY="3" orient="auto">'
        '<path d="M0,0 L6,3 L0,6" fill="none" stroke="#888"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{tall}" fill="white"/>',
    ]
    for room, other in arrows(imports):
        (x, y), (to_x, to_y) = place[room], place[other]
        parts.append(
            f'<path d="M{x:.0f},{y + HEIGHT} C{x:.0f},{y + HEIGHT + 26} {to_x:.0f},{to_y - 26} {to_x:.0f},{to_y - 1}" '
            'fill="none" stroke="#888" stroke-width="1.1" marker-end="url(#tip)"/>'
        )
    for room, (x, y) in place.items():
        fill = "#E6F4F1" if "." not in room else "#F3F8F7"
        parts += [
            f'<rect x="{x - BOX / 2:.0f}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="5" fill="{fill}" '
            'stroke="#00796B"/>',
            f'<text x="{x:.0f}" y="{y + 14}" font-size="12.5" text-anchor="middle" fill="#222">'
            f"{room.replace('.', '/')}</text>",
            f'<text x="{x:.0f}" y="{y + 27}" font-size="10" text-anchor="middle" fill="#555">{ABOUT[room]}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    FILE.write_text(svg())
