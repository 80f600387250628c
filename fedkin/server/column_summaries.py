"""How a server summarises the columns of its sites' tables before the first round.

Sites send sums over their training samples (``tasks.columns``), and the server adds them up. The
result is a summary of each column, from which ``data.column_summaries`` makes the scaling.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from fedkin.core.columns import ColumnSummary, CommonScaling
from fedkin.core.errors import ConfigError
from fedkin.core.object_repr import listed
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.world import World, client_names
from fedkin.measures.moments import above_rounding, moments_of_sums
from fedkin.measures.quantile_search import RankCounts, search_quantiles
from fedkin.server.remote_world import RemoteWorld
from fedkin.task_types.task_type import TaskType
from fedkin.tasks.columns import ColumnCounts, ColumnSums, ScaledColumns
from fedkin.tasks.label_columns import LABEL_COLUMNS, LabelBins, LabelSums

_QUARTILES = (0.25, 0.5, 0.75)
# A quartile is within sqrt(3) standard deviations of the mean (Cantelli's inequality).
_FARTHEST_QUARTILE = 2.0
# 64^7 bins, of which the last one has 1e-12 of the standard deviation.
_HISTOGRAMS = 7
_BINS = 64
_log = logging.getLogger("fedkin")


def column_summaries(
    world: World, names: Sequence[str], quartiles: bool = False
) -> list[ColumnSummary]:
    """A summary of each column over the training samples of all clients that reply.

    The first request finds the means, the second the sums of differences from these means. Each of
    seven further requests counts values in bins, each within a bin of the one before.

    Args:
        world: the clients.
        names: names of the columns, in the order of all clients.
        quartiles: whether quartiles are needed.

    Raises:
        ConfigError: no client replies.
    """
    first = _asked(world, ColumnSums(np.zeros(len(names))))
    shift = first.total / first.count
    sums = _asked(world, ColumnSums(shift))
    mean, deviation = _moments(sums, shift)
    found = None
    if quartiles:
        found = _quantiles(world, mean, deviation, _QUARTILES)
        found = np.where(sums.fractions == 0, np.floor(found), found)
    return [
        ColumnSummary(
            name=name,
            count=int(sums.count[column]),
            mean=float(mean[column]),
            deviation=float(deviation[column]),
            quartiles=None if found is None else tuple(found[:, column].tolist()),
        )
        for column, name in enumerate(names)
    ]


def label_statistics(world: World, task_type: TaskType) -> TaskType:
    """A task type with the statistics of the labels over the training samples of all clients that
    reply.

    The first request finds the means, the second the sums of differences from these means. If the
    constant model is a quantile (of absolute errors, and of quantiles), further requests find it.

    Args:
        world: the clients, whose labels may be raw.
        task_type: task type and loss, without statistics.

    Raises:
        ConfigError: no client replies, or all labels are equal.
    """
    first = _asked(world, LabelSums(np.zeros(LABEL_COLUMNS)))
    shift = first.total / first.count
    sums = _asked(world, LabelSums(shift))
    mean, deviation = _moments(sums, shift)
    exposed = task_type.scales_by_rate and mean[0] > 0 and deviation[1] > 0
    if not deviation[0] and not exposed:
        raise ConfigError(
            f"samples.task: all training labels of all sites are {mean[0]:g}, so there is nothing "
            "to learn; name another label column at each site (data.label)"
        )
    events, time = mean
    levels = task_type.constant_levels
    constant = task_type.constant_of(np.zeros(1))
    if levels:
        found = _quantiles(world, mean, deviation, levels, counts=LabelBins)[:, 0]
        constant = tuple(((found - mean[0]) / deviation[0]).tolist())
    counts = task_type.scales_by_rate
    return task_type.with_statistics(
        np.array(
            [
                0.0 if counts else mean[0],
                1.0 if counts else deviation[0],
                events / time if counts else 1.0,
                (deviation[0] or 1.0) if counts else 1.0,
                *constant,
            ]
        )
    )


def scale_columns(world: RemoteWorld, scaling: CommonScaling) -> None:
    """Let all sites of a world scale their columns from its next request on."""
    world.announce_scaling(scaling, ScaledColumns(*scaling))


def _moments(
    sums: Reply, shift: Float64[np.ndarray, "d"]
) -> tuple[Float64[np.ndarray, "d"], Float64[np.ndarray, "d"]]:
    """Mean and standard deviation of each column, from sums of differences from ``shift``."""
    mean, deviation = moments_of_sums(sums.count, sums.total, sums.squares, centre=shift)
    return mean, above_rounding(mean, deviation)


def _quantiles(
    world: World,
    mean: Float64[np.ndarray, "d"],
    deviation: Float64[np.ndarray, "d"],
    levels: tuple[float, ...],
    counts: type[ColumnCounts] | type[LabelBins] = ColumnCounts,
) -> Float64[np.ndarray, "q d"]:
    """Quantiles of each column over the training samples of all clients that reply."""

    def counter(low: Float64[np.ndarray, "q d"], high: Float64[np.ndarray, "q d"]) -> RankCounts:
        reply = _asked(world, counts(low, high, _BINS))
        return RankCounts(reply.not_above, reply.count)

    # A quantile at level q is within sqrt((1 - q) / q) or its inverse of the mean (Cantelli).
    odds = max(max(level / (1 - level), (1 - level) / level) for level in levels)
    distance = max(_FARTHEST_QUARTILE, 1.01 * np.sqrt(odds)) * deviation
    return search_quantiles(
        counter,
        levels,
        low=mean - distance,
        high=mean + distance,
        histograms=_HISTOGRAMS,
        bins=_BINS,
    )


def _asked(world: World, task: Task) -> Reply:
    """The sums of all clients that reply to a task before the first round. A warning names the
    others. Raises ConfigError if no client replies."""
    # Each request has the whole time of a round.
    world.begin(Stream(0, 0, "columns"))
    clients = world.clients(0)
    reply = world.run(task, clients)
    silent = clients[~reply.arrived]
    if len(silent) == len(clients):
        raise ConfigError(
            f"samples: no client has replied to {task.name}, so columns and labels cannot be "
            "scaled; see the sites' logs, and start again. Or give the numbers: samples.scale_from "
            "= {mean = {age = 50.0}, scale = {age = 12.0}}, and samples.label_scale_from"
        )
    if len(silent):
        names = client_names(world)
        shown = [str(client) if names is None else str(names[client]) for client in silent]
        _log.warning(
            "%s: no usable reply of %s, so the scaling of columns is computed without it",
            task.name,
            listed(shown),
        )
    return reply
