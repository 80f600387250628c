"""fedkin: clustered federated learning. Group clients with similar data, and train one model per
cluster.

Names load when they are first used, so that ``import fedkin`` costs next to nothing.
"""

# ruff: noqa: F405 (names of methods are listed in one place)
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fedkin.core import progress as _progress
from fedkin.core import suggestions

if TYPE_CHECKING:
    from fedkin import data as data
    from fedkin import models as models
    from fedkin.analysis.advise import Advice as Advice
    from fedkin.analysis.advise import advise as advise
    from fedkin.analysis.compare.comparison import Comparison as Comparison
    from fedkin.analysis.compare.runner import compare as compare
    from fedkin.analysis.eps_study import EpsStudy as EpsStudy
    from fedkin.analysis.eps_study import study_eps as study_eps
    from fedkin.analysis.non_iid_index import non_iid_index as non_iid_index
    from fedkin.analysis.repeat import repeat as repeat
    from fedkin.analysis.repeated_runs import RepeatedRuns as RepeatedRuns
    from fedkin.analysis.subspace_angles import subspace_angles as subspace_angles
    from fedkin.core.errors import CheckpointError as CheckpointError
    from fedkin.core.errors import ChecksumError as ChecksumError
    from fedkin.core.errors import ConfigError as ConfigError
    from fedkin.core.errors import DataError as DataError
    from fedkin.core.errors import FedkinError as FedkinError
    from fedkin.core.errors import MethodError as MethodError
    from fedkin.core.errors import MissingExtra as MissingExtra
    from fedkin.core.errors import ModelError as ModelError
    from fedkin.core.errors import StorageError as StorageError
    from fedkin.core.errors import TaskError as TaskError
    from fedkin.core.errors import WorkerError as WorkerError
    from fedkin.core.layout import ModelSpec as ModelSpec
    from fedkin.core.ledger import Ledger as Ledger
    from fedkin.core.method import Method as Method
    from fedkin.core.method import State as State
    from fedkin.core.randomness import Stream as Stream
    from fedkin.core.requirements import Requirements as Requirements
    from fedkin.core.schedule import Schedule as Schedule
    from fedkin.core.training import SGD as SGD
    from fedkin.core.training import Adam as Adam
    from fedkin.core.training import AdamW as AdamW
    from fedkin.core.training import LocalTraining as LocalTraining
    from fedkin.core.world import World as World
    from fedkin.estimator import Clustered as Clustered
    from fedkin.measures.cox_loss import cox_loss as cox_loss
    from fedkin.measures.measure import Measure as Measure
    from fedkin.measures.measure import ScoredClients as ScoredClients
    from fedkin.methods import *  # noqa: F403
    from fedkin.methods.personal_parts import PersonalHead as PersonalHead
    from fedkin.methods.personal_parts import PersonalModel as PersonalModel
    from fedkin.methods.server_optimizers import FedAdagrad as FedAdagrad
    from fedkin.methods.server_optimizers import FedAdam as FedAdam
    from fedkin.methods.server_optimizers import FedAvgM as FedAvgM
    from fedkin.methods.server_optimizers import FedYogi as FedYogi
    from fedkin.models import as_model as as_model
    from fedkin.privacy.client_dp import ClientDP as ClientDP
    from fedkin.privacy.secret_settings import SecretSums as SecretSums
    from fedkin.reporting.draw import draw as draw
    from fedkin.reporting.html.report import report as report
    from fedkin.robust.byzantine import Byzantine as Byzantine
    from fedkin.robust.robust import RobustAggregation as RobustAggregation
    from fedkin.run.results import Run as Run
    from fedkin.run.simulate import simulate as simulate
    from fedkin.run.stopping import STOP as STOP
    from fedkin.scenarios.drift import Relabel as Relabel
    from fedkin.scenarios.drift import Rotate as Rotate
    from fedkin.scenarios.planted_clusters import planted as planted
    from fedkin.scenarios.population import Population as Population
    from fedkin.scenarios.shift import Incremental as Incremental
    from fedkin.scenarios.steps import Steps as Steps
    from fedkin.scenarios.steps import prequential_accuracy as prequential_accuracy
    from fedkin.scenarios.swaps import SwapAll as SwapAll
    from fedkin.scenarios.swaps import SwapPart as SwapPart
    from fedkin.server.deploy.custom_clients import jax_client as jax_client
    from fedkin.server.deploy.custom_clients import torch_client as torch_client
    from fedkin.simulation.engine import SimulatedWorld as SimulatedWorld
    from fedkin.simulation.torch import torch_model as torch_model
    from fedkin.staleness.settings import LateReplies as LateReplies
    from fedkin.tasks.evaluate import Scores as Scores
    from fedkin.tasks.train import TrainingReply as TrainingReply
    from fedkin.tracking.tracker import Tracker as Tracker

__version__ = "0.2.0"


def _display(rounds: int) -> Any:
    """What shows the progress of a run."""
    from fedkin.reporting.progress import Display

    return Display(rounds)


_progress.provide(_display)

_METHODS = (
    "APFL Athena CFLGP Ditto FEROMA FLHC FLUX FeSEM FeSEMMig FedAvg FedDrift FedEM FedGrouProx FedGroup FedPer "
    "FedProx FedRep FedRC FedSim FedSoft FlexCFL Gossip Hierarchical IFCA IFCAMig Local Oracle PACFL PANM "
    "PANMLoss PENS PFedMe PrivateClusters SCAFFOLD SattlerCFL"
)
_HOME = {
    **dict.fromkeys(_METHODS.split(), "fedkin.methods"),
    "Adam": "fedkin.core.training",
    "AdamW": "fedkin.core.training",
    "Advice": "fedkin.analysis.advise",
    "Byzantine": "fedkin.robust.byzantine",
    "CheckpointError": "fedkin.core.errors",
    "ClientDP": "fedkin.privacy.client_dp",
    "ChecksumError": "fedkin.core.errors",
    "Clustered": "fedkin.estimator",
    "Comparison": "fedkin.analysis.compare.comparison",
    "ConfigError": "fedkin.core.errors",
    "DataError": "fedkin.core.errors",
    "EpsStudy": "fedkin.analysis.eps_study",
    "FedAdagrad": "fedkin.methods.server_optimizers",
    "FedAdam": "fedkin.methods.server_optimizers",
    "FedAvgM": "fedkin.methods.server_optimizers",
    "FedYogi": "fedkin.methods.server_optimizers",
    "FedkinError": "fedkin.core.errors",
    "Incremental": "fedkin.scenarios.shift",
    "LateReplies": "fedkin.staleness.settings",
    "Ledger": "fedkin.core.ledger",
    "LocalTraining": "fedkin.core.training",
    "Measure": "fedkin.measures.measure",
    "Method": "fedkin.core.method",
    "MethodError": "fedkin.core.errors",
    "MissingExtra": "fedkin.core.errors",
    "WorkerError": "fedkin.core.errors",
    "ModelError": "fedkin.core.errors",
    "ModelSpec": "fedkin.core.layout",
    "PersonalHead": "fedkin.methods.personal_parts",
    "PersonalModel": "fedkin.methods.personal_parts",
    "Population": "fedkin.scenarios.population",
    "Relabel": "fedkin.scenarios.drift",
    "RepeatedRuns": "fedkin.analysis.repeated_runs",
    "Requirements": "fedkin.core.requirements",
    "Rotate": "fedkin.scenarios.drift",
    "RobustAggregation": "fedkin.robust.robust",
    "Run": "fedkin.run.results",
    "SGD": "fedkin.core.training",
    "STOP": "fedkin.run.stopping",
    "Schedule": "fedkin.core.schedule",
    "ScoredClients": "fedkin.measures.measure",
    "Scores": "fedkin.tasks.evaluate",
    "SecretSums": "fedkin.privacy.secret_settings",
    "SimulatedWorld": "fedkin.simulation.engine",
    "State": "fedkin.core.method",
    "Steps": "fedkin.scenarios.steps",
    "StorageError": "fedkin.core.errors",
    "Stream": "fedkin.core.randomness",
    "SwapAll": "fedkin.scenarios.swaps",
    "SwapPart": "fedkin.scenarios.swaps",
    "TaskError": "fedkin.core.errors",
    "Tracker": "fedkin.tracking.tracker",
    "TrainingReply": "fedkin.tasks.train",
    "World": "fedkin.core.world",
    "advise": "fedkin.analysis.advise",
    "as_model": "fedkin.models",
    "compare": "fedkin.analysis.compare.runner",
    "cox_loss": "fedkin.measures.cox_loss",
    "draw": "fedkin.reporting.draw",
    "jax_client": "fedkin.server.deploy.custom_clients",
    "non_iid_index": "fedkin.analysis.non_iid_index",
    "planted": "fedkin.scenarios.planted_clusters",
    "prequential_accuracy": "fedkin.scenarios.steps",
    "repeat": "fedkin.analysis.repeat",
    "report": "fedkin.reporting.html.report",
    "simulate": "fedkin.run.simulate",
    "study_eps": "fedkin.analysis.eps_study",
    "subspace_angles": "fedkin.analysis.subspace_angles",
    "torch_client": "fedkin.server.deploy.custom_clients",
    "torch_model": "fedkin.simulation.torch",
}
_MODULES = ("data", "models")

__all__ = [  # noqa: RUF022 (plain alphabetical, as sorted() has it)
    "APFL",
    "Adam",
    "AdamW",
    "Advice",
    "Athena",
    "Byzantine",
    "CFLGP",
    "CheckpointError",
    "ChecksumError",
    "ClientDP",
    "Clustered",
    "Comparison",
    "ConfigError",
    "DataError",
    "Ditto",
    "EpsStudy",
    "FEROMA",
    "FLHC",
    "FLUX",
    "FeSEM",
    "FeSEMMig",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedDrift",
    "FedEM",
    "FedGrouProx",
    "FedGroup",
    "FedPer",
    "FedProx",
    "FedRC",
    "FedRep",
    "FedSim",
    "FedSoft",
    "FedYogi",
    "FedkinError",
    "FlexCFL",
    "Gossip",
    "Hierarchical",
    "IFCA",
    "IFCAMig",
    "Incremental",
    "LateReplies",
    "Ledger",
    "Local",
    "LocalTraining",
    "Measure",
    "Method",
    "MethodError",
    "MissingExtra",
    "ModelError",
    "ModelSpec",
    "Oracle",
    "PACFL",
    "PANM",
    "PANMLoss",
    "PENS",
    "PFedMe",
    "PersonalHead",
    "PersonalModel",
    "Population",
    "PrivateClusters",
    "Relabel",
    "RepeatedRuns",
    "Requirements",
    "RobustAggregation",
    "Rotate",
    "Run",
    "SCAFFOLD",
    "SGD",
    "STOP",
    "SattlerCFL",
    "Schedule",
    "ScoredClients",
    "Scores",
    "SecretSums",
    "SimulatedWorld",
    "State",
    "Steps",
    "StorageError",
    "Stream",
    "SwapAll",
    "SwapPart",
    "TaskError",
    "Tracker",
    "TrainingReply",
    "WorkerError",
    "World",
    "__version__",
    "advise",
    "as_model",
    "compare",
    "cox_loss",
    "data",
    "draw",
    "jax_client",
    "models",
    "non_iid_index",
    "planted",
    "prequential_accuracy",
    "repeat",
    "report",
    "simulate",
    "study_eps",
    "subspace_angles",
    "torch_client",
    "torch_model",
]


def __getattr__(name: str) -> Any:
    """A public name, from where it lives."""
    if name in _MODULES:
        return importlib.import_module(f"fedkin.{name}")
    if name not in _HOME:
        raise suggestions.no_attribute("fedkin", name, __all__)
    value = globals()[name] = suggestions.suggesting(importlib.import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return list(__all__)
