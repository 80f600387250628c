"""A report as one self-contained HTML page. All text from files is escaped."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from html import escape
from importlib import resources
from string import Template
from typing import Any

from fedkin import __version__
from fedkin.analysis.serving.choice_texts import TITLE
from fedkin.measures.number_texts import numeric_columns
from fedkin.reporting.html.clustering_table import HEADING
from fedkin.reporting.html.json_values import Json
from fedkin.reporting.html.monitor_table import TITLE as MONITOR
from fedkin.reporting.style import COLOURS

FINDINGS = "Findings"  # heading of the findings of a comparison
# An alluvial chart has up to ten bands, so three colours by Paul Tol are added.
PALETTE = (*COLOURS, "#882255", "#44AA99", "#AA4499")
# The npm package plotly.js-cartesian-dist-min, a third of plotly.js; MIT, plotly/LICENSE.
PLOTLY = "4.1.1"
_ACCURACY_FIGURES = (  # figures of a setting
    ("accuracy", "{score} over rounds", "wide", "tall"),
    ("bottom", "{worst} of clients", "", ""),
    ("clients", "{score} of each client", "", ""),
)
_AGREEMENT = ("ari", "Agreement with the true clusters", "wide", "")
_FIGURES = (  # figures of one run: name, heading, class of the figure, class of the plot
    ("clusters", "{score} by cluster", "", ""),
    ("communication", "Communication by operation", "", ""),
    ("alluvial", "Cluster membership over rounds", "wide", "tall"),
)
_SIMILARITY_FIGURES = (
    ("map", "Map of the clients", "", "tall"),
    ("similarity", "Similarity of the clients", "", "tall"),
    ("labels", "Labels by cluster", "wide", ""),
)
_MEMBERSHIP = ("membership", "Soft membership", "wide", "")
# Tables of one run's clients: name and title. The first one is open.
_DETAILS = (
    ("members", "Clients of each cluster"),
    ("migrants", "Migrations of clients"),
    ("suspects", "Suspected clients"),
    ("monitor", MONITOR),
    ("served", TITLE),
)


def page(contents: Json) -> str:
    """The HTML page of a report's contents."""
    runs = contents["runs"]
    first = runs[contents["opening"]]
    versions = list(first["versions"].items())
    settings = [chart["setting"] or "-" for chart in contents["accuracy"]]
    labels = [run["label"] for run in runs]
    details = [_details(name, title, **first[name]) for name, title in _DETAILS]
    parts = {
        "title": escape(contents["title"]),
        "subtitle": escape(contents["subtitle"]),
        "verdict": _verdict(contents["verdict"]),
        "navigation": _navigation(contents),
        "overview": _overview(contents["overview"]),
        "notes": _notes(contents["notes"]),
        "tables": _tables(contents),
        "score": escape(contents["score"]["heading"]),
        "setting_chooser": _chooser("setting", "Setting", settings),
        "run_chooser": _chooser("run", "Run", labels, contents["opening"]),
        "accuracy": "\n".join(_figure(*figure) for figure in _accuracy_figures(contents)),
        "figures": "\n".join(_figure(*figure) for figure in _run_figures(contents)),
        "details": "\n".join(details),
        "hint": f'<p class="small">{escape(contents["hint"])}</p>' if contents["hint"] else "",
        "first": escape(first["label"]),
        "config": escape(first["config"]),
        "versions": _table("", ["part", "version"], versions) if versions else "unknown",
        "version": escape(__version__),
        "plotly": PLOTLY,
        "contents": in_script({**contents, "colours": PALETTE}),
        "css": _file("page.css"),
        "charts_js": _file("charts.js"),
        "page_js": _file("page.js"),
        "plotly_js": _plotly(),
    }
    return Template(_file("page.html")).substitute(parts)


def _accuracy_figures(contents: Json) -> list[tuple[str, str, str, str]]:
    """The figures of a setting: the charts of the score, and a chart of each user's measure."""
    figures = _titled(_ACCURACY_FIGURES, contents)
    if any("ari" in line for chart in contents["accuracy"] for line in chart["lines"]):
        figures.append(_AGREEMENT)
    for measure in contents["measures"]:
        figures.append((f"measure-{measure['name']}", measure["heading"], "", ""))
    return figures


def _titled(
    figures: Sequence[tuple[str, str, str, str]], contents: Json
) -> list[tuple[str, str, str, str]]:
    """Figures with the score in their titles, such as the accuracy."""
    score = contents["score"]
    return [
        (name, title.format(score=score["heading"], worst=score["worst"].capitalize()), wide, tall)
        for name, title, wide, tall in figures
    ]


def _run_figures(contents: Json) -> list[tuple[str, str, str, str]]:
    """The figures of one run that have contents."""
    figures = _titled(_FIGURES, contents)
    if any(run["membership"] for run in contents["runs"]):
        figures.append(_MEMBERSHIP)
    if contents["similarities"]:
        figures += _SIMILARITY_FIGURES
    return figures


def in_script(value: Any) -> str:
    """A value as JSON that is safe inside a script element."""
    # json.dumps escapes all characters that are not ASCII, such as the line separator U+2028.
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _verdict(verdict: Json) -> str:
    """HTML of the headline's sentences and the note on how to read them."""
    note = f'<p class="small">{escape(verdict["note"])}</p>' if verdict["note"] else ""
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in verdict["sentences"]) + note


def _navigation(contents: Json) -> str:
    """HTML of the links to the page's sections."""
    headings = [table["heading"] for table in contents["comparison"]] or ["Methods"]
    tables = [(_slug(heading), heading.partition(":")[0]) for heading in headings]
    if contents["findings"]:
        tables.append((_slug(FINDINGS), FINDINGS))
    if contents.get("clustering"):
        tables.append((_slug(HEADING), "Clusters and shifts"))
    links = [
        ("ran", "Overview"),
        *tables,
        ("all", contents["score"]["heading"]),
        ("one", "One run"),
        ("config", "Settings and versions"),
    ]
    return "".join(f'<li><a href="#h-{name}">{escape(text)}</a></li>' for name, text in links)


def _overview(lines: Sequence[Sequence[str]]) -> str:
    """HTML of the overview: terms and their values."""
    return "".join(
        f"<div><dt>{escape(term)}</dt><dd>{escape(text)}</dd></div>" for term, text in lines
    )


def _slug(heading: str) -> str:
    """A heading as an identifier in lower case, to which a link of the page can point."""
    return re.sub("[^a-z0-9]+", "-", heading.lower()).strip("-")


def _notes(notes: Sequence[str]) -> str:
    """HTML of the notes about missing parts; empty if nothing is missing."""
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return (
        f'<aside class="notes" aria-label="Missing parts"><strong>Missing parts</strong>'
        f"<ul>{items}</ul></aside>"
    )


def _tables(contents: Json) -> str:
    """HTML of the table of methods, or of a comparison's tables and findings, and of the table of
    clusters."""
    methods = [{"heading": "Methods", **contents["table"]}]
    parts = [_section(**table) for table in contents["comparison"] or methods]
    items = "".join(f"<li>{escape(line)}</li>" for line in contents["findings"])
    if items:
        title = f'<h2 id="h-{_slug(FINDINGS)}">{FINDINGS}</h2>'
        parts.append(f"<section>{title}<ul>{items}</ul></section>")
    if contents.get("clustering"):
        parts.append(_section(**contents["clustering"]))
    return "\n".join(parts)


def _section(
    heading: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    bold: Sequence[Sequence[int]] = (),
    notes: Sequence[str] = (),
) -> str:
    """HTML of a section of the page: a table with a heading above it and notes below it. A table
    without rows is left out."""
    title = f'<h2 id="h-{_slug(heading)}">{escape(heading)}</h2>'
    table = _table(heading, heads, rows, bold) if rows else ""
    return f"<section>{title}{table}{_table_notes(notes)}</section>"


def _table_notes(lines: Sequence[str]) -> str:
    """HTML of the notes below a table."""
    return f'<p class="small">{escape(" ".join(lines))}</p>' if lines else ""


def _table(
    label: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    bold: Sequence[Sequence[int]] = (),
) -> str:
    """HTML of a table. ``bold`` lists the bold cells as [row, column].

    Each cell names its column, because a narrow page shows the table as a list. If a row has fewer
    cells than the table has columns, its last cell is text that spans the other columns.
    """
    places = {tuple(place) for place in bold}
    kinds = _column_kinds(heads, rows)
    head = "".join(
        f'<th scope="col"{kind}>{escape(str(text))}</th>'
        for text, kind in zip(heads, kinds, strict=True)
    )
    body = ""
    for number, row in enumerate(rows):
        spanned = len(heads) - len(row)
        cells = ""
        for column, text in enumerate(row):
            content = escape(str(text))
            if (number, column) in places:
                content = f"<strong>{content}</strong>"
            label_of_cell = f'data-label="{escape(str(heads[column]))}"{kinds[column]}'
            if spanned and column == len(row) - 1:
                label_of_cell = f'data-label="" class="text" colspan="{spanned + 1}"'
            cells += f"<td {label_of_cell}>{content}</td>"
        body += f"<tr>{cells}</tr>"
    # The style sheet shows tables of this class as lists on a narrow page.
    kind = ' class="list"' if len(heads) > 3 else ""
    table = f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    region = f'<div class="table card" tabindex="0" role="region" aria-label="{escape(label)}">'
    return f"{region}{table}</div>" if label else table


def _column_kinds(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The HTML attribute of each column's cells: the class ``text`` for words, which are aligned
    left, or ``name`` for a method's name, which a narrow page shows without its heading. It is
    empty for numbers."""
    if not rows:
        return [""] * len(heads)
    whole = [[str(cell) for cell in row] for row in rows if len(row) == len(heads)]
    numeric = numeric_columns(whole) or [True] * len(heads)
    kinds = []
    for place, (head, number) in enumerate(zip(heads, numeric, strict=True)):
        name = place == 1 and head == "method"  # after the setting, which begins the row
        kinds.append(' class="text name"' if name else "" if number else ' class="text"')
    return kinds


def _chooser(name: str, label: str, choices: Sequence[str], opening: int = 0) -> str:
    """HTML of a drop-down list; empty if there is only one choice."""
    if len(choices) < 2:
        return ""
    options = "".join(
        f'<option value="{i}"{" selected" if i == opening else ""}>{escape(text)}</option>'
        for i, text in enumerate(choices)
    )
    sticky = " sticky" if name == "run" else ""
    return (
        f'<div class="choose{sticky}"><label for="{name}">{label}</label>'
        f'<select id="{name}">{options}</select></div>'
    )


def _figure(name: str, heading: str, wide: str, tall: str) -> str:
    """HTML of a figure with an empty plot, which the script fills, and its data as a table."""
    buttons = ""
    if name == "map":
        choices = (("cluster", "by cluster", "true"), ("true_cluster", "by true cluster", "false"))
        choice_buttons = "".join(
            f'<button type="button" id="by-{by}" aria-pressed="{on}">{text}</button>'
            for by, text, on in choices
        )
        buttons = (
            f'<div class="choose" role="group" aria-label="colours of the map">'
            f"{choice_buttons}</div>"
        )
    return (
        f'<figure id="f-{name}" class="{wide}" aria-labelledby="h-{name}">'
        f'<h3 id="h-{name}">{escape(heading)}</h3>'
        f'<p class="note"></p>{buttons}<div class="plot {tall}" id="{name}"></div>'
        f'<details><summary>As a table</summary><div class="table" tabindex="0" role="region" '
        f'aria-label="{escape(heading)}, table"></div></details></figure>'
    )


def _details(
    name: str, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], note: str
) -> str:
    """HTML of a table of clients that can be collapsed, for the run that is shown first. The page's
    script fills the table again when a run is selected."""
    state = " open" if name == _DETAILS[0][0] else ""
    state += "" if rows else " hidden"
    return (
        f'<details id="{name}" class="wide clients"{state}><summary>{title}</summary>'
        f'<p class="note">{escape(note)}</p>'
        f'<div class="table" tabindex="0" role="region" aria-label="{title}">'
        f"{_table('', heads, rows)}</div></details>"
    )


def _plotly() -> str:
    """The script of Plotly, which draws the charts."""
    packed = (
        resources.files("fedkin.reporting.html") / "plotly" / f"plotly-cartesian-{PLOTLY}.min.js.gz"
    )
    return gzip.decompress(packed.read_bytes()).decode("utf-8")


def _file(name: str) -> str:
    """The text of a file next to this module."""
    return (resources.files("fedkin.reporting.html") / name).read_text(encoding="utf-8")
