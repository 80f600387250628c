"""The simulated world, and its compiled workers."""

from __future__ import annotations

from fedkin.simulation.engine import SimulatedWorld as SimulatedWorld
from fedkin.simulation.workers import AnyModel as AnyModel
