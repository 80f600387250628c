"""The figure of the packages in docs/design.md, drawn from the import table: ``python -m
tests.house.imports_figure``.

A package stands above all packages that it imports. An arrow that follows from two others is left
out.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.house.test_imports import PACKAGES

FILE = Path(__file__).resolve().parents[2] / "docs" / "images" / "imports.svg"
# of the figure, of a box, and from row to row
WIDTH = 1060
HEIGHT = 34
BOX = 136
ROW = 84
ABOUT = {  # the purpose of a package, in two words
    "core": "world, method",
    "aggregation": "means",
    "measures": "similarities",
    "clustering": "K-means, DBSCAN",
    "security": "certificates",
    "secret": "masks, shares",
    "options": "for any method",
    "options.personal": "heads, Ditto",
    "options.robust": "robust rules",
    "options.attack": "Byzantine clients",
    "options.noise": "noise in data",
    "options.late": "late replies",
    "options.asynchronous": "first k, buffers",
    "options.monitor": "watched clusters",
    "options.quorum": "enough replies",
    "options.secret": "secret sums",
    "options.privacy": "noisy sums",
    "task_types": "kinds of labels",
    "tasks": "client work",
    "methods": "one paper each",
    "models": "networks",
    "data": "federated sets",
    "scenarios": "shifts, drop-out",
    "simulation": "the world",
    "simulation.jax": "compiled clients",
    "simulation.torch": "PyTorch clients",
    "simulation.ray": "many machines",
    "config": "TOML, schemas",
    "export": "models out",
    "service": "HTTP, MLflow",
    "server": "Flower",
    "p2p": "Zenoh",
    "tracking": "TensorBoard ...",
    "run.folder": "files of a run",
    "run.metrics": "scores of a round",
    "run.trained": "models of a run",
    "run": "rounds, results",
    "removal": "a site leaves",
    "server.deploy": "init, check, run",
    "analysis": "seeds, statistics",
    "analysis.compare": "grids",
    "analysis.advise": "does it help",
    "analysis.serving": "which model serves",
    "reporting": "figures, tables",
    "reporting.html": "the report",
    "estimator": "scikit-learn",
    "cli": "commands",
}


def below() -> dict[str, set[str]]:
    """The packages that each package imports, from the table. Where a folder and one inside it
    import each other, as the world and its engines do, the inner one stands above."""
    table = {
        package: set(line.split()) & ABOUT.keys() for package, line in PACKAGES.items() if package
    }
    return {
        package: {
            other
            for other in others
            if not (other.startswith(f"{package}.") and package in table[other])
        }
        for package, others in table.items()
    }


def levels(imports: dict[str, set[str]]) -> dict[str, int]:
    """How many packages stand below each other under a package."""

    @cache
    def level(package: str) -> int:
        return 1 + max((level(other) for other in imports[package]), default=-1)

    return {package: level(package) for package in imports}


def arrows(imports: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The pairs that do not follow from others."""

    @cache
    def reach(package: str) -> set[str]:
        return imports[package] | {far for other in imports[package] for far in reach(other)}

    return [
        (package, other)
        for package, others in imports.items()
        for other in sorted(others)
        if not any(other in reach(between) for between in others - {other})
    ]


def svg() -> str:
    """The figure as text; the same table gives the same text."""
    imports = below()
    level = levels(imports)
    rows = [
        [name for name in imports if level[name] == height]
        for height in range(max(level.values()) + 1)
    ][::-1]
    place = {}
    for number, row in enumerate(rows):
        gap = WIDTH / len(row)
        place |= {package: (gap * (i + 0.5), 30 + ROW * number) for i, package in enumerate(row)}
    tall = 30 + ROW * (len(rows) - 1) + HEIGHT + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall}" '
        'font-family="sans-serif">',
        '<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="6" refY="3" orient="auto">'
        '<path d="M0,0 L6,3 L0,6" fill="none" stroke="#888"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{tall}" fill="white"/>',
    ]
    for package, other in arrows(imports):
        (x, y) = place[package]
        (to_x, to_y) = place[other]
        parts.append(
            f'<path d="M{x:.0f},{y + HEIGHT} C{x:.0f},{y + HEIGHT + 26} '
            f'{to_x:.0f},{to_y - 26} {to_x:.0f},{to_y - 1}" '
            'fill="none" stroke="#888" stroke-width="1.1" marker-end="url(#tip)"/>'
        )
    for package, (x, y) in place.items():
        fill = "#E6F4F1" if "." not in package else "#F3F8F7"
        parts += [
            f'<rect x="{x - BOX / 2:.0f}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="5" '
            f'fill="{fill}" stroke="#00796B"/>',
            f'<text x="{x:.0f}" y="{y + 14}" font-size="12.5" text-anchor="middle" fill="#222">'
            f"{package.replace('.', '/')}</text>",
            f'<text x="{x:.0f}" y="{y + 27}" font-size="10" text-anchor="middle" fill="#555">'
            f"{ABOUT[package]}</text>",
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    FILE.write_text(svg())
