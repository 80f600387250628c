"""The compiled simulator."""

from __future__ import annotations

from fedkin.simulator.engine import SimulatedWorld as SimulatedWorld
