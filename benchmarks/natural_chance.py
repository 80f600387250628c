"""How far two measurements of the same gain differ by chance, on the natural federations.

    python -m benchmarks.natural --chance --set exam --draws 20

The gains of own intercepts, personal and local models over a shared model are measured on many
random divisions of the same table. All models are exact fits here, so that many draws are cheap.
``benchmarks/natural_chance.json`` has the gain of each draw. From their spread follows how often
the means of five draws and of five other draws are near each other.

Shapes: N clients, n rows of the largest client (shorter clients have rows of zeros, which change no
fit), d columns.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from scipy import stats
from scipy.special import logit

from benchmarks.client_fits import CLASSES, COUNTS, SQUARES, Rows, fit
from fedkin.analysis.level_fits import INTERCEPTS, LOCAL, PERSONAL, merged
from fedkin.data.federated import FederatedData, Ragged
from fedkin.measures.pulled_fit import STRENGTHS

RESULTS = Path(__file__).with_name("natural_chance.json")
KINDS = (INTERCEPTS, PERSONAL, LOCAL)
DRAWS = 5  # of a measurement
SHARED_STRENGTH = 1e-3
# The gains of each kind in all draws, in points of D2.
Gains = Mapping[str, Sequence[float]]


def measure(name: str, federations: Iterable[FederatedData]) -> None:
    """Measure the gains of a set and store them.

    Args:
        name: name of the set.
        federations: its draws.
    """
    draws = [gains_of_draw(data) for data in federations]
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    stored[name] = {kind: [round(each[kind], 3) for each in draws] for kind in KINDS}
    RESULTS.write_text(json.dumps(dict(sorted(stored.items())), indent=1) + "\n")


def gains_of_draw(data: FederatedData) -> dict[str, float]:
    """The gain of each kind of model over the shared one, in points of D2.

    Pulls are chosen on validation samples. Then models are fitted to training and validation
    samples together.
    """
    assert data.validation is not None
    everything = merged(data)
    part = {
        "train": padded(data, data.train, everything),
        "validation": padded(data, data.validation, everything),
        "both": padded(data, everything, everything),
        "test": padded(data, data.test, everything),
    }
    first = shared_model(part["train"])
    final = shared_model(part["both"])
    constant = total_loss(part["test"], np.zeros_like(final))
    loss = total_loss(part["test"], final)
    gains = {}
    for kind in KINDS:
        held_out = [
            total_loss(part["validation"], own_models(part["train"], kind, strength, first))
            for strength in STRENGTHS
        ]
        strength = STRENGTHS[int(np.argmin(held_out))]
        own = own_models(part["both"], kind, strength, final)
        gains[kind] = 100 * (loss - total_loss(part["test"], own)) / constant
    return gains


def padded(data: FederatedData, rows: Ragged, trained: Ragged) -> Rows:
    """Rows of each client, filled up with zeros, with a first column of ones.

    Args:
        data: the federation.
        rows: numbers of each client's rows.
        trained: the rows whose mean label the offset is.
    """
    task_type = data.task_type
    y = data.y.astype(np.float64)
    if task_type.loss is None:
        loss = CLASSES
        offset = np.full(len(y), logit(y[trained.rows].mean()))
    elif task_type.loss.name == COUNTS:
        loss = COUNTS
        offset = y[:, 1]
        y = y[:, 0]
    else:
        loss = SQUARES
        offset = np.full(len(y), y[trained.rows].mean())
    client = rows.owners()
    position = np.arange(len(client)) - np.repeat(np.cumsum(rows.sizes) - rows.sizes, rows.sizes)
    shape = (data.clients, int(rows.sizes.max()))
    x = np.zeros((*shape, data.x.shape[1] + 1))
    x[client, position, 0] = 1
    x[client, position, 1:] = data.x[rows.rows]
    filled = Rows(loss, x, np.zeros(shape), np.zeros(shape))
    filled.y[client, position] = y[rows.rows]
    filled.offset[client, position] = offset[rows.rows]
    return filled


def shared_model(rows: Rows) -> Float64[np.ndarray, "N d"]:
    """The model of all rows, for each client."""
    clients = len(rows.x)
    return np.tile(fit(rows, np.zeros(clients, int), 1, SHARED_STRENGTH), (clients, 1))


def own_models(
    rows: Rows, kind: str, strength: float, shared: Float64[np.ndarray, "N d"]
) -> Float64[np.ndarray, "N d"]:
    """The own model of each client.

    Args:
        rows: training rows.
        kind: one of ``KINDS``.
        strength: of the pull to the shared model, or to the constant for local models.
        shared: the shared model of each client.
    """
    clients = len(rows.x)
    each = np.arange(clients)
    if kind == LOCAL:
        return fit(rows, each, clients, strength)
    if kind == PERSONAL:
        return fit(rows, each, clients, strength, shared)
    levels = replace(rows, x=rows.x[:, :, :1], offset=rows.scores(shared))
    moved = shared.copy()
    moved[:, :1] += fit(levels, each, clients, strength)
    return moved


def total_loss(rows: Rows, weights: Float64[np.ndarray, "N d"]) -> float:
    """The summed loss of all rows that are not padding."""
    is_row = rows.x[:, :, 0] == 1
    return float(rows.losses(rows.predict(weights))[is_row].sum())


def chance_of_near(gains: Sequence[float], within: float) -> float:
    """The probability that the means of ``DRAWS`` draws and of as many other draws differ by at
    most ``within``. Their difference is taken as normal, with the variance 2 s^2 / ``DRAWS``.

    Args:
        gains: gains of many draws, whose variance is s^2.
        within: the difference, in points.
    """
    error = math.sqrt(2 * float(np.var(gains, ddof=1)) / DRAWS)
    return float(2 * stats.norm.cdf(within / error) - 1)


def is_near_many(gains: Sequence[float], reference: float) -> bool:
    """Whether a reference, the mean of ``DRAWS`` draws, is within two standard errors of the mean
    of many draws."""
    variance = float(np.var(gains, ddof=1))
    error = math.sqrt(variance / DRAWS + variance / len(gains))
    return abs(float(np.mean(gains)) - reference) <= 2 * error


def section(
    measured: Mapping[str, Gains],
    reference: Callable[[str, int], float],
    within: float,
    reached: int,
) -> str:
    """The part of the page about chance.

    Args:
        measured: the gains of all draws, by set.
        reference: function from a set and the number of a kind to the reference's gain.
        within: the aim, in points.
        reached: number of these gains that are within the aim in the stored results.
    """
    lines = [f"| set | {' | '.join(KINDS)} |", "|---" * (len(KINDS) + 1) + "|"]
    chances = []
    near = 0
    for name, gains in measured.items():
        cells = []
        for number, kind in enumerate(KINDS):
            known = reference(name, number)
            chances.append(chance_of_near(gains[kind], within))
            near += is_near_many(gains[kind], known)
            error = np.std(gains[kind], ddof=1) / math.sqrt(DRAWS)
            cells.append(
                f"{np.mean(gains[kind]):+.1f} ± {error:.1f} ({known:+.1f}) {chances[-1]:.0%}"
            )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    draws = min((len(gains[KINDS[0]]) for gains in measured.values()), default=0)
    text = (
        f"`python -m benchmarks.natural --chance --draws {draws}` measures three gains on {draws} "
        f"draws, by exact fits. Means of five draws and of five other draws are within {within} "
        f"points for {sum(chances):.0f} of {len(chances)} gains on average, with the same code, so "
        f"the aim cannot be expected of all. In the table above, {reached} are. The reference is "
        f"within two standard errors of the mean of all draws for {near} of {len(chances)}. Sets "
        "that are divided by years are not here, since they have no further independent draws."
    )
    unit = (
        "Numbers are the gain in points, mean ± standard error of a mean of five draws, the "
        f"reference in brackets, and the probability to be within {within} points."
    )
    return "\n".join([textwrap.fill(text, 100), "", *lines, "", textwrap.fill(unit, 100), ""])
