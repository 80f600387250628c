"""The public names, exactly, and how light they are."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fedkin
from fedkin.core import errors
from fedkin.methods import METHODS
from fedkin.scenarios.shifts import SHIFTS

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = """
FedAvgM FedAdam FedYogi FedAdagrad Option PersonalBatchNorm PersonalHead PersonalModel
FedBias PersonalLinear ClustersOrLevels LevelPlan clusters_or_levels
GaussianNoise PairFlips SymmetricFlips
Byzantine
ClientDP
Cohort Compute Progress Scoring
Adam AdamW Schedule CheckpointError ChecksumError ConfigError DataError
FedkinError LateReplies Ledger LocalTraining Measure Method MethodError MissingExtra ModelError
BufferedClusters FirstReplies MinimumReplies Monitor ScoredClients
ModelSpec
Population RobustAggregation Run SGD Scores SecretSums
SimulatedWorld State StorageError Stream prequential_accuracy
TaskError Tracker TrainingReply WorkerError World __version__ as_model data
models torch_model non_iid_index planted repeat RepeatedRuns simulate EpsStudy study_eps
Advice advise Requirements subspace_angles ks_similarity cluster_objectives
AtLeast ClientReads DataNeeds MemoryNeeds ModelChanges ModelNeeds ModelParts RoundNeeds
Separation forget Forgotten
Clustered Comparison compare conformal_quantile corrected_interval cox_loss draw lora mase report
jax_client torch_client STOP ClusteredRegressor serve survival_curves
""".split()
LISTED = [kind.__name__ for kind in (*METHODS.values(), *SHIFTS.values())]
NAMES = [*WRITTEN, *LISTED]


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout.strip()


def test_the_list_is_exact_and_sorted() -> None:
    assert list(fedkin.__all__) == sorted(NAMES)
    assert len(set(NAMES)) == len(NAMES)
    assert dir(fedkin) == list(fedkin.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there(name: str) -> None:
    value = getattr(fedkin, name)
    assert getattr(value, "__name__", name).rsplit(".", 1)[-1] == name or name == "__version__"


def test_every_error_is_public() -> None:
    tree = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert tree <= set(fedkin.__all__)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'fedkin' has no attribute 'FedAvgg'"):
        _ = fedkin.FedAvgg  # type: ignore[attr-defined]


def test_the_package_takes_its_version_from_here() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "fedkin/__init__.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+", fedkin.__version__)


def test_importing_loads_nothing_heavy() -> None:
    heavy = "numpy jax pandas sklearn matplotlib pydantic scipy"
    for module in ("fedkin", "fedkin.cli"):
        assert (
            fresh(f"import sys, {module}; print([m for m in {heavy.split()} if m in sys.modules])")
            == "[]"
        )


def test_a_star_import_is_whole() -> None:
    names = fresh(
        "from fedkin import *; print(' '.join(sorted(n for n in dir() if n != '__builtins__')))"
    ).split()
    assert set(NAMES) <= set(names)
