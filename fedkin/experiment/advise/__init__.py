"""Whether clustering helps these clients, with how many clusters, and at what cost."""

from __future__ import annotations

from fedkin.experiment.advise.advice import Advice as Advice
from fedkin.experiment.advise.advising import advise as advise
from fedkin.experiment.advise.advising import of_config as of_config
from fedkin.experiment.advise.kinds import how_many_kinds as how_many_kinds
