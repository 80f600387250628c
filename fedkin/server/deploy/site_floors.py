"""The disclosure floors of a site, with the numbers of its samples."""

from __future__ import annotations

import numpy as np

from fedkin.config.server_settings import DisclosureSettings
from fedkin.data.federated import FederatedData, Ragged
from fedkin.server.disclosure import Floors


def floors_of(data: FederatedData, settings: DisclosureSettings) -> Floors:
    """A site's floors. Raises ConfigError if they name a task that does not exist.

    Args:
        data: the site's samples.
        settings: the section [disclosure].
    """
    floors = Floors(
        settings=settings,
        samples=data.train.sizes,
        sizes=lambda split: data.part(split).sizes,
        class_counts=data.label_counts,
        hides_scores=data.patients is None,
    )
    floors.check_names()
    return floors


def without_small_tests(data: FederatedData, floors: Floors) -> FederatedData:
    """The samples without the test samples of clients that have fewer than the floor.

    A reply to training also has sums of scores, of which such a client then has none.
    """
    few = data.test.sizes < floors.settings.test
    if not floors.hides_scores or not few.any():
        return data
    rows = [
        np.zeros(0, np.int64) if few[client] else data.test[client]
        for client in range(data.clients)
    ]
    return data.with_rows(data.train, Ragged.of(rows))
