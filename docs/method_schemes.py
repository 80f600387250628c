"""A scheme for each method: clients, what they send, who compares it, and when.

All schemes have one visual language. They are drawn from what a method says of itself (``about``,
``requirements``), so that a new method needs no line here.
"""

from __future__ import annotations

import html
import textwrap
from typing import Any

from fedkin.methods.about import NOTHING, About

WIDTH = 480
HEIGHT = 456
CLIENTS = 7
ROUNDS = 10
# Okabe and Ito's colours, as in all figures; the last is for clients that are not clustered.
COLOURS = ("#0072B2", "#D55E00", "#009E73")
PLAIN = "#888888"
INK = "#222222"
FAINT = "#BBBBBB"
ACROSS = 52  # characters of a line
IN_BOX = 48  # characters of a line in the box
ROW = 134  # height at which the clients stand
BOX = 'x="20" y="236" width="440" height="114" rx="8"'
EVERY = "every round"
# The number of models, by ``about.count``.
COUNTS = {
    "given": "their number is given",
    "found": "their number is found",
    "given or found": "their number is given or found",
}
# Rounds of a timeline in which clusters are found or changed, by words of ``about.when``.
MOMENTS = {
    "before training": (0,),
    "before the first round": (0,),
    "after some rounds": (4,),
    "after one training": (1,),
    "newcomers and migration": (0, 4, 8),
    "has converged": (5, 8),
    "at a drift": (4, 8),
    "the first rounds": (1, 2, 3),
    EVERY: tuple(range(1, ROUNDS + 1)),
}


def scheme(method: Any, summary: str) -> str:
    """The scheme of a method as an SVG.

    Args:
        method: the method, with its default options.
        summary: the method in one sentence, which stands above the scheme.
    """
    about: About = method.about
    peers = method.requirements().peers
    parts = _lines(12, 22, summary, ACROSS, 'font-weight="bold" font-size="14"')
    parts += _clients(method, about)
    parts += _peer_links(about) if peers else _messages(about)
    parts += _peers_box(about) if peers else _server_box(about)
    parts += _timeline(about)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="15" fill="{INK}">'
    )
    tip = (
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker></defs>'
    )
    ground = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    return "\n".join([head, tip, ground, *parts, "</svg>"]) + "\n"


def words(method: Any) -> str:
    """The scheme in words, for readers who do not see it.

    Args:
        method: the method, with its default options.
    """
    about: About = method.about
    if about.compares == NOTHING:
        found = "no clusters are looked for"
    else:
        found = f"{about.decides} compares {about.compares}, {about.when}"
    return f"scheme of {about.name}: {found}; in addition to FedAvg leaves a client: {about.leaves}"


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" {more}>{html.escape(text)}</text>'


def _lines(x: float, y: float, text: str, width: int, more: str = "") -> list[str]:
    """A text of several lines, 18 pixels apart."""
    lines = textwrap.wrap(text, width)
    return [_text(x, y + 18 * number, line, more) for number, line in enumerate(lines)]


def _colour(about: About, client: int) -> str:
    """The colour of a client: its cluster's, if the method has clusters."""
    return PLAIN if about.membership == "-" else COLOURS[client % len(COLOURS)]


def _place(client: int) -> float:
    """The horizontal position of a client."""
    return 52 + client * 62


def _clients(method: Any, about: About) -> list[str]:
    """The row of clients, their choice of a cluster, and the part that stays on each."""
    requirements = method.requirements()
    own = requirements.parts.own
    keeps = own and (about.membership == "-" or requirements.memory.kept_models)
    told = "clients"
    if about.decides == "client":
        told = f"each client chooses by {about.compares}"
    if keeps:
        told += f" (squares: their own {_kept(own)})"
    parts = _lines(12, 84, told, ACROSS)
    for client in range(CLIENTS):
        x = _place(client)
        parts.append(f'<circle cx="{x}" cy="{ROW}" r="17" fill="{_colour(about, client)}"/>')
        if about.membership == "soft":
            other = COLOURS[(client + 1) % len(COLOURS)]
            half = f"M{x},{ROW - 17} A17,17 0 0 1 {x},{ROW + 17} z"
            parts.append(f'<path d="{half}" fill="{other}"/>')
        if keeps:
            parts.append(
                f'<rect x="{x + 9}" y="{ROW + 4}" width="16" height="16" fill="white" '
                f'stroke="{INK}"/>'
            )
    return parts


def _kept(own: str) -> str:
    """The part that stays on a client, without the words that say where it is."""
    for ending in (" of clients", " of each client's own", " for each client"):
        own = own.removesuffix(ending)
    return own.removeprefix("a ")


def _messages(about: About) -> list[str]:
    """The arrows between clients and server, with the content of each message."""
    return [
        f'<path d="M52,164 V226" stroke="{INK}" stroke-width="2" marker-end="url(#tip)"/>',
        f'<path d="M330,226 V164" stroke="{INK}" stroke-width="2" marker-end="url(#tip)"/>',
        _text(64, 178, "update of local training"),
        *([] if about.leaves == NOTHING else _lines(64, 197, f"also {about.leaves}", 32)),
        *_lines(342, 188, _sent_back(about), 17),
    ]


def _sent_back(about: About) -> str:
    """The models that a client gets in a round."""
    if about.membership == "-":
        return "the one model"
    if about.membership == "soft":
        return "all models" if about.count == "given" else "a mix of models"
    return "all models" if about.decides == "client" and about.when == EVERY else "its model"


def _peer_links(about: About) -> list[str]:
    """Arcs between peers that average with each other."""
    if about.leaves == "nothing at all":
        return [_text(52, 212, "nothing leaves a client")]
    parts = []
    step = 1 if about.membership == "-" else len(COLOURS)
    for client in range(CLIENTS - step):
        left = _place(client)
        right = _place(client + step)
        parts.append(
            f'<path d="M{left},{ROW + 20} Q{(left + right) / 2},{ROW + 34 + 18 * step} '
            f'{right},{ROW + 20}" fill="none" stroke="{_colour(about, client)}" stroke-width="3"/>'
        )
    return [*parts, _text(52, 222, f"a peer sends {about.leaves}")]


def _peers_box(about: About) -> list[str]:
    """The work of each peer, where there is no server."""
    if about.leaves == "nothing at all":
        told = "Each client trains alone."
    elif about.compares == NOTHING:
        told = "Each peer averages with random peers."
    elif about.when == "-":
        told = "Each peer averages with peers of its cluster."
    else:
        told = f"Each peer compares {about.compares}, and averages with peers of its cluster."
    return [
        f'<rect {BOX} fill="none" stroke="{INK}" stroke-width="2" stroke-dasharray="6 4"/>',
        _text(34, 260, "no server", 'font-weight="bold"'),
        *_lines(34, 284, told, IN_BOX),
    ]


def _server_box(about: About) -> list[str]:
    """The work of the server, and its models."""
    single = about.membership == "-"
    told = "The mean of a cluster's updates makes its model."
    if single:
        told = "The mean of all updates makes the model."
    if about.membership == "soft":
        told = "Weighted means of updates make the models."
    if "server" in about.decides:
        told = f"It compares {about.compares}, and assigns clients."
    colours = (PLAIN,) if single else COLOURS
    models = "one model" if single else f"models: {COUNTS.get(about.count, 'one for each client')}"
    squares = [
        f'<rect x="{34 + 34 * number}" y="312" width="26" height="26" rx="4" fill="{colour}"/>'
        for number, colour in enumerate(colours)
    ]
    return [
        f'<rect {BOX} fill="none" stroke="{INK}" stroke-width="2"/>',
        _text(34, 260, "server", 'font-weight="bold"'),
        *_lines(34, 280, told, IN_BOX),
        *squares,
        _text(46 + 34 * len(colours), 331, models),
    ]


def _timeline(about: About) -> list[str]:
    """The rounds of a run, with marks where clusters are found or changed."""
    label = "rounds; there are no clusters"
    if about.membership != "-":
        label = "rounds; the clusters are given"
    if about.when != "-":
        label = f"clusters change: {about.when}"
    marked = next((rounds for words, rounds in MOMENTS.items() if words in about.when), ())
    parts = [
        _text(12, 382, label),
        f'<path d="M28,416 H464" stroke="{INK}" stroke-width="2" marker-end="url(#tip)"/>',
    ]
    for number in range(ROUNDS + 1):
        x = 36 + 40 * number
        name = "start" if number == 0 else str(number)
        parts.append(f'<path d="M{x},410 V422" stroke="{FAINT}" stroke-width="2"/>')
        parts.append(_text(x, 444, name, 'text-anchor="middle" font-size="13"'))
        if number in marked:
            parts.append(
                f'<path d="M{x},404 l9,12 l-9,12 l-9,-12 z" fill="{COLOURS[1]}" stroke="{INK}"/>'
            )
    return parts
