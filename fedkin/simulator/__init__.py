"""The simulated world, and its compiled workers."""

from __future__ import annotations

from fedkin.simulator.engine import SimulatedWorld as SimulatedWorld
from fedkin.simulator.workers import AnyModel as AnyModel
