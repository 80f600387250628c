"""FedSim's objectives with and without clusters, and lambda (eqs. 5 to 12), measured.

The paper expects F_G <= F_O "when the weight parameters tends towards optimal values", and F_O -
F_G = lambda acts as a regularisation. It measures neither. Here they are training losses at the
initial model and at the model of FedSim's last round, over many cohorts of the row's size, each
clustered by its gradients. F_R has random clusters of the same sizes (eq. 8).

The equations do not say which weights a cluster has. Both readings are measured: all clients have
the global model, as in eq. 4, or each client has the model of its cluster after a round of training
(eq. 13; for F_O the one of FedAvg).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.aggregation import mean_by_model
from fedkin.analysis.cluster_objectives import cluster_objectives
from fedkin.core.randomness import Stream
from fedkin.measures.cluster_objectives import objectives_of_losses
from fedkin.methods.fedsim import FedSim, cluster_gradients
from fedkin.models import MODELS
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.train import train
from papers import recipe
from papers.fedsim import recipes
from papers.paper_tables import Table
from papers.recipe import Cell
from papers.reproduction_marks import (
    ComparedNumber,
    Mark,
    Results,
    average,
    digits,
    figures_of,
    mark_of_statement,
)
from papers.result_store import job_of

Labels = Int[np.ndarray, "n"]
COHORTS = 100
SEEDS = 5
MODELS_OF_RUN = ("initial", "trained")
# Weights of a cluster: key in a stored line, words in the table.
READINGS = {"global": "global model", "own": "cluster models"}
FIGURES = ("F_O", "F_G", "F_R", "lambda", "share of the cohorts with F_G <= F_O")
LAMBDA = "lambda"
SHARE = FIGURES[-1]
CELLS = [
    replace(
        cell,
        table="eq. 11",
        setting=replace(cell.setting, seeds=cell.setting.seeds[:SEEDS], seconds=30),
    )
    for cell in recipes.CELLS
    if cell.table in ("4", "7")
    and cell.setting in (recipes.MNIST, recipes.AUTHORS)
    and cell.column == "FedSim"
]


def measure(cell: Cell, seed: int) -> dict[str, Any]:
    """The objectives at the initial model and at the model of the last round."""
    s = cell.setting
    start_time = time.perf_counter()
    completed = recipe.run(cell, seed)
    data = recipe.load(s.data, s.data_options, s.draw(seed))
    model = MODELS[s.model](data, **dict(s.model_options))
    world = SimulatedWorld(data, model, s.training)
    first_state = cell.method(s.clusters).init(world, Stream(seed, 0, "method/init"))
    return {
        "table": cell.table,
        "row": s.row,
        "column": cell.column,
        "seed": seed,
        "initial": objectives(cell, world, first_state.models[0], seed),
        "trained": objectives(cell, world, completed.models[0], seed),
        "seconds": round(time.perf_counter() - start_time, 1),
    }


def objectives(
    cell: Cell, world: SimulatedWorld, model: Float[np.ndarray, "P"], seed: int
) -> dict[str, list[float]]:
    """The figures of both readings, in the order of FIGURES, mean over the cohorts.

    Args:
        cell: its setting has the size of a cohort, its method the clusters.
        world: the clients.
        model: the global model.
        seed: of the cohorts, the clusters and the training.
    """
    s = cell.setting
    method = cell.method(s.clusters)
    assert isinstance(method, FedSim)
    everyone = np.arange(world.total_clients)
    gradients = world.run(Gradients(model[None], np.zeros_like(everyone)), everyone).gradients
    losses = cluster_objectives(world, model, everyone, np.zeros_like(everyone)).clients
    rng = Stream(seed, s.rounds + 1, "cohort").rng()
    rows: dict[str, list[tuple[float, ...]]] = {reading: [] for reading in READINGS}
    for number in range(COHORTS):
        cohort = np.sort(rng.choice(everyone, s.cohort, replace=False))
        labels = cluster_gradients(gradients[cohort], method.clusters, method.variance, rng)
        dealt = rng.permutation(labels)
        at_global_model = partial(with_clusters, losses[cohort])
        rows["global"].append(compared(at_global_model, labels, dealt))
        training = Stream(seed, s.rounds + 1, f"train {number}")
        objective = of_cluster_models(world, model, cohort, training)
        rows["own"].append(compared(objective, labels, dealt))
    return {
        reading: [round(float(mean), 5) for mean in np.mean(of_cohorts, axis=0)]
        for reading, of_cohorts in rows.items()
    }


def compared(
    objective: Callable[[Labels], float], labels: Labels, dealt: Labels
) -> tuple[float, ...]:
    """The figures of one cohort.

    Args:
        objective: the mean over the clusters of the clients' mean loss, for given clusters.
        labels: clusters by similarity.
        dealt: random clusters of the same sizes.
    """
    without = objective(np.zeros_like(labels))
    clustered = objective(labels)
    regularisation = without - clustered
    return without, clustered, objective(dealt), regularisation, float(regularisation >= 0)


def with_clusters(losses: Float[np.ndarray, "n"], labels: Labels) -> float:
    """F_G of clients with given losses."""
    return objectives_of_losses(losses, labels).with_clusters


def of_cluster_models(
    world: SimulatedWorld, model: Float[np.ndarray, "P"], cohort: Labels, stream: Stream
) -> Callable[[Labels], float]:
    """F_G by clusters where each client has the model of its cluster (eq. 13).

    Args:
        world: the clients.
        model: from which all clients train.
        cohort: clients that train, once for all clusters.
        stream: of the training.
    """
    zeros = np.zeros_like(cohort)
    reply = train(world, model[None], cohort, zeros, stream=stream)

    def objective(labels: Labels) -> float:
        clusters = int(labels.max()) + 1
        update, _ = mean_by_model(reply.update, reply.examples, labels, clusters)
        losses = evaluate(world, model + update, cohort, labels, split="train").loss
        return with_clusters(losses, labels)

    return objective


def compared_numbers(results: Results) -> list[ComparedNumber]:
    """Every mean at both models; the paper's statement is of lambda at the trained one.

    Args:
        results: stored runs.
    """
    return [
        _number(results, cell, model=model, reading=reading, figure=figure)
        for cell in CELLS
        for model in MODELS_OF_RUN
        for reading in READINGS
        for figure in FIGURES
    ]


def _number(results: Results, cell: Cell, model: str, reading: str, figure: str) -> ComparedNumber:
    place = FIGURES.index(figure)
    values = tuple(found[reading][place] for found in figures_of(results, cell, model))
    mean = average(values)
    stated = model == "trained" and figure == LAMBDA
    mark = mark_of_statement(None if mean is None else mean >= 0) if stated else Mark.NO_NUMBER
    seeds = figures_of(results, cell, "seed")
    return ComparedNumber(
        row=cell.setting.row,
        column=f"{model}, {READINGS[reading]}: {figure}",
        published="F_G <= F_O" if stated else "",
        ours=digits(mean),
        difference=None,
        mark=mark,
        unit="share" if figure == SHARE else "loss",
        seeds=len(values),
        runs=values,
        draws=len({cell.setting.draw(seed) for seed in seeds}),
    )


TABLE = Table(
    name="fedsim-objectives",
    title="Equations 5 to 12: the objective with and without clusters",
    statistic=f"training losses, mean over {COHORTS} cohorts and the seeds",
    rule="lambda is not negative at the trained model (eq. 11; the paper prints no number)",
    jobs=tuple(job_of(cell, measure) for cell in CELLS),
    compare=compared_numbers,
)
