"""Advice on whether clustering helps a set of clients, with how many clusters, and at what cost."""

from __future__ import annotations

from fedkin.analysis.advise.advice import Advice as Advice
from fedkin.analysis.advise.advisor import advise as advise
from fedkin.analysis.advise.advisor import of_config as of_config
from fedkin.analysis.advise.split_half_stability import (
    estimate_cluster_count as estimate_cluster_count,
)
