"""The configuration of a federation with a server: ``server.toml`` for the server, ``client.toml``
for each site.

The sections [samples] and [model] must be equal in both files, and their digest is compared when a
client connects (handshake). Relative paths start at the folder of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.config import registry, user_measures
from fedkin.config.declarations import one_class
from fedkin.config.deployment_checks import check_options, check_sums, check_with_server
from fedkin.config.description import Description
from fedkin.config.loader import Sections, read
from fedkin.config.metrics_settings import SECTION as METRICS
from fedkin.config.metrics_settings import MetricsSettings, metrics_settings
from fedkin.config.option_registry import made_options, own_sections, resolve_options
from fedkin.config.plan import Compute, RunSettings
from fedkin.config.registry import Entry, resolve, resolve_model
from fedkin.config.run import DECLARED, LocalSection, described_run, resolve_against
from fedkin.config.samples_section import SamplesSection, with_columns
from fedkin.config.schema import DEFAULT, Place, Values, toml_values
from fedkin.config.score_goals import check_goals
from fedkin.config.server_settings import DisclosureSettings, ServerSettings, SiteSettings
from fedkin.core.codec import digest
from fedkin.core.errors import ConfigError
from fedkin.core.model_spec import BackboneFeatures
from fedkin.core.storage import user_path
from fedkin.core.training import LocalTraining
from fedkin.data.table_transform import TableTransform
from fedkin.measures.measure import Measure
from fedkin.options import SECTIONS
from fedkin.options.base import Option
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.task_type import TaskType

OPTIONS = tuple(name for name, section in SECTIONS.items() if not section.only_simulated)
SERVER = ("federation", "samples", "model", "method", *OPTIONS, "local", "run", METRICS)
METHOD = "fedavg"  # name of the method if the file has none
CLIENT = ("client", "samples", "model", "data", METRICS, "disclosure")


# What declares the keys of each section of a server's and of a site's file.
SERVER_DECLARED = {
    "federation": one_class(ServerSettings),
    "samples": one_class(SamplesSection),
    **{name: DECLARED[name] for name in ("model", "method", *OPTIONS, "local", "run")},
    "method": DECLARED["method"]._replace(default=lambda _: METHOD),
    METRICS: one_class(MetricsSettings),
}
CLIENT_DECLARED = {
    "client": one_class(SiteSettings),
    "samples": one_class(SamplesSection),
    **{name: DECLARED[name] for name in ("model", "data")},
    METRICS: one_class(MetricsSettings),
    "disclosure": one_class(DisclosureSettings),
}


@dataclass(frozen=True)
class DataDescription:
    """The properties of data at real sites that a model depends on (``core.model_spec.Samples``). A
    sample of zeros stands for the data and gives their shape."""

    name: str
    x: np.ndarray  # [1 ...]
    classes: int
    vocabulary: tuple[str, ...] | None = None
    vectors: np.ndarray | None = None
    feature_names: tuple[str, ...] | None = None  # columns of a table, if known
    from_uint8: bool = False  # whether samples are known to be uint8 pixels divided by 255
    label_names: tuple[str, ...] | None = None  # names of the classes, if known
    transform: TableTransform | None = None  # how columns of a table are scaled, if they are
    task_type: TaskType = CLASSIFICATION  # what the labels are
    # columns of label and client by their roles, if all sites share them
    columns: dict[str, str] | None = None
    features_of: BackboneFeatures | None = None  # the backbone that computed the samples, if any

    @classmethod
    def of(cls, samples: SamplesSection, name: str) -> DataDescription:
        """The properties that [samples] describes; ``name`` is for messages."""
        dtype = np.float32 if samples.words is None else np.int64
        words = None if samples.words is None else tuple(map(str, range(samples.words)))
        labels, features = (
            None if names is None else tuple(names) for names in (samples.labels, samples.features)
        )
        x = np.zeros((1, *samples.shape), dtype)
        return cls(
            name,
            x,
            samples.classes,
            words,
            feature_names=features,
            label_names=labels,
            transform=samples.transform(),
            task_type=samples.task_type(),
            columns=samples.columns(),
            features_of=samples.backbone_features(),
        )


@dataclass(frozen=True)
class ServerConfig:
    """The validated contents of server.toml, with defaults filled in. Objects that need no data,
    such as methods, are made when the file is read.

    Attributes:
        federation: the server's own settings.
        samples: the samples of every client.
        model: the model.
        method: the main method.
        against: the methods that run after the main method.
        local: the settings of local training.
        run: the plan and evaluation settings.
        option_entries: registry entries of the options that apply to all methods, by section.
        options: the objects of these options, by section.
        measures: the user's measures, with their functions.
        metrics: metrics for Prometheus; None: none.
    """

    federation: ServerSettings
    samples: SamplesSection
    model: Entry
    method: Entry
    against: tuple[Entry, ...]
    local: LocalSection
    run: RunSettings
    option_entries: dict[str, Entry]
    options: dict[str, Option] = field(compare=False, repr=False)
    measures: tuple[Measure, ...] = field(compare=False, repr=False)
    metrics: MetricsSettings | None = field(default=None, compare=False)

    @property
    def methods(self) -> tuple[Entry, ...]:
        """The main method and the methods that run after it."""
        return (self.method, *self.against)

    @property
    def work(self) -> LocalTraining:
        """The settings of local training."""
        return self.local.work

    @property
    def shared_digest(self) -> str:
        """Digest of [samples] and [model], which server and clients compare in the handshake."""
        return _shared_digest(self.samples, self.model)

    def data_description(self) -> DataDescription:
        """The properties of the clients' data that the model depends on."""
        return DataDescription.of(self.samples, self.federation.name)

    def description(self) -> Description:
        """The contents of the run folder's config.toml: all settings that determine results.
        Deadlines and similar settings are not included."""
        name = self.federation.name
        capacity = self.federation.capacity
        sections: dict[str, Any] = {
            "federation": {"name": name, "capacity": capacity},
            "data": {"name": name, "clients": capacity, **toml_values(self.samples)},
            "model": self.model.values,
            "method": self.method.values,
            "local": self.local.values,
            "run": self.run.values,
        }
        sections |= {section: entry.values for section, entry in self.option_entries.items()}
        return Description(sections)


@dataclass(frozen=True)
class ClientConfig:
    """The validated contents of client.toml, with defaults filled in.

    Attributes:
        site: the site's own settings.
        samples: shape and classes of the samples.
        model: the model.
        data: the site's data; None if the file has no section [data].
        metrics: metrics for Prometheus; None: none.
        disclosure: the site's disclosure floors; None if the file has no section [disclosure].
    """

    site: SiteSettings
    samples: SamplesSection
    model: Entry
    data: Entry | None
    metrics: MetricsSettings | None = None
    disclosure: DisclosureSettings | None = None

    @property
    def data_values(self) -> Values:
        """The section [data] as TOML values; empty if the file has none."""
        return self.data.values if self.data else {}

    @property
    def shared_digest(self) -> str:
        """Digest of [samples] and [model], which server and clients compare in the handshake."""
        return _shared_digest(self.samples, self.model)

    def data_description(self) -> DataDescription:
        """The properties of the site's data that the model depends on."""
        return DataDescription.of(self.samples, self.site.name)


def _shared_digest(samples: SamplesSection, model: Entry) -> str:
    """Digest of [samples] and [model], which must be equal in all files of a federation."""
    return digest({"samples": toml_values(samples), "model": shared_model(model)})


def shared_model(model: Entry) -> Values:
    """The values of [model] that must be equal in all files of a federation. The backbone of
    adapters may be in another folder on each machine; its weights are compared when a client
    connects (handshake)."""
    own = ("backbone", "backbone_digest")
    return {key: value for key, value in model.values.items() if key not in own}


def _placed(model: Values, folder: Path) -> Values:
    """The section [model], with a path of the backbone that starts at the folder of the file."""
    backbone = model.get("backbone")
    if not isinstance(backbone, str) or backbone == DEFAULT:
        return model
    return {**model, "backbone": str(folder / user_path(backbone))}


def load_server(path: Path, overrides: Sequence[str] = ()) -> ServerConfig:
    """Read a server's file and apply overrides ``section.key=value``.

    Raises ConfigError if the file is missing or not TOML, a section or key is unknown, or a value
    has the wrong type or range.
    """
    return server_from_dict(
        *read(path, overrides, declared=SERVER_DECLARED), path.parent.absolute()
    )


def server_from_dict(raw: dict[str, Any], place: Place, folder: Path) -> ServerConfig:
    """Validate the sections of a server's file.

    Args:
        raw: the sections.
        place: function that turns ``section.key`` into its name in messages.
        folder: the file's folder, where relative paths start.
    """
    own = own_sections(raw, SERVER)
    sections = _sections(raw, (*SERVER, *own), place, folder)
    method = sections.resolve("method", "method", registry.methods(), METHOD)
    run = _run_settings(sections)
    against = resolve_against(run.against, method, sections)
    measure_entries, measures = user_measures.resolved(
        run.measures or (), sections.place("run.measures")
    )
    option_entries = resolve_options(sections, (*OPTIONS, *own))
    check_options(option_entries, sections.place)
    samples = sections.validate("samples", SamplesSection)
    if samples.summed:
        check_sums("samples.scale", option_entries, sections.place)
    if samples.labels_summed:
        check_sums("samples.task", option_entries, sections.place)
    check_goals(run, samples.task_type(), sections.place_in("run"))
    settings = sections.validate("federation", ServerSettings)
    config = ServerConfig(
        federation=replace(settings, folder=str(folder / user_path(settings.folder))),
        samples=samples,
        model=resolve_model(
            _placed(sections["model"], folder), sections.place_in("model"), samples.task_type()
        ),
        method=method,
        against=against,
        local=sections.validate("local", LocalSection),
        run=described_run(run, against, measure_entries),
        option_entries=option_entries,
        options=made_options(sections, option_entries),
        measures=measures,
        metrics=metrics_settings(sections, folder),
    )
    # Make these objects now, so that an error names their section. They are cached.
    sections.construct("local", lambda: config.work, LocalSection)
    sections.construct("method", lambda: config.method.made)
    sections.construct("run.against", lambda: [entry.made for entry in config.against])
    check_with_server(config.methods, sections.place)
    return config


def _run_settings(sections: Sections) -> RunSettings:
    """The settings [run] of a server's file. Raises ConfigError for those of simulations only."""
    given = sections["run"]
    for key in ("seeds", "patience", *(setting.name for setting in fields(Compute))):
        if given.get(key) not in (None, False, DEFAULT):
            raise ConfigError(
                f"{sections.place(f'run.{key}')}: does not apply to a real federation; remove it"
            )
    run = sections.validate("run", RunSettings)
    # A round with real sites takes much longer than a checkpoint, so every round is saved.
    return run if "checkpoint_every" in given else replace(run, checkpoint_every=1)


def load_client(path: Path, overrides: Sequence[str] = ()) -> ClientConfig:
    """Read a site's file client.toml. Raises ConfigError as ``load_server`` does."""
    return client_from_dict(
        *read(path, overrides, declared=CLIENT_DECLARED), path.parent.absolute()
    )


def client_from_dict(raw: dict[str, Any], place: Place, folder: Path) -> ClientConfig:
    """Validate the sections of a site's file.

    Args:
        raw: the sections.
        place: function that turns ``section.key`` into its name in messages.
        folder: the file's folder, where relative paths start.
    """
    sections = _sections(raw, CLIENT, place, folder)
    site = sections.validate("client", SiteSettings)
    data = dict(sections["data"])
    of_files = registry.reads_files(data)
    for key in ("path", "scale_from", "tokenizer", "features_file") if of_files else ():
        if isinstance(data.get(key), str):
            data[key] = str(folder / user_path(data[key]))
    samples = sections.validate("samples", SamplesSection)
    config = ClientConfig(
        site=replace(
            site,
            folder=str(folder / user_path(site.folder)),
            **_signing(site, folder),
        ),
        samples=samples,
        model=resolve_model(
            _placed(sections["model"], folder), sections.place_in("model"), samples.task_type()
        ),
        data=resolve("data set", registry.datasets(), data, sections.place_in("data"))
        if data
        else None,
        metrics=metrics_settings(sections, folder),
        disclosure=sections.validate("disclosure", DisclosureSettings)
        if "disclosure" in sections
        else None,
    )
    if config.data is not None:
        registry.refuse_simulated_only(config.data.values, sections.place)
    return config


def _signing(site: SiteSettings, folder: Path) -> dict[str, str]:
    """Absolute paths of the site's certificate files, by option. Raises ConfigError if only some of
    the options are set."""
    names = ("sign_ca", "sign_certificate", "sign_key")
    given = {name: getattr(site, name) for name in names if getattr(site, name)}
    if given and len(given) < len(names):
        raise ConfigError(
            f"client.{next(iter(given))}: set all of {', '.join(names)}, or none of them"
        )
    return {name: str(folder / user_path(value)) for name, value in given.items()}


def _sections(raw: dict[str, Any], known: Sequence[str], place: Place, folder: Path) -> Sections:
    """The sections of a server's or site's file. Raises ConfigError if [samples] is missing.

    Args:
        raw: the sections.
        known: the names of sections.
        place: function that turns ``section.key`` into its name in messages.
        folder: the file's folder, where relative paths start.
    """
    samples = raw.get("samples")
    if isinstance(samples, dict):
        raw = {**raw, "samples": with_columns(samples, folder)}
    sections = Sections(raw, known, place)
    if "samples" not in sections:
        raise ConfigError(
            f"{place('samples')}: is required: the shape of a sample and the number of classes"
        )
    return sections
