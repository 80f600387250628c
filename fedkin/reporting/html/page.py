"""A report as one HTML file that needs nothing else. Every text that comes from files is escaped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from string import Template
from typing import Any

from plotly.offline import get_plotlyjs, get_plotlyjs_version

from fedkin import __version__
from fedkin.reporting.html.json_values import Json
from fedkin.reporting.style import COLOURS

PALETTE = (*COLOURS, "#882255", "#44AA99", "#AA4499")  # three of Paul Tol's: an alluvial chart has up to ten bands
_FIGURES = (  # of one run: name, heading, class of the figure, class of the plot
    ("clusters", "Accuracy by cluster", "", ""),
    ("communication", "Communication by operation", "", ""),
    ("alluvial", "Cluster membership over rounds", "wide", "tall"),
)
_SIMILARITY_FIGURES = (
    ("map", "Map of the clients", "", "tall"),
    ("similarity", "Similarity of the clients", "", "tall"),
    ("labels", "Labels by cluster", "wide", ""),
)


def page(contents: Json) -> str:
    """The HTML of a report's contents."""
    runs = contents["runs"]
    versions = list(runs[0]["versions"].items())
    figures = [*_FIGURES, *(_SIMILARITY_FIGURES if contents["similarities"] else ())]
    parts = {
        "title": escape(contents["title"]),
        "subtitle": escape(contents["subtitle"]),
        "notes": _notes(contents["notes"]),
        "tables": _tables(contents),
        "setting_chooser": _chooser("setting", "Setting", [one["setting"] or "-" for one in contents["accuracy"]]),
        "run_chooser": _chooser("run", "Run", [run["label"] for run in runs]),
        "accuracy": _figure("accuracy", "Test accuracy", "", "tall"),
        "figures": "\n".join(_figure(*one) for one in figures),
        "hint": f'<p class="small">{escape(contents["hint"])}</p>' if contents["hint"] else "",
        "first": escape(runs[0]["label"]),
        "config": escape(runs[0]["config"]),
        "versions": _table("", ["part", "version"], versions) if versions else "not known",
        "version": escape(__version__),
        "plotly": escape(get_plotlyjs_version()),
        "contents": in_script({**contents, "colours": PALETTE}),
        "css": _file("page.css"),
        "charts_js": _file("charts.js"),
        "page_js": _file("page.js"),
        "plotly_js": get_plotlyjs(),
    }
    return Template(_file("page.html")).substitute(parts)


def in_script(value: Any) -> str:
    """JSON that can stand inside a script element whatever it holds."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # in ASCII, so that U+2028 is spelled out
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<aside class="notes" aria-label="What is missing"><strong>What is missing</strong><ul>{items}</ul></aside>'


def _tables(contents: Json) -> str:
    """The table of all methods; of a comparison its own, and its findings."""
    methods = [{"heading": "Methods", **contents["table"]}]
    parts = [_section(**one) for one in contents["comparison"] or methods]
    findings = "".join(f"<li>{escape(line)}</li>" for line in contents["findings"])
    return "\n".join(parts) + (f"<ul>{findings}</ul>" if findings else "")


def _section(
    heading: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    bold: Sequence[Sequence[int]] = (),
    notes: Sequence[str] = (),
) -> str:
    """A table under its heading, and notes below it."""
    return f"<section><h2>{escape(heading)}</h2>{_table(heading, heads, rows, bold)}{_table_notes(notes)}</section>"


def _table_notes(lines: Sequence[str]) -> str:
    """How to read a table."""
    return f'<p class="small">{escape(" ".join(lines))}</p>' if lines else ""


def _table(label: str, heads: Sequence[str], rows: Sequence[Sequence[str]], bold: Sequence[Sequence[int]] = ()) -> str:
    """A table whose cells [row, column] in ``bold`` are."""
    places = {tuple(place) for place in bold}
    cells = [
        [
            f"<strong>{escape(str(text))}</strong>" if (r, c) in places else escape(str(text))
            for c, text in enumerate(row)
        ]
        for r, row in enumerate(rows)
    ]
    head = "".join(f'<th scope="col">{escape(str(text))}</th>' for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{text}</td>" for text in row) + "</tr>" for row in cells)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    region = f'<div class="table card" tabindex="0" role="region" aria-label="{escape(label)}">'
    return f"{region}{table}</div>" if label else table


def _chooser(name: str, label: str, choices: Sequence[str]) -> str:
    """A list to choose from; empty where there is only one."""
    if len(choices) < 2:
        return ""
    options = "".join(f'<option value="{i}">{escape(text)}</option>' for i, text in enumerate(choices))
    sticky = " sticky" if name == "run" else ""
    return (
        f'<div class="choose{sticky}"><label for="{name}">{label}</label><select id="{name}">{options}</select></div>'
    )


def _figure(name: str, heading: str, wide: str, tall: str) -> str:
    buttons = ""
    if name == "map":
        choices = (("cluster", "by cluster", "true"), ("true_cluster", "by true cluster", "false"))
        html = (f'<button type="button" id="by-{by}" aria-pressed="{on}">{text}</button>' for by, text, on in choices)
        buttons = f'<div class="choose" role="group" aria-label="colours of the map">{"".join(html)}</div>'
    return (
        f'<figure id="f-{name}" class="{wide}" aria-labelledby="h-{name}"><h3 id="h-{name}">{escape(heading)}</h3>'
        f'<p class="note"></p>{buttons}<div class="plot {tall}" id="{name}"></div>'
        f'<details><summary>As a table</summary><div class="table" tabindex="0" role="region" '
        f'aria-label="{escape(heading)}, table"></div></details></figure>'
    )


def _file(name: str) -> str:
    return (resources.files("fedkin.reporting.html") / name).read_text(encoding="utf-8")
