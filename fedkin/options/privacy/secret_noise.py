"""Noisy sums without noise from the server: every client adds a share of the noise to its clipped
update before it masks the update.

    each client adds N(0, s^2 / (n_min - 1)) to every number, s = z (C + sqrt(p) / scale):

A sum of at least n_min clients has the noise of the mechanism even without one client's share,
which that client knows. A sum of fewer clients is discarded. Updates are rounded to integers, in
units of 1 / scale. This may lengthen an update of p numbers by sqrt(p) units, which s accounts for.
(A discrete Gaussian would be exact, but no maintained library draws one for millions of numbers in
a second.)
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
from fedkin.options.secret.secret_call import SecretCall, by_model, group_rows, lost_by_model
from fedkin.options.secret.secret_settings import SecretSettings
from fedkin.secret.quantization import EXTRA, IntegerGrid, NoiseShare

_TAIL = 8.0  # the integers are large enough for noise of this many standard deviations
_LONGER = 1.05  # largest factor by which rounding may lengthen an update


def secret_facts(journal: Journal, least: int) -> dict[str, Any]:
    """The entries of the privacy statement that differ if clients add the noise.

    Args:
        journal: the run's journal.
        least: n_min, the smallest number of clients in a sum.
    """
    return {
        "secret_sums": {
            "least": least,
            "lost": sum(len(entry.get("lost", ())) for entry in journal.entries),
            "noise": (
                f"clients add it: any {least - 1} of them add as much as the mechanism needs, and "
                f"at least {least} answer"
            ),
        },
        "trusted": _trusted(journal.uncharged),
    }


def _trusted(uncharged: list[str]) -> str:
    """The privacy statement's text on who must be trusted in a run with secret sums, and which data
    the server sees.

    Args:
        uncharged: tasks whose replies reach the server without noise.
    """
    seen = (
        "the server to follow the protocol, and each client to add its noise. The server sees "
        "noisy sums, who took part in which round, each client's test scores when the run is "
        "scored, and the numbers of samples that real sites report when they join"
    )
    return f"{seen}; and each client's replies to {', '.join(uncharged)}" if uncharged else seen


class SecretNoisySums(NamedTuple):
    """The noisy sums of a round, in which clients have added the noise."""

    sums: Float[np.ndarray, "K p"]
    arrived: Bool[np.ndarray, "n"]  # which clients' updates are in a sum
    made: int  # number of clusters with a sum
    lost: dict[int, str]  # reason for each cluster without a sum


def noise_share(
    mechanism: Mechanism, least: int, members: int, numbers: int, seeded: bool
) -> tuple[IntegerGrid, NoiseShare]:
    """The integer grid on which updates are added, and the share of the noise that each client
    adds.

    Args:
        mechanism: clip and noise of the whole sum.
        least: n_min, the smallest number of clients in a sum.
        members: largest number of clients n in a sum.
        numbers: number of values p in an update.
        seeded: whether the noise comes from the clients' random streams.

    Raises:
        TaskError: each client gets too few bits, so rounding would lengthen its update too much.
    """
    clip = mechanism.settings.clip
    share = mechanism.noise_multiplier / math.sqrt(least - 1)
    grid = IntegerGrid(
        clients=members,
        limit=clip * (1 + _TAIL * _LONGER * share),
        cap=mechanism.settings.examples_cap or 1,
    )
    longest = clip + math.sqrt(numbers) / grid.scale
    if longest > _LONGER * clip or not grid.fits():
        raise TaskError(
            f"secret: sums over {members} clients leave too few bits for updates of {numbers:,} "
            "numbers; lower run.cohort"
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
    """The noisy sums of a training. The server sees only sums that include the noise.

    Args:
        world: the clients.
        settings: settings of secret sums.
        mechanism: clip and noise.
        task: a task that asks for mean updates.
        clients: the clients that train, each at most once.
        stream: the clients' random numbers.
        seeded: whether the noise comes from ``stream`` too, for tests only.
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
    # With hidden choices, one group holds the sums of all clusters.
    made = len(total) * len(sums) if settings.hide_choice else len(sums)
    return SecretNoisySums(
        sums=total / grid.scale,
        arrived=arrived,
        made=made,
        lost=lost_by_model(task, call.lost, settings.hide_choice),
    )
