"""The record of a removal: replayed rounds and clusters, their cost, and the clients that get
another model."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.method import UNASSIGNED, State
from fedkin.removal.plan import ReplayPlan
from fedkin.removal.replay import ReplayedMethod
from fedkin.removal.taint import NEVER
from fedkin.run.run import Run

FORM = 1  # version of the record
WHAT = "removes the site's contribution by retraining the affected models without it"
LIMITS = (
    "Models that were handed out before are not recalled.",
    "Who has models from before and after can compute their difference, which reveals the site's "
    "contribution: do not publish both.",
    "What other sites have learned from past models is not undone.",
    "Parameters cannot prove that a site had no influence: only the procedure can be audited, by "
    "repeating it from this folder's config.toml.",
    "Statistics of all sites' samples that were computed before training, such as means and scales "
    "of columns, are those of the recorded run.",
)


@dataclass(frozen=True)
class Forgotten:
    """A run without some clients, and the record of how it was made.

    Attributes:
        run: the new run.
        record: the content of ``forgotten.json``: replayed rounds and clusters, the checkpoint
            before them, the cost, digests of the models before and after, and the clients that get
            another model.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.IFCA(clusters=2), data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> done = fk.forget(run, clients=[3])
        >>> done.record["rounds_replayed"], 3 in done.run.clients["client"].tolist()
        (1, False)
    """

    run: Run
    record: dict[str, Any]


def record_of(
    before: Run,
    after: Run,
    plan: ReplayPlan,
    method: ReplayedMethod,
    names: Sequence[str],
    environment: str = "",
) -> dict[str, Any]:
    """The content of forgotten.json.

    Args:
        before: the recorded run.
        after: the run without the clients.
        plan: the plan by which it was made.
        method: the method as it was replayed, with its cost and the clusters that it trained.
        names: names of the removed clients.
        environment: differences between the environment of the recorded run and this one that may
            change last bits; empty if there are none.
    """
    trained = np.flatnonzero(method.starts < plan.rounds)
    return {
        "form": FORM,
        "what": WHAT,
        "clients": [
            {"client": client, "name": name}
            for client, name in zip(plan.clients, names, strict=True)
        ],
        "method": before.config.method_with_options,
        "recorded_run": before.fingerprint,
        "this_run": after.fingerprint,
        "from_checkpoint_of_round": plan.start,
        "rounds": plan.rounds,
        "rounds_replayed": plan.rounds - plan.start,
        "first_tainted_round": [None if one == NEVER else int(one) for one in plan.first],
        "clusters_replayed": list(range(len(after.models))) if plan.why_all else trained.tolist(),
        # The number of each recorded cluster in this run: a clustering without the site may number
        # the same clusters in another order.
        "numbers_of_recorded_clusters": method.numbers.tolist(),
        "why_all_clusters": plan.why_all,
        "planned": cost(plan, plan.client_rounds),
        "measured": {
            **cost(plan, method.cost.client_rounds),
            "trainings_at_start_or_placement": method.cost.start_trainings,
        },
        "equal_bits": not environment,
        "environment_changes": environment,
        "models_before": digests(before.models),
        "models_after": digests(after.models),
        "clients_with_another_model": other_models(before.state, after.state, plan).tolist(),
        "limits": list(LIMITS),
    }


def cost(plan: ReplayPlan, client_rounds: int) -> dict[str, Any]:
    """The entries of a record about a cost: client-rounds, those of a whole run, and the share."""
    return {
        "client_rounds": client_rounds,
        "of": plan.of,
        "share": round(client_rounds / plan.of, 6) if plan.of else None,
    }


def digests(models: np.ndarray) -> list[str]:
    """SHA-256 of the bytes of each model."""
    return [hashlib.sha256(np.ascontiguousarray(model).tobytes()).hexdigest() for model in models]


def other_models(before: State, after: State, plan: ReplayPlan) -> Int[np.ndarray, "c"]:
    """The clients, without the removed ones, whose models have other bits than before.

    Args:
        before, after: the states at the end of the recorded run and of the replay.
        plan: the plan, with the removed clients.
    """
    everyone = np.arange(len(before.assignment))
    others = np.setdiff1d(everyone, plan.clients)
    has = (before.assignment[others] != UNASSIGNED) | (after.assignment[others] != UNASSIGNED)
    return others[
        has & np.array([_differs(before, after, client) for client in others.tolist()], bool)
    ]


def _differs(before: State, after: State, client: int) -> bool:
    """Whether a client's models differ in any bit, or it has a model in only one of two states."""
    placed = [state.assignment[client] != UNASSIGNED for state in (before, after)]
    if not all(placed):
        return any(placed)
    old, new = (_models(state, client) for state in (before, after))
    return old.shape != new.shape or not np.array_equal(old, new)


def _models(state: State, client: int) -> np.ndarray:
    """The models that a client uses: one, or several detectors."""
    assigned = state.models_for(np.array([client]))
    used = np.atleast_1d(assigned.model_index.ravel())
    return assigned.models[used[used >= 0]]
