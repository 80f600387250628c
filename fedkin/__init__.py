"""fedkin: clustered federated learning. Find which clients are kin, and train one model per kind.

Names load when they are first used, so that ``import fedkin`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkin import data as data
    from fedkin import models as models
    from fedkin.errors import CheckpointError as CheckpointError
    from fedkin.errors import ChecksumError as ChecksumError
    from fedkin.errors import ConfigError as ConfigError
    from fedkin.errors import DataError as DataError
    from fedkin.errors import FedkinError as FedkinError
    from fedkin.errors import MethodError as MethodError
    from fedkin.errors import MissingExtra as MissingExtra
    from fedkin.errors import ModelError as ModelError
    from fedkin.errors import StorageError as StorageError
    from fedkin.experiment.advise import Advice as Advice
    from fedkin.experiment.advise import advise as advise
    from fedkin.experiment.compare.comparison import Comparison as Comparison
    from fedkin.experiment.compare.running import compare as compare
    from fedkin.experiment.deploy.hooks import jax_client as jax_client
    from fedkin.experiment.deploy.hooks import torch_client as torch_client
    from fedkin.experiment.eps_study import EpsStudy as EpsStudy
    from fedkin.experiment.eps_study import study_eps as study_eps
    from fedkin.experiment.heterogeneity import non_iid_index as non_iid_index
    from fedkin.experiment.repeat import Repeated as Repeated
    from fedkin.experiment.repeat import repeat as repeat
    from fedkin.experiment.report import report as report
    from fedkin.experiment.results import Run as Run
    from fedkin.experiment.simulate import simulate as simulate
    from fedkin.experiment.trackers import Tracker as Tracker
    from fedkin.method import Method as Method
    from fedkin.method import State as State
    from fedkin.methods import FLHC as FLHC
    from fedkin.methods import IFCA as IFCA
    from fedkin.methods import PANM as PANM
    from fedkin.methods import PENS as PENS
    from fedkin.methods import Athena as Athena
    from fedkin.methods import FedAvg as FedAvg
    from fedkin.methods import FedGroup as FedGroup
    from fedkin.methods import FedGrouProx as FedGrouProx
    from fedkin.methods import FedProx as FedProx
    from fedkin.methods import FedSim as FedSim
    from fedkin.methods import FeSEM as FeSEM
    from fedkin.methods import FeSEMMig as FeSEMMig
    from fedkin.methods import FlexCFL as FlexCFL
    from fedkin.methods import Gossip as Gossip
    from fedkin.methods import Hierarchical as Hierarchical
    from fedkin.methods import IFCAMig as IFCAMig
    from fedkin.methods import Local as Local
    from fedkin.methods import Oracle as Oracle
    from fedkin.methods import PANMLoss as PANMLoss
    from fedkin.methods import SattlerCFL as SattlerCFL
    from fedkin.models import as_model as as_model
    from fedkin.pytorch import torch_model as torch_model
    from fedkin.randomness import Stream as Stream
    from fedkin.scenarios.drift import Relabel as Relabel
    from fedkin.scenarios.drift import Rotate as Rotate
    from fedkin.scenarios.plant import planted as planted
    from fedkin.scenarios.population import Population as Population
    from fedkin.scenarios.shift import Incremental as Incremental
    from fedkin.scenarios.swaps import SwapAll as SwapAll
    from fedkin.scenarios.swaps import SwapPart as SwapPart
    from fedkin.simulator import SimulatedWorld as SimulatedWorld
    from fedkin.world import SGD as SGD
    from fedkin.world import Adam as Adam
    from fedkin.world import Ledger as Ledger
    from fedkin.world import LocalWork as LocalWork
    from fedkin.world import ModelSpec as ModelSpec
    from fedkin.world import Scores as Scores
    from fedkin.world import Trained as Trained
    from fedkin.world import World as World

__version__ = "0.1.0"

_HOME = {
    "Adam": "fedkin.world",
    "Advice": "fedkin.experiment.advise",
    "Athena": "fedkin.methods",
    "CheckpointError": "fedkin.errors",
    "ChecksumError": "fedkin.errors",
    "Comparison": "fedkin.experiment.compare.comparison",
    "ConfigError": "fedkin.errors",
    "DataError": "fedkin.errors",
    "EpsStudy": "fedkin.experiment.eps_study",
    "FLHC": "fedkin.methods",
    "FeSEM": "fedkin.methods",
    "FeSEMMig": "fedkin.methods",
    "FedAvg": "fedkin.methods",
    "FedGrouProx": "fedkin.methods",
    "FedGroup": "fedkin.methods",
    "FedProx": "fedkin.methods",
    "FedSim": "fedkin.methods",
    "FedkinError": "fedkin.errors",
    "FlexCFL": "fedkin.methods",
    "Gossip": "fedkin.methods",
    "Hierarchical": "fedkin.methods",
    "IFCA": "fedkin.methods",
    "IFCAMig": "fedkin.methods",
    "Incremental": "fedkin.scenarios.shift",
    "Ledger": "fedkin.world",
    "Local": "fedkin.methods",
    "LocalWork": "fedkin.world",
    "Method": "fedkin.method",
    "MethodError": "fedkin.errors",
    "MissingExtra": "fedkin.errors",
    "ModelError": "fedkin.errors",
    "ModelSpec": "fedkin.world",
    "Oracle": "fedkin.methods",
    "PANM": "fedkin.methods",
    "PANMLoss": "fedkin.methods",
    "PENS": "fedkin.methods",
    "Population": "fedkin.scenarios.population",
    "Relabel": "fedkin.scenarios.drift",
    "Repeated": "fedkin.experiment.repeat",
    "Rotate": "fedkin.scenarios.drift",
    "Run": "fedkin.experiment.results",
    "SGD": "fedkin.world",
    "SattlerCFL": "fedkin.methods",
    "Scores": "fedkin.world",
    "SimulatedWorld": "fedkin.simulator",
    "State": "fedkin.method",
    "StorageError": "fedkin.errors",
    "Stream": "fedkin.randomness",
    "SwapAll": "fedkin.scenarios.swaps",
    "SwapPart": "fedkin.scenarios.swaps",
    "Tracker": "fedkin.experiment.trackers",
    "Trained": "fedkin.world",
    "World": "fedkin.world",
    "advise": "fedkin.experiment.advise",
    "as_model": "fedkin.models",
    "compare": "fedkin.experiment.compare.running",
    "jax_client": "fedkin.experiment.deploy.hooks",
    "non_iid_index": "fedkin.experiment.heterogeneity",
    "planted": "fedkin.scenarios.plant",
    "repeat": "fedkin.experiment.repeat",
    "report": "fedkin.experiment.report",
    "simulate": "fedkin.experiment.simulate",
    "study_eps": "fedkin.experiment.eps_study",
    "torch_client": "fedkin.experiment.deploy.hooks",
    "torch_model": "fedkin.pytorch",
}
_MODULES = ("data", "models")

__all__ = [  # noqa: RUF022 (plain alphabetical, as sorted() has it)
    "Adam",
    "Advice",
    "Athena",
    "CheckpointError",
    "ChecksumError",
    "Comparison",
    "ConfigError",
    "DataError",
    "EpsStudy",
    "FLHC",
    "FeSEM",
    "FeSEMMig",
    "FedAvg",
    "FedGrouProx",
    "FedGroup",
    "FedProx",
    "FedSim",
    "FedkinError",
    "FlexCFL",
    "Gossip",
    "Hierarchical",
    "IFCA",
    "IFCAMig",
    "Incremental",
    "Ledger",
    "Local",
    "LocalWork",
    "Method",
    "MethodError",
    "MissingExtra",
    "ModelError",
    "ModelSpec",
    "Oracle",
    "PANM",
    "PANMLoss",
    "PENS",
    "Population",
    "Relabel",
    "Repeated",
    "Rotate",
    "Run",
    "SGD",
    "SattlerCFL",
    "Scores",
    "SimulatedWorld",
    "State",
    "StorageError",
    "Stream",
    "SwapAll",
    "SwapPart",
    "Tracker",
    "Trained",
    "World",
    "__version__",
    "advise",
    "as_model",
    "compare",
    "data",
    "jax_client",
    "models",
    "non_iid_index",
    "planted",
    "repeat",
    "report",
    "simulate",
    "study_eps",
    "torch_client",
    "torch_model",
]


def __getattr__(name: str) -> Any:
    """A public name, from where it lives."""
    if name in _MODULES:
        return importlib.import_module(f"fedkin.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'fedkin' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return list(__all__)
