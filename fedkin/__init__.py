"""fedkin: clustered federated learning. Group clients with similar data, and train one model per
cluster.

Public names load when they are first used, so that ``import fedkin`` is fast. Methods and shifts
are not listed here; their lists are ``fedkin.methods`` and ``fedkin.scenarios.shifts``.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from fedkin.core import progress as _progress
from fedkin.core import torch_adapters as _torch_adapters
from fedkin.core.suggestions import suggesting as _suggesting

if TYPE_CHECKING:
    from fedkin import data as data
    from fedkin import models as models
    from fedkin.analysis.advise import Advice as Advice
    from fedkin.analysis.advise import advise as advise
    from fedkin.analysis.cluster_objectives import cluster_objectives as cluster_objectives
    from fedkin.analysis.clusters_or_levels import ClustersOrLevels as ClustersOrLevels
    from fedkin.analysis.clusters_or_levels import clusters_or_levels as clusters_or_levels
    from fedkin.analysis.compare.comparison import Comparison as Comparison
    from fedkin.analysis.compare.runner import compare as compare
    from fedkin.analysis.eps_study import EpsStudy as EpsStudy
    from fedkin.analysis.eps_study import study_eps as study_eps
    from fedkin.analysis.ks_similarity import ks_similarity as ks_similarity
    from fedkin.analysis.level_plan import LevelPlan as LevelPlan
    from fedkin.analysis.non_iid_index import non_iid_index as non_iid_index
    from fedkin.analysis.repeat import repeat as repeat
    from fedkin.analysis.repeated_runs import RepeatedRuns as RepeatedRuns
    from fedkin.analysis.serving.serve import serve as serve
    from fedkin.analysis.subspace_angles import subspace_angles as subspace_angles
    from fedkin.config.plan import Cohort as Cohort
    from fedkin.config.plan import Compute as Compute
    from fedkin.config.plan import Scoring as Scoring
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
    from fedkin.core.ledger import Ledger as Ledger
    from fedkin.core.method import Method as Method
    from fedkin.core.method import State as State
    from fedkin.core.model_spec import ModelSpec as ModelSpec
    from fedkin.core.progress import Progress as Progress
    from fedkin.core.randomness import Stream as Stream
    from fedkin.core.requirements import AtLeast as AtLeast
    from fedkin.core.requirements import ClientReads as ClientReads
    from fedkin.core.requirements import DataNeeds as DataNeeds
    from fedkin.core.requirements import MemoryNeeds as MemoryNeeds
    from fedkin.core.requirements import ModelChanges as ModelChanges
    from fedkin.core.requirements import ModelNeeds as ModelNeeds
    from fedkin.core.requirements import ModelParts as ModelParts
    from fedkin.core.requirements import Requirements as Requirements
    from fedkin.core.requirements import RoundNeeds as RoundNeeds
    from fedkin.core.requirements import Separation as Separation
    from fedkin.core.schedule import Schedule as Schedule
    from fedkin.core.training import SGD as SGD
    from fedkin.core.training import Adam as Adam
    from fedkin.core.training import AdamW as AdamW
    from fedkin.core.training import LocalTraining as LocalTraining
    from fedkin.core.world import World as World
    from fedkin.estimator import Clustered as Clustered
    from fedkin.estimator import ClusteredRegressor as ClusteredRegressor
    from fedkin.measures.conformal import conformal_quantile as conformal_quantile
    from fedkin.measures.corrected_interval import corrected_interval as corrected_interval
    from fedkin.measures.cox_loss import cox_loss as cox_loss
    from fedkin.measures.forecasts import mase as mase
    from fedkin.measures.measure import Measure as Measure
    from fedkin.measures.measure import ScoredClients as ScoredClients
    from fedkin.methods import *  # noqa: F403
    from fedkin.models import as_model as as_model
    from fedkin.models.lora import lora as lora
    from fedkin.options.asynchronous.buffered_clusters import (
        BufferedClusters as BufferedClusters,
    )
    from fedkin.options.asynchronous.first_replies import FirstReplies as FirstReplies
    from fedkin.options.attack.byzantine import Byzantine as Byzantine
    from fedkin.options.base import Option as Option
    from fedkin.options.late.late_replies import LateReplies as LateReplies
    from fedkin.options.monitor.monitor import Monitor as Monitor
    from fedkin.options.noise.data_noise import GaussianNoise as GaussianNoise
    from fedkin.options.noise.data_noise import PairFlips as PairFlips
    from fedkin.options.noise.data_noise import SymmetricFlips as SymmetricFlips
    from fedkin.options.personal.linear import PersonalLinear as PersonalLinear
    from fedkin.options.personal.parts import FedBias as FedBias
    from fedkin.options.personal.parts import PersonalBatchNorm as PersonalBatchNorm
    from fedkin.options.personal.parts import PersonalHead as PersonalHead
    from fedkin.options.personal.parts import PersonalModel as PersonalModel
    from fedkin.options.privacy.client_dp import ClientDP as ClientDP
    from fedkin.options.quorum.minimum_replies import MinimumReplies as MinimumReplies
    from fedkin.options.robust.robust import RobustAggregation as RobustAggregation
    from fedkin.options.secret.secret_sums import SecretSums as SecretSums
    from fedkin.options.server_optimizer import FedAdagrad as FedAdagrad
    from fedkin.options.server_optimizer import FedAdam as FedAdam
    from fedkin.options.server_optimizer import FedAvgM as FedAvgM
    from fedkin.options.server_optimizer import FedYogi as FedYogi
    from fedkin.removal.forget import forget as forget
    from fedkin.removal.forgotten import Forgotten as Forgotten
    from fedkin.reporting.draw import draw as draw
    from fedkin.reporting.html.report import report as report
    from fedkin.run.run import Run as Run
    from fedkin.run.simulate import simulate as simulate
    from fedkin.run.stopping import STOP as STOP
    from fedkin.run.trained.survival import survival_curves as survival_curves
    from fedkin.scenarios.planted_clusters import planted as planted
    from fedkin.scenarios.population import Population as Population
    from fedkin.scenarios.shifts import *  # noqa: F403
    from fedkin.scenarios.steps import prequential_accuracy as prequential_accuracy
    from fedkin.server.deploy.custom_clients import jax_client as jax_client
    from fedkin.server.deploy.custom_clients import torch_client as torch_client
    from fedkin.simulation.engine import SimulatedWorld as SimulatedWorld
    from fedkin.simulation.torch import torch_model as torch_model
    from fedkin.tasks.evaluate import Scores as Scores
    from fedkin.tasks.train import TrainingReply as TrainingReply
    from fedkin.tracking.tracker import Tracker as Tracker

__version__ = "0.2.0"


def _display(rounds: int) -> Any:
    """A new progress display for a run with this number of rounds."""
    from fedkin.reporting.progress import ProgressDisplay

    return ProgressDisplay(rounds)


# ``core`` imports no other package, so it is given the display.
_progress.provide(_display)


def _torch_adapter(*arguments: Any, **options: Any) -> Any:
    """An adapter of a PyTorch module, for ``fk.lora``."""
    from fedkin.simulation.torch.adapters import torch_adapter

    return torch_adapter(*arguments, **options)


# ``models`` does not import PyTorch, so it is given the function.
_torch_adapters.provide(_torch_adapter)

# The module that defines each public name.
_HOME = {
    "Adam": "fedkin.core.training",
    "AdamW": "fedkin.core.training",
    "Advice": "fedkin.analysis.advise",
    "AtLeast": "fedkin.core.requirements",
    "BufferedClusters": "fedkin.options.asynchronous.buffered_clusters",
    "Byzantine": "fedkin.options.attack.byzantine",
    "CheckpointError": "fedkin.core.errors",
    "ClientDP": "fedkin.options.privacy.client_dp",
    "ChecksumError": "fedkin.core.errors",
    "ClientReads": "fedkin.core.requirements",
    "Clustered": "fedkin.estimator",
    "ClusteredRegressor": "fedkin.estimator",
    "Cohort": "fedkin.config.plan",
    "ClustersOrLevels": "fedkin.analysis.clusters_or_levels",
    "LevelPlan": "fedkin.analysis.level_plan",
    "clusters_or_levels": "fedkin.analysis.clusters_or_levels",
    "Comparison": "fedkin.analysis.compare.comparison",
    "Compute": "fedkin.config.plan",
    "ConfigError": "fedkin.core.errors",
    "DataError": "fedkin.core.errors",
    "DataNeeds": "fedkin.core.requirements",
    "EpsStudy": "fedkin.analysis.eps_study",
    "FedAdagrad": "fedkin.options.server_optimizer",
    "FedAdam": "fedkin.options.server_optimizer",
    "FedAvgM": "fedkin.options.server_optimizer",
    "FedYogi": "fedkin.options.server_optimizer",
    "FedBias": "fedkin.options.personal.parts",
    "FedkinError": "fedkin.core.errors",
    "FirstReplies": "fedkin.options.asynchronous.first_replies",
    "Forgotten": "fedkin.removal.forgotten",
    "GaussianNoise": "fedkin.options.noise.data_noise",
    "LateReplies": "fedkin.options.late.late_replies",
    "Monitor": "fedkin.options.monitor.monitor",
    "MinimumReplies": "fedkin.options.quorum.minimum_replies",
    "Ledger": "fedkin.core.ledger",
    "LocalTraining": "fedkin.core.training",
    "Measure": "fedkin.measures.measure",
    "MemoryNeeds": "fedkin.core.requirements",
    "Method": "fedkin.core.method",
    "MethodError": "fedkin.core.errors",
    "MissingExtra": "fedkin.core.errors",
    "ModelChanges": "fedkin.core.requirements",
    "ModelNeeds": "fedkin.core.requirements",
    "ModelParts": "fedkin.core.requirements",
    "WorkerError": "fedkin.core.errors",
    "ModelError": "fedkin.core.errors",
    "ModelSpec": "fedkin.core.model_spec",
    "Option": "fedkin.options.base",
    "PairFlips": "fedkin.options.noise.data_noise",
    "PersonalBatchNorm": "fedkin.options.personal.parts",
    "PersonalHead": "fedkin.options.personal.parts",
    "PersonalLinear": "fedkin.options.personal.linear",
    "PersonalModel": "fedkin.options.personal.parts",
    "Population": "fedkin.scenarios.population",
    "Progress": "fedkin.core.progress",
    "RepeatedRuns": "fedkin.analysis.repeated_runs",
    "Requirements": "fedkin.core.requirements",
    "RobustAggregation": "fedkin.options.robust.robust",
    "RoundNeeds": "fedkin.core.requirements",
    "Run": "fedkin.run.run",
    "SGD": "fedkin.core.training",
    "STOP": "fedkin.run.stopping",
    "Schedule": "fedkin.core.schedule",
    "ScoredClients": "fedkin.measures.measure",
    "Scores": "fedkin.tasks.evaluate",
    "Scoring": "fedkin.config.plan",
    "SecretSums": "fedkin.options.secret.secret_sums",
    "Separation": "fedkin.core.requirements",
    "SimulatedWorld": "fedkin.simulation.engine",
    "State": "fedkin.core.method",
    "StorageError": "fedkin.core.errors",
    "Stream": "fedkin.core.randomness",
    "SymmetricFlips": "fedkin.options.noise.data_noise",
    "TaskError": "fedkin.core.errors",
    "Tracker": "fedkin.tracking.tracker",
    "TrainingReply": "fedkin.tasks.train",
    "World": "fedkin.core.world",
    "advise": "fedkin.analysis.advise",
    "as_model": "fedkin.models",
    "cluster_objectives": "fedkin.analysis.cluster_objectives",
    "compare": "fedkin.analysis.compare.runner",
    "conformal_quantile": "fedkin.measures.conformal",
    "corrected_interval": "fedkin.measures.corrected_interval",
    "cox_loss": "fedkin.measures.cox_loss",
    "survival_curves": "fedkin.run.trained.survival",
    "draw": "fedkin.reporting.draw",
    "forget": "fedkin.removal.forget",
    "jax_client": "fedkin.server.deploy.custom_clients",
    "ks_similarity": "fedkin.analysis.ks_similarity",
    "lora": "fedkin.models.lora",
    "mase": "fedkin.measures.forecasts",
    "non_iid_index": "fedkin.analysis.non_iid_index",
    "planted": "fedkin.scenarios.planted_clusters",
    "prequential_accuracy": "fedkin.scenarios.steps",
    "repeat": "fedkin.analysis.repeat",
    "report": "fedkin.reporting.html.report",
    "serve": "fedkin.analysis.serving.serve",
    "simulate": "fedkin.run.simulate",
    "study_eps": "fedkin.analysis.eps_study",
    "subspace_angles": "fedkin.analysis.subspace_angles",
    "torch_client": "fedkin.server.deploy.custom_clients",
    "torch_model": "fedkin.simulation.torch",
}
_MODULES = ("data", "models")
# Modules with a list of classes, all of which are public names here, and the name of that list.
_LISTS = {"fedkin.methods": "METHODS", "fedkin.scenarios.shifts": "SHIFTS"}


def _listed(module: str) -> list[str]:
    """The names of the classes in the list ``METHODS`` or ``SHIFTS`` of a module, which is loaded
    for this."""
    entries = getattr(importlib.import_module(module), _LISTS[module])
    return [entry.__name__ for entry in entries.values()]


def _home(name: str) -> str | None:
    """The module that defines a public name; None if there is no such name."""
    if name in _HOME:
        return _HOME[name]
    # Python also looks up submodules here. Their names begin with a small letter, and the lists
    # hold only class names, so the lists (slow to load) need not be searched for them.
    if not name[:1].isupper():
        return None
    return next((module for module in _LISTS if name in _listed(module)), None)


def __getattr__(name: str) -> Any:
    """Import a public name on first use. ``__all__`` is the list of all public names."""
    if name == "__all__":
        listed = [entry for module in _LISTS for entry in _listed(module)]
        return sorted([*_HOME, *_MODULES, *listed, "__version__"])
    if name in _MODULES:
        return importlib.import_module(f"fedkin.{name}")
    home = _home(name)
    if home is None:
        # Given the name and the module, Python suggests the most similar public name in the
        # traceback.
        raise AttributeError(
            f"module 'fedkin' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    value = globals()[name] = _suggesting(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return __getattr__("__all__")
