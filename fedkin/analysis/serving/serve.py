"""``fk.serve``: choose the model that serves each client, so that few are worse off than alone.

The run's training is repeated without each part (fold) of every client's training samples: its
method with its clusters, FedAvg, and models that clients train alone. On the held-out samples, each
client measures the gain of half-and-half mixtures over its own model. Two numbers for each mixture
leave the client: mean and variance. ``fedkin.measures.do_no_harm`` has the rule.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from fedkin.analysis.serving.candidates import Candidates, Repetition
from fedkin.analysis.serving.held_out import held_out_parts, number_of_parts
from fedkin.analysis.serving.mixtures import check_task_type, half_and_half, largest_loss
from fedkin.analysis.serving.served_models import ServedClient, ServedModels
from fedkin.config.schema import check_integer
from fedkin.core.validation import check_choice
from fedkin.data.federated import FederatedData
from fedkin.measures.do_no_harm import HeldOutGains, Service, choose_models, held_out_gains
from fedkin.run.run import Run
from fedkin.task_types.task_type import TaskType

RULES = ("do_no_harm",)
FOLDS = 10

_log = logging.getLogger("fedkin")


def serve(
    run: Run,
    rule: str = "do_no_harm",
    folds: int = FOLDS,
    own_rounds: int | None = None,
    progress: Callable[[str], None] = _log.info,
) -> ServedModels:
    """Choose the model that serves each client of a simulated run, so that few clients are worse
    off than with a model that they train alone.

    A client is served by its own model, or by a half-and-half mixture of this model with its
    cluster's or with a global one. The rule is ours: ``fedkin.measures.do_no_harm``.

    Args:
        run: a finished run, with its data.
        rule: ``do_no_harm``: half-and-half mixtures behind a gate and a veto.
        folds: number of parts of each client's training samples that are held out in turn. The
            training is repeated so many times, and once more with all samples. Of forecasts, one
            part is held out: the validation samples, which are the last ones of each client's past.
            With units, such as patients with several visits, a unit is held out as a whole.
        own_rounds: largest number of rounds in which clients train alone; None for the run's. The
            best number on held-out samples is taken.
        progress: called with a line about each fold.

    Raises:
        ConfigError: the run has an option that cannot be repeated, such as privacy, its labels are
            survival times, or they are forecasts without validation samples.
        DataError: no client has two training samples, or the run's clients are real sites.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=2, cohort=6)
        >>> served = fk.serve(run, folds=2)
        >>> sum(served.summary()["served_by"].values())
        6
    """
    check_choice("rule", rule, RULES)
    check_integer("folds", folds, 2)
    if own_rounds is not None:
        check_integer("own_rounds", own_rounds, 1)
    repetition = Repetition(run, own_rounds)
    data = repetition.data
    task_type = data.task_type
    check_task_type(task_type)
    parts = number_of_parts(data, folds)
    measured = _HeldOut(data, task_type)
    rounds = []
    for number, part in enumerate(held_out_parts(data, parts, run.config.seed)):
        progress(f"fold {number + 1} of {parts}: {run.config.method_name}, fedavg, local")
        candidates = repetition.train(part.reduced)
        rounds.append(candidates.own_rounds)
        for client in np.flatnonzero(part.rows.sizes):
            measured.add(candidates, int(client), part.rows[int(client)])
    gains = measured.gains()
    final = repetition.train(data, own_rounds=max(1, round(float(np.mean(rounds)))))
    service = choose_models(gains)
    return ServedModels(
        rule=rule,
        folds=parts,
        service=service,
        gains=gains,
        rows=_rows(gains, service, final),
        candidates=final,
        task_type=task_type,
    )


class _HeldOut:
    """Losses of held-out samples under the own model and its mixtures."""

    def __init__(self, data: FederatedData, task_type: TaskType) -> None:
        self._data = data
        self._task_type = task_type
        self._clients: list[np.ndarray] = []
        self._units: list[np.ndarray] = []
        self._own: list[np.ndarray] = []
        self._others: list[np.ndarray] = []

    def add(self, candidates: Candidates, client: int, rows: np.ndarray) -> None:
        """Measure some held-out samples of a client."""
        y = self._data.y[rows]
        scores = candidates.scores(client, self._data.x[rows])
        mixtures = [half_and_half(self._task_type, scores.own, other) for other in scores.others]
        self._clients.append(np.full(len(rows), client))
        if self._data.unit is not None:
            self._units.append(self._data.unit[rows])
        self._own.append(self._task_type.score_losses(scores.own, y))
        self._others.append(np.stack([self._task_type.score_losses(m, y) for m in mixtures]))

    def gains(self) -> HeldOutGains:
        """The gains of all clients."""
        return held_out_gains(
            np.concatenate(self._own),
            np.concatenate(self._others, axis=1),
            np.concatenate(self._clients),
            clients=self._data.clients,
            cap=largest_loss(self._task_type),
            unit=np.concatenate(self._units) if self._units else None,
        )


def _rows(gains: HeldOutGains, service: Service, final: Candidates) -> list[ServedClient]:
    """What serves each client."""
    model = service.model
    clients = len(model)
    # The gain of the client's own mixture; of the better one for a client that keeps its own model.
    best = np.nan_to_num(gains.mean, nan=-np.inf).argmax(axis=1)
    chosen = np.where(model > 0, model - 1, best)
    gain = gains.mean[np.arange(clients), chosen]
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = gain / gains.own_loss
    return [
        ServedClient(
            client=client,
            name=final.clustered.client_name(client),
            cluster=int(final.clustered.state.assignment[client]),
            served_by=final.names[int(model[client])],
            gain=float(relative[client]),
            own_loss=float(gains.own_loss[client]),
            held_out=int(gains.samples[client]),
            worse=bool(service.worse[client]),
        )
        for client in range(clients)
    ]
