"""Use of a finished run's models: prediction, placement of a new client, fine-tuning, export."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedkin.config.description import Description
from fedkin.core.errors import ConfigError
from fedkin.core.method import State
from fedkin.core.records import Record
from fedkin.core.storage import user_path
from fedkin.run.folder.client_table import Columns

if TYPE_CHECKING:
    from fedkin.data.federated import FederatedData
    from fedkin.export.predictor import Predictor
    from fedkin.run.trained.evaluation import Evaluation
    from fedkin.run.trained.ingredients import Ingredients
    from fedkin.run.trained.models import TrainedModels
    from fedkin.run.trained.placement import Placement


class ModelAccess:
    """Base class of ``Run`` with the methods that use its models. A run in memory has its model and
    data. A loaded run rebuilds them from its configuration on first use."""

    config: Description
    records: list[Record]
    state: State
    client_columns: Columns
    memory: dict[str, np.ndarray]
    folder: Path | None
    fingerprint: str
    final: Record
    made_of: Ingredients | None

    @cached_property
    def trained(self) -> TrainedModels:
        """The trained models, together with the model, data and settings of the run.

        Raises:
            ConfigError: the run was started from Python, and loaded without ``model`` and ``data``.
            CheckpointError: the model or data differ from the run's.
        """
        return self._trained(True)

    def _trained(self, checked: bool) -> TrainedModels:
        """The trained models, together with the model, data and settings of the run. ``checked``:
        whether rebuilt data must be exactly the run's data."""
        from fedkin.data.client_names import ClientNames
        from fedkin.run.trained.models import TrainedModels
        from fedkin.run.trained.rebuild import parts_again

        parts = self.made_of or parts_again(
            self.config, self.folder, self.fingerprint if checked else ""
        )
        names = ClientNames.of(getattr(parts.samples, "client_names", None) or ())
        named = np.arange(len(names))
        # For real clients, the table of evaluated clients has the only known names.
        if not names and "name" in self.client_columns:
            order = np.argsort(self.client_columns["client"])
            named = self.client_columns["client"][order]
            names = ClientNames.of(self.client_columns["name"][order])
        return TrainedModels(
            method=self.config.method_with_options,
            parts=parts,
            state=self.state,
            memory=self.memory,
            named_clients=named,
            names=names,
            seed=self.config.seed,
            rounds=self.records[-1]["round"],
        )

    def model_for(self, client: int | str) -> Predictor:
        """The model that a client uses: its cluster's model, or its personal model (for peers and
        personal last layers). For ATHENA-FL, the detectors of its cluster.

        The returned predictor is called on samples [B ...] and returns scores [B, C]. Its
        ``layers`` are the weights by name, and ``module`` is the original model with these weights.

        Args:
            client: the client's name, or its position in the data. If names are integers, a number
                is a name.

        Raises:
            ConfigError: the client is unknown, or the model must be given (``Run.load(path,
                model=..., data=...)``).
            MethodError: the client has no cluster, its model is on its own device, or it has no
                personal last layer because it never trained.
        """
        number = self.trained.client_number(client)
        self.trained.check_trained(number)
        return self.trained.of_client(number)

    def predict(
        self,
        x: Any,
        *,
        client: int | str | None = None,
        cluster: int | None = None,
        proba: bool = False,
        exposure: Any = None,
    ) -> np.ndarray:
        """Predict the classes [B] of samples with the model of a client or a cluster. Classes are
        names if labels have names. Labels that are numbers are predicted in their unit: counts
        times the exposure, quantiles with a column for each level [B, Q]. For survival, x are rows
        of patients, and their risk scores [B] are predicted.

        Args:
            x: samples [B ...], in the format of the run's data. ``uint8`` values are divided by 255
                if the run's data were, and refused otherwise. Columns of a DataFrame are matched by
                name if the data have column names. For forecasts, a DataFrame with time, client and
                label: rows of the past, and rows to be forecast, whose label is missing.
            client: name or position of a client, as in ``model_for``.
            cluster: number of a cluster. With more than one model, ``client`` or ``cluster`` is
                required.
            proba: whether to return probabilities [B, C] instead.
            exposure: exposure of each sample [B], for counts; None for the column of exposures in a
                DataFrame, or 1.

        Raises:
            ConfigError, MethodError: as in ``model_for``; or neither or both of client and cluster
                are given.
            DataError: samples have another shape, or are not finite.
        """
        if client is not None and cluster is not None:
            raise ConfigError(f"give client ({client!r}) or cluster ({cluster!r}), not both")
        from fedkin.export.input_samples import warn_of_new_categories

        warn_of_new_categories(x, self.trained.parts.samples)
        if client is not None:
            from fedkin.export.forecast_inputs import with_client

            number = self.trained.client_number(client)
            name = self.trained.client_name(number)
            x = with_client(x, self.trained.parts.samples, name)
            return self.model_for(client).predict(x, proba, exposure)
        if cluster is None and (self.trained.personal or self.state.clusters > 1):
            raise ConfigError(
                f"this run has {len(self.state.models)} models; choose one by client=... or "
                "cluster=... (run.place(x, y) finds the cluster of a client that the run has not "
                "seen)"
            )
        return self.trained.of_cluster(cluster or 0).predict(x, proba, exposure)

    def place(self, x: Any, y: Any = None, resamples: int = 20, seed: int = 0) -> Placement:
        """Assign a client that the run has not seen to a cluster, by the method's rule for
        newcomers. The run is not changed.

        Args:
            x: the client's training samples [s ...], in the format of the run's data.
            y: their labels [s], names if the run's labels are names, otherwise numbers; None if
                unknown, for methods that read no labels (FLUX).
            resamples: number of bootstrap resamples of these samples. ``confidence`` is the share
                of resamples that are assigned to the same cluster.
            seed: seed of the resamples, and of local training if the rule trains.

        Raises:
            MethodError: the method cannot place a newcomer by its samples (peers, FeSEM's default
                rule), or needs labels.
            ConfigError, DataError: as in ``predict``.
        """
        from fedkin.export.input_samples import warn_of_new_categories
        from fedkin.run.trained.placement import place

        warn_of_new_categories(x, self.trained.parts.samples)
        return place(self.trained, x, y=y, resamples=resamples, seed=seed)

    def fine_tune(
        self,
        client: int | str | None = None,
        epochs: int = 1,
        *,
        cluster: int | None = None,
        x: Any = None,
        y: Any = None,
    ) -> Predictor:
        """The model of a client after local training on the client's training samples. The run is
        not changed.

        For a client that the run has not seen, give ``cluster``, ``x`` and ``y``: the cluster's
        model is trained on these samples.

        Args:
            client: name or position of a client, as in ``model_for``.
            epochs: E, the number of epochs with the run's settings of local training.
            cluster: cluster of a newcomer, as found by ``place``, instead of ``client``.
            x: the newcomer's samples [s ...], in the format of the run's data.
            y: their labels [s], names if the run's labels are names, otherwise numbers; None if a
                table x has them (series, patients).

        Raises:
            ConfigError, MethodError: as in ``model_for``; or the models are detectors; or neither
                or both of client and cluster are given.
            DataError: the run has real clients, whose data are on their machines; or the samples do
                not fit the run's.
        """
        is_newcomer = cluster is not None
        if (client is None) != is_newcomer or (x is not None) != is_newcomer:
            raise ConfigError(
                "fine_tune takes a client of the run, or cluster=, x= and y= for a client that "
                "the run has not seen"
            )
        if client is not None and y is not None:
            raise ConfigError("y= is for a client that the run has not seen; leave it out")
        if cluster is not None:
            return self.trained.fine_tune_newcomer(cluster, x, y, epochs)
        assert client is not None
        return self.trained.fine_tune(self.trained.client_number(client), epochs)

    def export(
        self,
        path: str | Path,
        format: str = "safetensors",
        with_backbone: bool = False,
        *,
        license: str = "",
        card_clients: str = "count",
    ) -> Path:
        """Write the models into a new folder: a file for each cluster (or for each client with a
        personal model), a card of each for readers (``README.md``), and ``card.json``, which
        describes each model and lists its clients.

        Args:
            path: the new folder.
            format: ``safetensors`` (layers by name), ``torch`` (a ``state_dict``) or ``onnx`` (the
                whole computation). For adapters of a backbone (``fk.lora``): ``peft`` (a folder for
                each model that the library peft loads) or ``merged`` (a whole model for
                transformers, whose weights have the adapters added). ``mlflow``: a model of all
                clusters for MLflow.
            with_backbone: whether a ``safetensors`` export of adapters gets a copy of the backbone.
                Otherwise, loading it needs the backbone's folder.
            license: identifier of the models' licence for the cards, such as ``apache-2.0``.
            card_clients: how cards tell which clients use a model: ``count``, ``hash`` or ``name``.

        Returns:
            The path of the model card.

        Raises:
            ModelError: a model cannot be written in this format.
            MissingExtra: the library for this format is not installed.
            ConfigError, MethodError: the format is unknown, the run has no model, or as
                ``model_for``.
            StorageError: the folder is not empty, or cannot be written.
        """
        from fedkin.export.model_card import CardOptions
        from fedkin.run.trained.exporting import export, stored_statement

        privacy = self.final.get("privacy") or stored_statement(self.folder)
        return export(
            self.trained,
            self.config,
            clients=self.client_columns,
            digest=self.fingerprint,
            path=user_path(path),
            format=format,
            with_backbone=with_backbone,
            options=CardOptions(license, card_clients, privacy),
        )

    def evaluate(
        self,
        split: str | None = None,
        fine_tune_epochs: int | None = None,
        target: float | None = None,
        data: FederatedData | None = None,
        cluster: int | None = None,
    ) -> Evaluation:
        """Evaluate every client that has a model and samples.

        The measures are accuracy, balanced accuracy, macro F1, AUROC (one-vs-rest) and expected
        calibration error. They are computed by client, by cluster and over all samples. The result
        also has the fairness across clients, and the costs of reaching a target accuracy. Its
        ``save(folder)`` writes the tables.

        Args:
            split: ``test``, ``train`` or ``validation``. None: ``test``, or all samples of external
                data.
            fine_tune_epochs: also compute the accuracy after this many epochs of local fine-tuning
                of each client's model. With a validation split, the best number of epochs up to
                this number is used.
            target: target accuracy; None: the run's ``target``.
            data: external data in place of the run's. Clients are matched by name, and so are
                features and labels if they have names.
            cluster: the cluster whose model predicts all external data. It is required for clients
                that the run has not seen.

        Raises:
            ConfigError, MethodError: as in ``fine_tune``; or the run has not seen a client of the
                external data.
            DataError: the run has real clients, whose data are on their machines; or the data do
                not have this split, or have other features or labels.
            CheckpointError: the run's data have changed since the run.
        """
        from fedkin.run.trained.evaluation import evaluate
        from fedkin.run.trained.external_evaluation import evaluate_other

        if data is not None:
            if fine_tune_epochs is not None or target is not None:
                raise ConfigError(
                    "fine_tune_epochs and target apply to the run's own data only; leave them out "
                    "with data="
                )
            return evaluate_other(self._for_other_data(), data, split, cluster)
        if cluster is not None:
            raise ConfigError(
                f"cluster = {cluster} applies to external data only; use evaluate(data=..., "
                f"cluster={cluster})"
            )
        target = self.config.target if target is None else target
        return evaluate(
            self.trained,
            self.records,
            seconds=self._seconds(),
            target=target,
            split=split or "test",
            fine_tune_epochs=fine_tune_epochs,
        )

    def _for_other_data(self) -> TrainedModels:
        """The trained models for external data. The run's data may have changed, but not the names
        of their clients."""
        from fedkin.run.trained.rebuild import check_names

        if "trained" in self.__dict__:
            return self.trained
        trained = self._trained(False)
        check_names(trained.parts, self.client_columns)
        return trained

    def _seconds(self) -> dict[int, float]:
        """Wall-clock time in seconds until the end of each round; empty for a run without a
        folder."""
        from fedkin.run.folder.run_folder import TIMINGS, read_records

        lines = read_records(self.folder, TIMINGS) if self.folder else []
        return {line["round"]: line["total"] for line in lines if "total" in line}
