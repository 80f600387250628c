"""A run of the benchmark: a method at a setting from a seed, and the figures that are stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from fedkin.config.plan import Plan
from fedkin.core.client_memory import ClientMemory
from fedkin.core.errors import ConfigError, FedkinError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.core.requirements import requirements_of
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.measures.worse_than_alone import LEAST_SAMPLES
from fedkin.methods.cluster_steps import cluster_by_loss
from fedkin.options.base import RunFacts
from fedkin.options.with_options import ActiveOptions, WithOptions, by_section, refusal
from fedkin.run import loop
from fedkin.run.metrics.accuracy import score
from fedkin.scenarios.population import Population
from fedkin.scenarios.steps import prequential_accuracy
from fedkin.simulation.engine import SimulatedWorld
from fedkin.task_types.task_type import TaskType
from fedkin.tasks.apfl import SHARE
from fedkin.tasks.evaluate import Scores, evaluate
from fedkin.tasks.train import train
from papers.benchmark.contenders import STEPS, Candidate, Contender
from papers.benchmark.federations import Setting
from papers.result_store import Line

BATCH = 10
GAINS = ("r2_score", "d2_score")  # measures against the constant that is best for all
LEAST_GAIN = -1.0
DIVERGED = 1e30  # the loss of a model that has diverged


def measure(setting: Setting, contender: Contender, trial: int, seed: int, validated: bool) -> Line:
    """Run a candidate; a method that refuses the setting says so under ``refused``.

    Args:
        setting, contender: the cell.
        trial: number of a candidate of the grid.
        seed: of data and run.
        validated: whether validation samples score, as in a trial.
    """
    candidate = contender.grid(setting)[trial]
    if contender.tuned and setting.every:
        return {
            "refused": (
                "models are tuned after the last round, and a stream is scored in all its steps"
            )
        }
    try:
        return _figures(
            setting=setting,
            contender=contender,
            candidate=candidate,
            seed=seed,
            validated=validated,
        )
    except FedkinError as error:
        return {"refused": str(error)}


class Simulated(NamedTuple):
    """A candidate's run: its data, its clients, its method with options, and the outcome."""

    data: FederatedData
    world: SimulatedWorld
    method: WithOptions
    outcome: loop.RunState


def simulated(
    setting: Setting, contender: Contender, candidate: Candidate, seed: int, validated: bool
) -> Simulated:
    """Run a candidate. Raises ConfigError with the reason if an option refuses the setting.

    Args:
        setting, contender, candidate: the cell, and a point of its grid.
        seed: of data and run.
        validated: whether the data have validation samples.
    """
    data = setting.data(seed, validated)
    work = LocalTraining(
        steps=STEPS // contender.passes(setting), batch_size=BATCH, lr=candidate.rate
    )
    later = Population(arrivals={setting.rounds + 1: setting.newcomers})
    world = SimulatedWorld(data, setting.model(data), work, population=later, shift=setting.shift)
    cohort = data.clients - setting.newcomers
    plan = Plan(
        setting.rounds, cohort, seed, evaluate_every=setting.every, checkpoint_every=setting.rounds
    )
    facts = RunFacts(
        method=candidate.method,
        plan=plan,
        spec=world.spec,
        clients=data.clients,
        options=by_section(candidate.options),
    )
    if refused := refusal(facts):
        _, why = refused
        raise ConfigError(why)
    options = ActiveOptions.of(facts)
    outcome = loop.run(world, candidate.method, plan, options=options)
    return Simulated(data, world, WithOptions(candidate.method, options), outcome)


def _figures(
    setting: Setting, contender: Contender, candidate: Candidate, seed: int, validated: bool
) -> Line:
    data, world, method, outcome = simulated(
        setting, contender, candidate=candidate, seed=seed, validated=validated
    )
    assert outcome.scored is not None  # the last round always is
    split = data.scored_split
    scores = outcome.scored.scores
    clients = outcome.scored.clients
    last = outcome.records[-1]
    if contender.tuned:
        scores = _tuned(
            world=world,
            state=outcome.state,
            clients=clients,
            split=split,
            stream=Stream(seed, setting.rounds, "benchmark/tuning"),
        )
    elif split == "validation":
        # The loop's final scores are of test samples.
        scores = score(world, outcome.state, setting.rounds, split=split).scores
    accuracy = _accuracy(data.task_type, scores.sums.sum(axis=0), scores.examples.sum())
    if setting.every:
        accuracy = prequential_accuracy(outcome.records, setting.every)
    line = {
        "accuracy": float(accuracy),
        **_of_clients(data.task_type, scores),
        "bytes_down": last["bytes_down"],
        "bytes_up": last["bytes_up"],
        "ari": last["ari"],
        "seconds": round(outcome.seconds, 3),
        **_kept(outcome, data.clients, world.spec.parameters),
    }
    if not validated:
        line["client_losses"] = _client_losses(data.task_type, scores, clients, data.clients)
        line["newcomers"] = _newcomers(
            world=world, method=method, state=outcome.state, setting=setting, seed=seed
        )
    return line


def _accuracy(
    task_type: TaskType, sums: Float[np.ndarray, "... S"], examples: Any
) -> Float[np.ndarray, "..."]:
    """The accuracy; of labels that are numbers, the share of the constant's loss that the models
    save (``GAINS``). It is at least ``LEAST_GAIN``, the value for models that have diverged.

    Args:
        task_type: what the labels are.
        sums: sums over the samples, as the task type names them.
        examples: number of samples.
    """
    values = task_type.values(task_type.named(sums), examples)
    gains = [name for name in GAINS if name in values]
    if not gains:
        return values[task_type.measures[0]]
    return np.nan_to_num(np.maximum(values[gains[0]], LEAST_GAIN), nan=LEAST_GAIN)


def _of_clients(task_type: TaskType, scores: Scores) -> Line:
    """The mean over clients, and the client at the lowest tenth."""
    scored = scores.examples > 0
    accuracies = np.sort(_accuracy(task_type, scores.sums[scored], scores.examples[scored]))
    return {
        "client_mean": float(accuracies.mean()),
        "bottom_decile": float(accuracies[len(accuracies) // 10]),
    }


def _client_losses(
    task_type: TaskType, scores: Scores, clients: Int[np.ndarray, "n"], all_clients: int
) -> list[float | None]:
    """The mean test loss of each client to four digits, for ``worse_than_alone``: the training loss
    of classes and survival times, and of numbers the error by which runs are scored. It is
    ``DIVERGED`` if it is not finite, and None for a client with too few samples to count.

    Args:
        task_type: what the labels are.
        scores: scores of the evaluated clients.
        clients: these clients.
        all_clients: number of all clients.
    """
    total_loss = task_type.score_loss_sums(scores.sums, scores.loss, scores.examples)
    values = total_loss / np.maximum(scores.examples, 1)
    values = np.nan_to_num(values, nan=DIVERGED, posinf=DIVERGED)
    losses: list[float | None] = [None] * all_clients
    for client, samples, loss in zip(clients, scores.examples, values, strict=True):
        if samples >= LEAST_SAMPLES:
            losses[int(client)] = float(f"{min(loss, DIVERGED):.4g}")
    return losses


def _kept(outcome: loop.RunState, clients: int, parameters: int) -> Line:
    """The memory after the last round, in bytes: of the server's state, of the client that stores
    most, and of one model, for comparison. With APFL also the mean over clients of
    the personal model's share in the mix."""
    memory = ClientMemory(clients)
    everybody = np.arange(clients)
    memory.restore(outcome.memory)
    arrays = [array for name, array in vars(outcome.state).items() if name != "extras"]
    arrays += [array for of_option in outcome.state.extras.values() for array in of_option.values()]
    server = sum(np.asarray(array).nbytes for array in arrays)
    line: Line = {
        "server_memory": server,
        "client_memory": int(memory.bytes().max()),
        "model_bytes": 4 * parameters,
    }
    shares = memory.read(SHARE, everybody, np.zeros(clients))[memory.has(SHARE, everybody)]
    if len(shares):
        line["own_share"] = float(shares.mean())
    return line


def _tuned(
    world: SimulatedWorld, state: Any, clients: Int[np.ndarray, "n"], split: str, stream: Stream
) -> Scores:
    """The scores of each client's model after its client trained it for one more round."""
    served = state.models_for(clients)
    reply = train(world, served.models, clients, served.model_index, work=world.work, stream=stream)
    tuned = served.models[served.model_index] + reply.update
    return evaluate(world, tuned, clients, np.arange(len(clients)), split=split)


def _newcomers(
    world: SimulatedWorld, method: WithOptions, state: Any, setting: Setting, seed: int
) -> float | None:
    """The accuracy of clients that took no part, each placed by the method's rule, or on the model
    of lowest loss; None where peers would have to train first."""
    if requirements_of(method.method).peers:
        return None
    stream = Stream(seed, setting.rounds + 1, "scenario")
    world.begin(stream)
    other = world.rehearsal()
    total = world.total_clients
    new = np.arange(total - setting.newcomers, total)
    without = new[state.assignment[new] == UNASSIGNED]
    if len(without):
        state = method.place(other, state, without, stream.child("place"))
        left = new[state.assignment[new] == UNASSIGNED]
        if len(left):
            assignment = state.assignment.copy()
            assignment[left] = cluster_by_loss(other, state, left)
            state = replace(state, assignment=assignment)
    placed = score(other, state, setting.rounds + 1)
    placed_rows = np.isin(placed.clients, new)
    sums = placed.scores.sums[placed_rows].sum(axis=0)
    examples = placed.scores.examples[placed_rows].sum()
    return float(_accuracy(world.data.task_type, sums, examples))
