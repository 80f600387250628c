"""The named data shifts during a run. ``SHIFTS`` maps their names in configurations to classes.

The imports below are the list: a new shift adds a line here. A name is the class name in snake
case: ``SwapAll`` is ``swap_all``.
"""

from __future__ import annotations

import re

# The list, in the order of the documentation.
# isort: off
from fedkin.scenarios.swaps import SwapAll as SwapAll
from fedkin.scenarios.swaps import SwapPart as SwapPart
from fedkin.scenarios.shift import Incremental as Incremental
from fedkin.scenarios.drift import Relabel as Relabel
from fedkin.scenarios.drift import Rotate as Rotate
from fedkin.scenarios.steps import Steps as Steps
# isort: on

SHIFTS: dict[str, type] = {}
for _shift in [value for value in globals().values() if isinstance(value, type)]:
    SHIFTS[re.sub("(?<=[a-z])(?=[A-Z])", "_", _shift.__name__).lower()] = _shift
