"""The settings of a server and of a site are checked wherever they come from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from fedkin.config.server_settings import ServerSettings, SiteSettings
from fedkin.core.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "values", "message"),
    [
        (
            ServerSettings,
            {"name": "a b"},
            "federation.name: expected 1 to 64 letters, digits, '_', '.' or '-'",
        ),
        (
            ServerSettings,
            {"capacity": 0},
            "federation.capacity: expected a value greater than or equal to 1, got 0",
        ),
        (
            ServerSettings,
            {"wait_for": 17},
            "federation.wait_for: expected at most capacity (16), got 17",
        ),
        (
            ServerSettings,
            {"retries": -1},
            "federation.retries: expected a value greater than or equal to 0, got -1",
        ),
        (
            ServerSettings,
            {"deadline": 0},
            "federation.deadline: expected a value greater than 0, got 0",
        ),
        (
            ServerSettings,
            {"deadline": math.inf},
            "federation.deadline: expected a finite number, got inf",
        ),
        (
            ServerSettings,
            {"quorum": 1.5},
            "federation.quorum: expected a value less than or equal to 1, got 1.5",
        ),
        (
            ServerSettings,
            {"norm_limit": 1},
            "federation.norm_limit: expected a value greater than 1, got 1",
        ),
        (
            ServerSettings,
            {"norm_limit": math.nan},
            "federation.norm_limit: expected a value greater than 1, got nan",
        ),
        (SiteSettings, {"name": ""}, "client.name: expected 1 to 64 letters"),
        (
            SiteSettings,
            {"name": "a", "federation": "*"},
            "client.federation: expected 1 to 64 letters",
        ),
        (
            SiteSettings,
            {"name": "a", "clients": 3},
            "client.clients: expected a valid tuple, got 3",
        ),
    ],
)
def test_refused_values(settings: Callable[..., Any], values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        settings(**values)
    assert str(error.value).startswith(message)


def test_settings_are_frozen_values() -> None:
    changed = replace(ServerSettings("north"), capacity=np.int64(3), deadline=5)
    assert changed == ServerSettings("north", 3, deadline=5.0) and type(changed.capacity) is int
    with pytest.raises(FrozenInstanceError):
        changed.capacity = 4  # type: ignore[misc]
    with pytest.raises(TypeError):
        ServerSettings(capcity=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("clients", "numbers"),
    [(None, [0, 1, 2, 3]), ((2, 0), [0, 2]), ([1], [1]), ("1:3", [1, 2]), (" 0 : 1 ", [0])],
)
def test_the_clients_of_a_site(clients: Any, numbers: list[int]) -> None:
    assert SiteSettings("a", "", clients=clients).client_numbers(4).tolist() == numbers


@pytest.mark.parametrize("clients", [(4,), (-1,), (1, 1), (), "3:9"])
def test_clients_that_the_data_do_not_have(clients: Any) -> None:
    words = r"client\.clients must list at least one number, without repeats, from 0 to 3"
    with pytest.raises(ConfigError, match=words):
        SiteSettings("a", clients=clients).client_numbers(4)


@pytest.mark.parametrize("clients", ["all", "2:2", "3:1", "a..b", "1:", "log(3,1)"])
def test_a_text_that_is_no_range_is_refused_before_data_are_read(clients: str) -> None:
    with pytest.raises(ConfigError, match=r"^client\.clients: expected .*; for example clients="):
        SiteSettings("a", clients=clients)
