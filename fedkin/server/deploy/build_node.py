"""Makes a node from its configuration, or from a model and data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from fedkin import __version__
from fedkin.config import registry
from fedkin.config.schema import Values, error_context
from fedkin.config.series_keys import SERIES_KEYS
from fedkin.config.server import ClientConfig, load_client
from fedkin.config.server_settings import DisclosureSettings, SiteSettings
from fedkin.core.columns import CommonScaling
from fedkin.core.errors import ConfigError, DataError
from fedkin.core.model_spec import BackboneFeatures, ModelSpec
from fedkin.core.object_repr import listed
from fedkin.data.federated import FederatedData
from fedkin.data.files import is_table_file
from fedkin.data.label_statistics import with_given_constant
from fedkin.data.label_tasks import LABEL_KEYS, RAW, with_label_statistics
from fedkin.data.patient_columns import column_count
from fedkin.data.table_scaling import with_transform
from fedkin.data.table_transform import RAW_VALUES, scaling_transform
from fedkin.secret.signed_keys import Identity
from fedkin.security.signatures import FileKeys, Signer
from fedkin.server.deploy.node_disk import NodeDisk
from fedkin.server.deploy.site_floors import floors_of, without_small_tests
from fedkin.server.handshake import Handshake, make_handshake, model_digest
from fedkin.server.message import InvalidMessageError
from fedkin.server.node import Node
from fedkin.simulation.engine import SimulatedWorld
from fedkin.task_types.label_words import label_words
from fedkin.task_types.survival import Survival

BOOLEANS = ("False", "True")  # label names that have the same numbers on every node
SIGN_KEYS = FileKeys(
    authority="client.sign_ca",
    certificate="client.sign_certificate",
    private="client.sign_key",
    cure="see docs/secret-sums.md for how to make it",
)
# Server and node each make an initial model from this seed, and compare the models' digests.
HANDSHAKE_SEED = np.array([1, 2], np.uint32)


def node_from_flower_config(node_config: dict[str, Any], run_config: dict[str, Any]) -> Node:
    """The node that a site's client.toml describes (``--node-config
    'config="/path/client.toml"'``).

    Raises ConfigError, DataError or ModelError.
    """
    path = node_config.get("config")
    if not isinstance(path, str):
        raise ConfigError(
            "this node has no configuration: start it with --node-config "
            """'config="/path/client.toml"'"""
        )
    return node_from_config(load_client(Path(path)))


def node_from_config(config: ClientConfig) -> Node:
    """A node with the data and the model that its client.toml names."""
    with error_context("data"):
        if not config.data:
            raise ConfigError(
                "client.toml has no section [data]; describe the site's data there, for example "
                'with name = "file" and path = "mine.npz"'
            )
        data = _site_data(config)
    with error_context("model"):
        model = config.model.make(config.data_description())
    return build_node(
        model=model,
        data=data,
        site=config.site,
        config_digest=config.shared_digest,
        given_labels=config.samples.label_scale_from,
        disclosure=config.disclosure,
    )


def build_node(
    model: Any,
    data: FederatedData,
    site: SiteSettings,
    config_digest: str = "",
    given_labels: Mapping[str, float] | None = None,
    disclosure: DisclosureSettings | None = None,
) -> Node:
    """A node that runs some clients of a data set.

    Args:
        model: the model that the node trains.
        data: a data set with the node's clients. If it has other clients too, ``site`` says which
            are the node's.
        site: the site's name, folder and clients.
        config_digest: digest of the configuration that server and node share; empty if Python code
            makes the node.
        given_labels: ``label_scale_from`` of [samples]; None if the server computes the statistics
            of labels that are numbers.
        disclosure: the site's disclosure floors; None: it has none.
    """
    # Other sites have other training samples, and all sites compare with the same constant model.
    whole = with_given_constant(data.select(site.client_numbers(data.clients)))
    floors = None if disclosure is None else floors_of(whole, disclosure)
    of_site = whole if floors is None else without_small_tests(whole, floors)

    def handshake(spec: ModelSpec) -> Handshake:
        return make_handshake(
            federation=site.federation,
            version=__version__,
            spec=spec,
            shape=of_site.x.shape[1:],
            classes=of_site.classes,
            config=config_digest,
            labels=label_words(of_site.task_type, given_labels),
        )

    # A function, because only the reply to the handshake needs this initial model.
    def start() -> str:
        return model_digest(model.initial(HANDSHAKE_SEED))

    identity = _identity(site)

    def world_of(samples: FederatedData, ids: Int[np.ndarray, "c"]) -> SimulatedWorld:
        simulated = SimulatedWorld(samples, model, ids=ids)
        simulated.identity = identity
        return simulated

    scaled = ScaledSamples(of_site)

    return Node(
        name=site.name,
        handshake=handshake,
        start=start,
        samples=of_site.train.sizes,
        world=lambda ids: world_of(of_site, ids),
        disk=NodeDisk(Path(site.folder)),
        scaled_world=lambda ids, scaling: world_of(scaled.by(scaling), ids),
        floors=floors,
        split_sizes=lambda split: whole.part(split).sizes,
    )


class ScaledSamples:
    """A site's samples as its server says to scale them. The last result is kept.

    Args:
        samples: the site's samples, with raw values or another scaling.
    """

    def __init__(self, samples: FederatedData) -> None:
        self._samples = samples
        self._scaled: tuple[Any, FederatedData] | None = None  # with the scaling that made it

    def by(self, scaling: CommonScaling) -> FederatedData:
        """The samples with this scaling of columns and labels.

        Raises:
            InvalidMessageError: it has another number of columns than the samples, or statistics
                of labels that are classes here.
            DataError: a scaled value is too large for float32.
        """
        key = tuple(None if array is None else array.tobytes() for array in scaling)
        if self._scaled is None or self._scaled[0] != key:
            scaled = self._by_columns(scaling)
            if scaling.labels is not None:
                scaled = self._by_labels(scaled, scaling.labels)
            self._scaled = (key, scaled)
        return self._scaled[1]

    def _by_labels(
        self, samples: FederatedData, statistics: Float64[np.ndarray, "L"]
    ) -> FederatedData:
        """The samples with labels that are scaled by these statistics."""
        loss = samples.task_type.loss
        if loss is None or len(samples.task_type.statistics) > len(statistics):
            raise InvalidMessageError(
                "the server scales labels that are numbers, but this site's labels are "
                f"{samples.task_type.name}; give client.toml the [samples] of server.toml"
            )
        return with_label_statistics(samples, statistics)

    def _by_columns(self, scaling: CommonScaling) -> FederatedData:
        """The samples with scaled columns."""
        samples = self._samples
        if scaling.mean is None:
            return samples
        if (column_count(samples),) != scaling.mean.shape:
            raise InvalidMessageError(
                f"the server scales {len(scaling.mean)} columns, but the samples of this site have "
                f"the shape {list(samples.x.shape[1:])}; give it a table with these columns"
            )
        names = samples.feature_names or tuple(map(str, range(len(scaling.mean))))
        renamed = {} if samples.transform is None else samples.transform.renamed
        transform = scaling_transform(scaling, names, renamed)
        return with_transform(samples, transform)


def _identity(site: SiteSettings) -> Identity | None:
    """The key with which a site signs, and its certificate; None if the site does not sign.

    Raises ConfigError if the files belong to another site.
    """
    if not site.sign_key:
        return None
    signer = Signer(
        name=site.name,
        authority=Path(site.sign_ca),
        certificate=Path(site.sign_certificate),
        key=Path(site.sign_key),
        keys=SIGN_KEYS,
    )
    return Identity(site.name, signer)


def _site_data(config: ClientConfig) -> FederatedData:
    """Load a site's data.

    A data file's labels are numbered in the order of [samples], unless the site's [data] gives
    another order. Raises DataError unless the data have the shape, the number of classes and the
    names of [samples].
    """
    values = config.data_values
    labels = config.samples.labels
    if labels is not None and registry.reads_files(values):
        values = {"label_names": labels, **values}
    values = labelled_values(config, values)
    data = registry.make(registry.datasets(), scaled_values(config, values))
    expected = config.data_description()
    place = str(values.get("path", data.name))
    _check_columns(place, data.feature_names, expected.feature_names)
    if data.x.shape[1:] != expected.x.shape[1:] or data.classes != expected.classes:
        actual = list(data.x.shape[1:])
        shape = list(expected.x.shape[1:])
        raise DataError(
            f"{place}: samples have shape {actual} and {data.classes} classes, but [samples] says "
            f"{shape} and {expected.classes}: give this site data with this shape and number of "
            "classes, or correct [samples] in server.toml and in every client.toml"
        )
    _check_features_of(place, data.features_of, expected.features_of)
    _check_order("labels", data.label_names, expected.label_names, "data.label_names")
    _check_order("features", data.feature_names, expected.feature_names, "data.features")
    return data


def labelled_values(config: ClientConfig, values: Values) -> Values:
    """The section [data] of a site with the task type and loss of [samples], and with its keys of
    forecasts. Other labels that are numbers keep their values if the server computes their
    statistics.

    Args:
        config: configuration of the site.
        values: the section.

    Raises:
        ConfigError: the section says itself what the labels are, or the data are no file.
    """
    is_forecast = config.samples.task_type().by_time
    keys = (*LABEL_KEYS, *SERIES_KEYS) if is_forecast else LABEL_KEYS
    own = [key for key in keys if values.get(key) is not None]
    if own:
        raise ConfigError(
            f"data.{own[0]}: [samples] says what the labels of all sites are; write {own[0]} into "
            "[samples] of server.toml and of every client.toml, and remove it here"
        )
    task_type = config.samples.task_type()
    is_survival = isinstance(task_type, Survival)
    if values.get("event") is not None and not is_survival:
        raise ConfigError(
            f"data.event applies to survival, but [samples] says that labels are {task_type.name}; "
            'write task = "survival" into [samples] of server.toml and of every client.toml, or '
            "remove event here"
        )
    if task_type.loss is None and not is_survival:
        return values
    if values.get("name") != "file":
        raise ConfigError(
            f"[samples] task = {task_type.name!r} needs labels from a file; give "
            'this site one, such as data.name = "file" and data.path = "patients.csv"'
        )
    shared = {key: getattr(config.samples, key) for key in keys}
    given = {key: value for key, value in shared.items() if value is not None}
    if task_type.loss is None or is_forecast:
        # Times keep their values, and each series is scaled by its own past, so there is nothing to
        # wait for.
        return {**values, **given}
    return {**values, "label_scale_from": RAW, **given}


def scaled_values(config: ClientConfig, values: Values) -> Values:
    """The section [data] of a site, with the statistics by which all sites scale their tables. If
    the server computes them, the table has raw values until then.

    Args:
        config: configuration of the site.
        values: the section.

    Raises:
        ConfigError: the section has other statistics than [samples], or the data are no table whose
            columns the server could scale.
    """
    samples = config.samples
    key = "scale" if samples.summed else "scale_from"
    statistics = RAW_VALUES.values() if samples.summed else samples.scale_from
    is_table = values.get("name") == "file" and is_table_file(str(values.get("path", "")))
    if samples.summed and not is_table:
        raise ConfigError(
            f"[samples] scale = {samples.scale!r} scales the columns of tables, but this site's "
            'data are no table file; name one (data.name = "file", data.path = "patients.csv"), or '
            "remove scale from [samples] of server.toml and of every client.toml"
        )
    if statistics is None or not is_table:
        return registry.site_values(values)
    own = [key for key in ("scale", "scale_from") if values.get(key) is not None]
    if own:
        raise ConfigError(
            f"data.{own[0]}: [samples] {key} scales the tables of all sites in the same way; "
            "remove it"
        )
    return {**values, "scale_from": statistics}


def _check_features_of(
    place: str, actual: BackboneFeatures | None, expected: BackboneFeatures | None
) -> None:
    """Raise DataError if a site's samples are the inputs of another layer than [samples] says, or
    of another backbone."""
    if actual == expected:
        return
    raise DataError(
        f"{place}: samples are {_features_in_words(actual)}, but [samples] says "
        f"{_features_in_words(expected)}: set data.features_layer and data.tokenizer of this site "
        "as at the other sites"
    )


def _features_in_words(features: BackboneFeatures | None) -> str:
    """From which layer and backbone samples were computed, for messages."""
    if features is None:
        return "no features of a backbone"
    return (
        f"the inputs of layer {features.layer} of {features.backbone!r} "
        f"(digest {features.digest[:12]})"
    )


def _check_columns(
    place: str, actual: tuple[str, ...] | None, expected: tuple[str, ...] | None
) -> None:
    """Raise DataError if the columns of a site's table differ from the columns in [samples]."""
    if actual is None or expected is None or set(actual) == set(expected):
        return
    missing = [name for name in expected if name not in actual]
    others = [name for name in actual if name not in expected]
    found = []
    if missing:
        found.append(f"the table has no column {listed(missing)}")
    if others:
        found.append(f"[samples] does not name the table's column {listed(others)}")
    names = json.dumps(expected, ensure_ascii=False)
    raise DataError(
        f"{place}: {', and '.join(found)}; give the table the columns {names}. If it has other "
        f"columns too, set data.features = {names} in this site's client.toml"
    )


def _check_order(
    what: str, actual: tuple[str, ...] | None, expected: tuple[str, ...] | None, option: str
) -> None:
    """Raise DataError if a site's label or feature names are in another order than in [samples].

    An index would then mean one label (or feature) at this site and another one at other sites.
    """
    if actual in (None, expected) or (expected is None and actual == BOOLEANS):
        return
    if expected is None:
        raise DataError(
            f"this site's {what} have names, but [samples] does not say in which order all sites "
            f"number them; write into [samples] of server.toml and of every client.toml: {what} = "
            f"{json.dumps(actual, ensure_ascii=False)}"
        )
    raise DataError(
        f"this site's {what} are {listed(actual)}, but [samples] says {listed(expected)}; "
        f"set {option} in this site's client.toml to the order in [samples]"
    )
