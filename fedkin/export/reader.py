"""Reads an export, and predicts with its models.

Shapes: B samples, C classes, P parameters.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from fedkin.config import registry
from fedkin.config.server import DataDescription
from fedkin.core.errors import ConfigError, ModelError, unknown
from fedkin.core.model_spec import BackboneFeatures, Samples
from fedkin.core.storage import user_path
from fedkin.data.patient_columns import has_patients
from fedkin.data.table_transform import TableTransform, transform_of
from fedkin.export.backbones import entry_with_backbone
from fedkin.export.folder import CARD, FROM_UINT8, read_card
from fedkin.export.formats import library
from fedkin.export.input_samples import as_samples, raw_samples
from fedkin.export.predictor import Classifier, Predictor
from fedkin.simulation.torch import wrap_module
from fedkin.simulation.workers import AnyModel, check_samples
from fedkin.task_types.catalogue import task_type_from
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.task_type import TaskType

# The end of messages about a client that the run did not have.
NEWCOMER = (
    "for a new client, find its cluster with fedkin place RUN TABLE (in Python "
    "fk.Run.load(RUN).place(x, y)), and predict with --cluster"
)


@dataclass(frozen=True, eq=False)
class OnnxModel(Classifier):
    """A model that ONNX Runtime executes.

    Attributes:
        name: name of the model.
        session: session of ONNX Runtime.
        samples: a sample, which defines the shape and type of all samples.
        label_names: names of the classes, if labels have names.
        detects: whether the model has a detector for each class.
    """

    name: str
    session: Any
    samples: Samples
    label_names: Any = None
    detects: bool = False

    def input_of(self, x: Any) -> Shaped[np.ndarray, "B ..."]:
        """Raw samples, because an ONNX file scales columns itself; it does not scale risk sets."""
        if has_patients(self.samples):
            return as_samples(x, self.samples)
        return raw_samples(x, self.samples)

    def _scores(self, x: Shaped[np.ndarray, "B ..."]) -> Float[np.ndarray, "B C"]:
        """Scores that ONNX Runtime computes. An ONNX file takes int64, float32, or float64 if it
        scales the columns of a table."""
        dtype = x.dtype if transform_of(self.samples) else np.float32
        if x.dtype.kind != "f":
            dtype = np.int64
        input_name = self.session.get_inputs()[0].name
        outputs = self.session.run(None, {input_name: x.astype(dtype)})
        return outputs[0]


@dataclass(frozen=True)
class ExportedSamples(DataDescription):
    """The samples of a run, as an export describes them."""

    columns: dict[str, str] | None = None  # names of a table's columns by their roles
    features_of: BackboneFeatures | None = None  # the backbone that computed the samples


@dataclass(frozen=True, eq=False)
class Export:
    """An export: its card, and its models, which are loaded on demand.

    Attributes:
        folder: folder of the export.
        card: contents of ``card.json``.
        given: the user's model, needed if neither fedkin nor the exported file contains its code.
        backbone: folder of the backbone of adapters; None: the copy in the export.
        threads: threads of ONNX Runtime for one prediction; None: its own choice.
    """

    folder: Path
    card: dict[str, Any]
    given: Any = None
    backbone: str | Path | None = None
    threads: int | None = None

    @cached_property
    def samples(self) -> ExportedSamples:
        """A sample of zeros, which defines the shape and type of all samples."""
        shape = self.card["input"]["shape"]
        transform = _transform(self.folder, self.card["input"].get("transform"))
        # A network always takes float32 or integers; raw columns are scaled before.
        dtype = "float32" if transform else self.card["input"]["dtype"]
        words = self.card.get("words")
        vocabulary = None if words is None else tuple(map(str, range(words)))
        features = self.card["input"].get("features")
        computed = self.card["input"].get("features_of")
        return ExportedSamples(
            name=str(self.card.get("data")),
            x=np.zeros((1, *shape), dtype),
            classes=self.card["classes"],
            vocabulary=vocabulary,
            feature_names=None if features is None else tuple(features),
            from_uint8=self.card["input"].get("scaling") == FROM_UINT8,
            transform=transform,
            task_type=_task_type(self.folder, self.card.get("task_type")),
            columns=self.card.get("columns"),
            features_of=None if computed is None else BackboneFeatures(**computed),
        )

    @property
    def clients(self) -> dict[str, dict[str, Any]]:
        """For each client, by name, the entry of ``card.json`` about the client's model."""
        return {client: entry for entry in self.card["models"] for client in entry["clients"]}

    def model(
        self,
        name: str | None = None,
        *,
        client: str | int | None = None,
        cluster: int | None = None,
    ) -> Classifier:
        """Load a model by its name, by a client or by a cluster. An export with one model needs no
        argument.

        Args:
            name: name of the model in ``card.json``.
            client: name of a client, as text (7 is "7"). For a client without a name, its position
                in the run's data.
            cluster: number of a cluster.

        Raises:
            ConfigError: the model does not exist; more than one argument is given, or none for an
                export with several models; or a file has changed since the export.
            ModelError, MissingExtra: the network or a library is not available.
        """
        entry = self._entry(name, client, cluster)
        path = self.folder / entry["file"]
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"{path}: cannot be read: {error.strerror}; export the run again"
            ) from error
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise ConfigError(
                f"{path}: the file has changed since the export; export the run again"
            )
        labels = self.card["labels"]
        if self.card["format"] == "onnx":
            runtime = library("onnxruntime", "an ONNX export", "onnx")
            options = runtime.SessionOptions()
            if self.threads is not None:
                options.intra_op_num_threads = self.threads
            session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            return OnnxModel(
                name=entry["name"],
                session=session,
                samples=self.samples,
                label_names=labels,
                detects="detected" in entry,
            )
        detected = entry.get("detected")
        prefixes = [""] if detected is None else [f"detectors.{c}." for c in detected]
        arrays = _arrays(content, self.card["format"])
        vectors = np.stack([_vector(self._network, arrays, prefix) for prefix in prefixes])
        positive = None if detected is None else np.array(detected)
        return Predictor(
            name=entry["name"],
            model=self._network,
            vectors=vectors,
            samples=self.samples,
            label_names=labels,
            positive=positive,
            cluster=entry["cluster"],
        )

    def _entry(
        self, name: str | None, client: str | int | None, cluster: int | None
    ) -> dict[str, Any]:
        """The entry of ``card.json`` about the model that the arguments of ``model`` select."""
        entries = self.card["models"]
        by_name = {entry["name"]: entry for entry in entries}
        if sum(choice is not None for choice in (name, client, cluster)) > 1:
            raise ConfigError("give only one of client, cluster and model")
        if name is not None:
            if name not in by_name:
                raise ConfigError(f"{self.folder}: {unknown('model', name, by_name)}")
            return by_name[name]
        if client is not None:
            if str(client) not in self.clients:
                raise ConfigError(
                    f"{self.folder}: {unknown('client', str(client), self.clients)}; {NEWCOMER}"
                )
            return self.clients[str(client)]
        if cluster is not None:
            return self._of_cluster(cluster)
        if len(entries) > 1:
            raise ConfigError(
                f"{self.folder} has {len(entries)} models; choose one by client=... or cluster=..."
            )
        return entries[0]

    def _of_cluster(self, cluster: int) -> dict[str, Any]:
        """The entry of ``card.json`` about a cluster's model. Raises ConfigError if the cluster has
        no model; the message lists the clusters that have one."""
        shared = {
            entry["cluster"]: entry
            for entry in self.card["models"]
            if entry["name"] == f"cluster-{cluster}"
        }
        if cluster in shared:
            return shared[cluster]
        clusters = [
            str(entry["cluster"])
            for entry in self.card["models"]
            if entry["name"].startswith("cluster-")
        ]
        exported = "its clients have personal models"
        if clusters:
            exported = f"it has the models of cluster {', '.join(clusters)}"
        raise ConfigError(f"{self.folder} has no model of cluster {cluster}; {exported}")

    @cached_property
    def _network(self) -> AnyModel:
        """The network, without weights: the user's model if given, otherwise the one that
        ``card.json`` names."""
        model = self.given
        entry = self.card["model"]
        if model is None and entry is None:
            raise ModelError(
                f"{self.folder}: the network is a user's model, and format {self.card['format']!r} "
                "has only the weights; pass the model, load(folder, model=...), or export as "
                "'onnx', which has the whole computation"
            )
        if model is None and "backbone" in self.card:
            entry = entry_with_backbone(self.card, self.folder, self.backbone)
        if model is None:
            model = registry.make(registry.models(), entry, self.samples)
        model = wrap_module(model)
        check_samples(model, self.samples)
        return model


def load(folder: str | Path, model: Any = None, *, backbone: str | Path | None = None) -> Export:
    """Read an export.

    Args:
        folder: the folder of the export, with ``card.json``.
        model: the user's model, if the run trained one and the format is not ``onnx``.
        backbone: folder of the backbone of adapters, if the export has no copy of it. Another
            backbone than the run's is refused when a model is loaded.

    Raises:
        ConfigError: the folder holds no export, or a damaged one.
    """
    path = user_path(folder)
    return Export(path, read_card(path), model, None if backbone is None else user_path(backbone))


def _transform(folder: Path, values: dict[str, Any] | None) -> TableTransform | None:
    """How the models' columns are scaled, from the card of an export. Raises ConfigError if the
    entry is damaged."""
    if values is None:
        return None
    try:
        return TableTransform.of_values(values)
    except ValueError as error:
        raise ConfigError(
            f"{folder / CARD}: the entry input.transform is damaged ({error}); export the run again"
        ) from error


def _task_type(folder: Path, values: dict[str, Any] | None) -> TaskType:
    """What the labels of the models are, from the card of an export: classes without an entry.
    Raises DataError if the entry is damaged."""
    return CLASSIFICATION if values is None else task_type_from(values, folder / CARD)


def _arrays(content: bytes, format: str) -> dict[str, np.ndarray]:
    """Read the arrays of a model file, by name."""
    if format == "safetensors":
        from safetensors.numpy import load as decode

        return decode(content)
    import io

    torch = library("torch", "a 'torch' export", "torch")
    state = torch.load(io.BytesIO(content), weights_only=True)
    return {name: entry.numpy() for name, entry in state.items()}


def _vector(model: AnyModel, arrays: dict[str, np.ndarray], prefix: str) -> Float[np.ndarray, "P"]:
    """The flat parameter vector from the arrays whose names begin with a prefix. Arrays that are
    not parameters, such as counters of batches, are ignored."""
    names = [prefix + name for name in model.spec.slices]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ModelError(
            f"model {model.name!r} has a layer {missing[0]!r}, but the export does not; pass the "
            "model with which the run was trained: load(folder, model=...)"
        )
    vector = np.concatenate([arrays[name].ravel() for name in names]).astype(np.float32)
    if len(vector) != model.spec.parameters:
        raise ModelError(
            f"model {model.name!r} has {model.spec.parameters} parameters, but the export has "
            f"{len(vector)}; pass the model with which the run was trained: load(folder, model=...)"
        )
    return vector
