"""The result of choosing a model for each client: what serves it, and predictions with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from fedkin.analysis.serving.candidates import Candidates
from fedkin.analysis.serving.choice_texts import FILE, sentences
from fedkin.analysis.serving.mixtures import half_and_half
from fedkin.core.storage import user_path, write_atomic
from fedkin.core.strict_json import finite_or_none, json_text
from fedkin.export.forecast_inputs import in_label_units, new_rows, with_client
from fedkin.export.input_samples import exposures
from fedkin.export.predictor import probabilities
from fedkin.measures.do_no_harm import LEAST_SAMPLES, LEVEL, HeldOutGains, Service
from fedkin.task_types.forecast import Forecast
from fedkin.task_types.task_type import TaskType

if TYPE_CHECKING:
    import pandas as pd


class ServedClient(NamedTuple):
    """What serves a client.

    Attributes:
        client: position of the client.
        name: its name; its position as text if it has none.
        cluster: its cluster; -1 without one.
        served_by: its own model, or a mixture.
        gain: gain of its mixture over the own model, relative to this model's loss; of the
            better mixture for a client that keeps its own model; NaN without held-out samples.
        own_loss: the own model's loss on held-out samples.
        held_out: number of these samples, or of their units if samples have units.
        worse: whether the client's own test says that the best alternative is worse.
    """

    client: int
    name: str
    cluster: int
    served_by: str
    gain: float
    own_loss: float
    held_out: int
    worse: bool


@dataclass(frozen=True, eq=False, repr=False)
class ServedModels:
    """Which model serves each client, and predictions with it.

    Attributes:
        rule: the rule by which models were chosen.
        folds: number of parts of the training samples that were held out in turn.
        service: the choice (``fedkin.measures.do_no_harm.Service``).
        gains: the clients' gains on held-out samples.
        rows: what serves each client.
        candidates: the models, trained on all training samples.
        task_type: what the labels are.
    """

    rule: str
    folds: int
    service: Service
    gains: HeldOutGains
    rows: list[ServedClient]
    candidates: Candidates
    task_type: TaskType

    def __repr__(self) -> str:
        return self.text()

    @property
    def clients(self) -> pd.DataFrame:
        """A DataFrame with a row for each client (``ServedClient``)."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(ServedClient._fields))

    def summary(self) -> dict[str, Any]:
        """The numbers of the choice as plain JSON values."""
        service = self.service
        names = self.candidates.names
        counts = np.bincount(service.model, minlength=len(names))
        tested = int((self.gains.samples >= LEAST_SAMPLES).sum())
        return {
            "rule": self.rule,
            "folds": self.folds,
            "clients": len(service.model),
            "served_by": {name: int(n) for name, n in zip(names, counts, strict=True)},
            "gate_open": service.gate,
            "best_alternative": names[service.best],
            "gain": finite_or_none(service.gain),
            "gain_low": finite_or_none(service.low),
            "gain_high": finite_or_none(service.high),
            "vetoed": int(service.vetoed.sum()),
            "worse_by_own_test": int(service.worse.sum()),
            "expected_by_chance": LEVEL * tested,
            "own_rounds": self.candidates.own_rounds,
        }

    def text(self) -> str:
        """The choice in a few lines."""
        return "\n".join(sentences(self.summary()))

    @property
    def plain_rows(self) -> list[dict[str, Any]]:
        """What serves each client, as plain JSON values."""
        return [
            {
                **row._asdict(),
                "gain": finite_or_none(row.gain),
                "own_loss": finite_or_none(row.own_loss),
            }
            for row in self.rows
        ]

    def predict(self, x: Any, *, client: int | str, proba: bool = False) -> np.ndarray:
        """Predict with the model that serves a client.

        Args:
            x: samples, as for ``Run.predict``.
            client: the client's name or position.
            proba: whether to return the probabilities of classes instead.
        """
        clustered = self.candidates.clustered
        number = clustered.client_number(client)
        predictor = self.candidates.own.of_client(number)
        if isinstance(self.task_type, Forecast):
            table = with_client(x, predictor.samples, clustered.client_name(number))
            new = new_rows(table, predictor.samples)
            served = self._scores(number, predictor.input_of(new.table[new.complete]))
            return in_label_units(new, self.task_type, served)
        served = self._scores(number, predictor.input_of(x))
        if self.task_type.loss is not None:
            return self.task_type.predict(served, exposures(x, None, predictor.samples))
        if proba:
            return probabilities(served)
        classes = served.argmax(axis=1)
        names = predictor.label_names
        return classes if names is None else np.asarray(names)[classes]

    def _scores(self, client: int, x: Shaped[np.ndarray, "B ..."]) -> Float[np.ndarray, "B C"]:
        """The scores of the model that serves a client, for samples as the network gets them."""
        scores = self.candidates.scores(client, x)
        model = int(self.service.model[client])
        if not model:
            return scores.own
        return half_and_half(self.task_type, scores.own, scores.others[model - 1])

    def save(self, folder: str | Path) -> Path:
        """Write the summary and the table of clients into a run's folder, where its report finds
        them (``fedkin report RUN``). Returns the path of the file."""
        path = user_path(folder) / FILE
        content = {**self.summary(), "table": self.plain_rows}
        write_atomic(path, json_text(content, indent=1) + "\n")
        return path
