"""Noisy sums that no server adds the noise to: every client masks its clipped update with a share
of the noise.

    each of the clients adds N(0, s^2 / (n_min - 1)) to every number, s = z (C + sqrt(p) / scale):

a sum of n_min answers or more has at least the noise of the mechanism, and one of fewer is lost.
The rounding to integers may lengthen an update by sqrt(p) steps of the grid, which is in s. (A
discrete Gaussian would be the exact remedy; no kept library draws one for millions of numbers in a
second.)
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.errors import TaskError
from fedkin.core.randomness import Stream
from fedkin.core.world import World
from fedkin.options.journal import Journal
from fedkin.options.privacy.settings import Mechanism
from fedkin.options.secret.secret_call import SecretCall, by_model, group_rows
from fedkin.options.secret.secret_settings import SecretSettings
from fedkin.secret.quantization import EXTRA, Grid, NoiseShare

_TAIL = 8.0  # so many deviations of noise fit on the grid
_LONGER = 1.05  # rounding may lengthen an update by this factor at most


def secret_facts(journal: Journal, least: int) -> dict[str, Any]:
    """The facts that belong to an epsilon where clients add the noise.

    Args:
        journal: of the run.
        least: n_min.
    """
    return {
        "secret_sums": {
            "least": least,
            "lost": sum(len(entry.get("lost", ())) for entry in journal.entries),
            "noise": (
                f"clients add it: {least - 1} of them together that of the mechanism, and {least} "
                "answer or more"
            ),
        },
        "trusted": _trusted(journal.uncharged),
    }


def _trusted(uncharged: list[str]) -> str:
    """Who is trusted with which data. Replies that are no sum reach the server as they are."""
    seen = (
        "the server to follow the protocol, and each client to add its noise. The server sees "
        "noisy sums, who took part in which round, each client's test scores where the run is "
        "scored, and the numbers of samples that real sites tell as they join"
    )
    return f"{seen}; and each client's replies to {', '.join(uncharged)}" if uncharged else seen


class SecretNoisySums(NamedTuple):
    """The release of a round of private secret sums."""

    sums: Float[np.ndarray, "K p"]
    arrived: Bool[np.ndarray, "n"]  # rows that are in a sum
    made: int  # how many clusters have a sum
    lost: dict[int, str]  # for each cluster without a sum, why


def noise_share(
    mechanism: Mechanism, least: int, members: int, numbers: int, seeded: bool
) -> tuple[Grid, NoiseShare]:
    """The grid of a private sum, and the share of the noise that each client adds.

    Args:
        mechanism: clip and noise of the whole sum.
        least: n_min.
        members: n, most clients of a sum.
        numbers: p.
        seeded: whether noise comes from the clients' streams.

    Raises:
        TaskError: so few bits are left for each client that rounding would lengthen its update.
    """
    clip = mechanism.settings.clip
    share = mechanism.noise_multiplier / math.sqrt(least - 1)
    grid = Grid(
        clients=members,
        limit=clip * (1 + _TAIL * _LONGER * share),
        cap=mechanism.settings.examples_cap or 1,
    )
    longest = clip + math.sqrt(numbers) / grid.scale
    if longest > _LONGER * clip or not grid.fits():
        raise TaskError(
            f"secret: sums over {members} clients leave too few bits for updates of {numbers:,} "
            "numbers"
        )
    return grid, NoiseShare(clip, share * longest, seeded)


def secret_noisy_sums(
    world: World,
    settings: SecretSettings,
    mechanism: Mechanism,
    task: Any,
    clients: Int[np.ndarray, "n"],
    stream: Stream,
    seeded: bool,
) -> SecretNoisySums:
    """The noisy sums of a training. The server sees nothing of it before the noise is in them.

    Args:
        world: of the clients.
        settings: of the secret sums.
        mechanism: clip and noise.
        task: that wants means.
        clients: of its rows, each once.
        stream: of the clients' random numbers.
        seeded: whether noise comes from it, too: for tests only.
    """
    rows, members = group_rows(task, clients, settings.hide_choice)
    grid, noise = noise_share(
        mechanism=mechanism,
        least=settings.least,
        members=members,
        numbers=task.sizes()["p"],
        seeded=seeded,
    )
    call = SecretCall(
        world=world,
        settings=settings,
        task=task,
        clients=clients,
        stream=stream,
        grid=grid,
        noise=noise,
    )
    sums = call.sums(rows)
    arrived = np.zeros(len(clients), bool)
    for group_sum in sums.values():
        arrived[group_sum.rows] = True
    total = by_model(task, sums, settings.hide_choice).view(np.int32)[:, :-EXTRA]
    # A group that hides its choices has the sums of all clusters.
    made = len(total) * len(sums) if settings.hide_choice else len(sums)
    return SecretNoisySums(
        sums=total / grid.scale,
        arrived=arrived,
        made=made,
        lost=call.lost,
    )
