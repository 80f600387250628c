"""The code of an MLflow model of all clusters. MLflow runs this file when it loads the model.

Nothing is unpickled: the weights are in the export next to it. This file is not to be imported.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext

from fedkin.core.errors import ConfigError
from fedkin.export import load
from fedkin.service.models import LoadedModels

_NO_CLUSTER = -1  # the default of the parameter ``cluster``


class FedkinModel(PythonModel):
    """The models of an export, one of which is chosen by ``params``."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load the models."""
        self._served = LoadedModels(load(context.artifacts["export"]))

    def predict(
        self,
        context: PythonModelContext,
        model_input: pd.DataFrame,  # or an array: MLflow warns of a wider annotation
        params: dict[str, Any] | None = None,
    ) -> pd.DataFrame:
        """Predict rows with the model of a client or a cluster.

        Args:
            context: the model's folder, and its configuration.
            model_input: the rows, as an array or a DataFrame.
            params: ``client``, a client's name, or ``cluster``, a number. Without both, those of
                the model's configuration (``model_config``).

        Returns:
            A DataFrame with the column ``prediction``, and ``probability_LABEL`` for each class.
        """
        given = _set(params or {}) or _set(dict(context.model_config or {}))
        client = given.get("client")
        cluster = given.get("cluster")
        if client is None and cluster is None and len(self._served.models) > 1:
            raise ConfigError(
                'name a client or a cluster: params={"client": NAME} or params={"cluster": K}'
            )
        name = self._served.name_of(
            None if client is None else str(client), None if cluster is None else int(cluster)
        )
        found = self._served.predict(name, _rows(model_input))
        table = pd.DataFrame({"prediction": found.predictions})
        if found.probabilities is not None:
            card = self._served.export.card
            labels = card["labels"] or list(range(card["classes"]))
            for number, label in enumerate(labels):
                table[f"probability_{label}"] = [row[number] for row in found.probabilities]
        return table


def _rows(model_input: Any) -> Any:
    """The rows as a model takes them. Columns that only have numbers as names are an array."""
    if isinstance(model_input, pd.DataFrame) and list(model_input.columns) == list(
        range(model_input.shape[1])
    ):
        return model_input.to_numpy()
    return model_input


def _set(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters that were given, without those that have their default."""
    return {
        name: value
        for name, value in params.items()
        if name in ("client", "cluster") and value not in (None, "", _NO_CLUSTER)
    }


set_model(FedkinModel())
