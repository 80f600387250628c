"""The content of server.toml and of each client.toml of a deployment, from the trial's settings and
the user's."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import tomli_w

from fedkin.config import registry
from fedkin.config.list_values import with_lists
from fedkin.config.loader import parse_override, read_toml
from fedkin.config.registry import resolve
from fedkin.config.samples_section import with_columns
from fedkin.config.schema import Values, error_context
from fedkin.config.series_keys import SERIES_KEYS
from fedkin.config.server import (
    CLIENT,
    CLIENT_DECLARED,
    SERVER,
    SERVER_DECLARED,
    load_client,
    load_server,
)
from fedkin.core.errors import ConfigError, FedkinError, unknown
from fedkin.core.storage import user_path
from fedkin.data.label_tasks import LABEL_KEYS
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.build_node import node_from_config
from fedkin.server.deploy.check import checked_model
from fedkin.server.deploy.removed_sites import REMOVED
from fedkin.server.deploy.site_scaling import samples_scaling
from fedkin.task_types.forecast import Forecast
from fedkin.task_types.survival import Survival

if TYPE_CHECKING:
    from fedkin.data.federated import FederatedData

# The trial: handwritten digits in two clusters of sites, with different permutations of the labels.
TRIAL: dict[str, Values] = {
    "data": {
        "name": "planted",
        "base": "digits",
        "kind": "label_permutation",
        "clusters": 2,
        "samples": 60,
        "seed": 3,
    },
    "model": {"name": "mclr"},
    "method": {"name": "flexcfl", "clusters": 2},
    "local": {"epochs": 5, "batch_size": 10, "lr": 0.1},
    "run": {"rounds": 5, "seed": 0, "checkpoint_every": 1, "against": ["fedavg"]},
}
_CHOICES = ("data", "model", "method")  # sections in which ``name`` decides the other keys
_MODEL_KEYS = {"name", "backbone", "torch"}  # keys of [model] that name a model
_PER_SITE = ("name", "federation", "clients")  # keys of [client] that init sets itself
Files = dict[str, Values]  # content of a file by section


def configurations(
    folder: Path, names: list[str], new: list[str], settings: Sequence[str], secure: bool
) -> tuple[Files, dict[str, Files]]:
    """The content of server.toml, and of client.toml of each new site.

    The content comes from the settings of the trial (``TRIAL``), which the user's settings
    override. An existing server.toml is kept as it is.

    Args:
        folder: folder of the deployment.
        names: names of all sites.
        new: names of the new sites among them.
        settings: ``section.key=value``.
        secure: whether the federation uses keys.
    """
    exists = (folder / files.SERVER).exists()
    changes = _by_section(settings, exists)
    base = copy.deepcopy(TRIAL)
    base["federation"] = {
        "name": "trial",
        "capacity": max(8, 2 * len(names)),
        "wait_for": len(names),
    }
    if secure:
        base["federation"]["registered"] = True
    base["data"]["clients"] = base["federation"]["capacity"]
    base["run"]["cohort"] = len(names)
    values = {
        name: _with_settings(name, base.get(name, {}), changes.get(name, {}))
        for name in (*SERVER, *CLIENT)
    }
    if exists:
        # A later call adds sites: the server keeps its files, and new sites get the data of the
        # others.
        server = _existing_server(folder, len(_known_sites(folder)) + len(new))
        if "data" not in changes:
            values["data"] = _existing_data(folder) or values["data"]
    else:
        _move_labels(values)
        _set_model(values, is_given=not _MODEL_KEYS.isdisjoint(changes.get("model", {})))
        server = {name: values[name] for name in SERVER}
        data = values["data"]
        hidden = bool(values["secret"] or values["privacy"])
        # The files are read with their labels, which may be numbers.
        shared = (*LABEL_KEYS, *SERIES_KEYS)
        labels = {key: values["samples"][key] for key in shared if key in values["samples"]}
        described = {**data, **labels}
        folders = [folder / name for name in names]
        scaling = samples_scaling(
            described,
            values["samples"],
            sites=folders,
            hidden=hidden,
            private=bool(values["privacy"]),
        )
        values["samples"] = with_columns(values["samples"] | scaling, Path())
        if "scale_from" in values["samples"]:
            described["scale_from"] = values["samples"]["scale_from"]
        server["samples"] = _samples(described, folders, values["samples"])
    first = _next_number(folder)
    sites = {
        name: _site(
            name=name,
            number=first + k,
            server=server,
            client=values["client"],
            data=values["data"],
        )
        for k, name in enumerate(new)
    }
    return server, sites


def _set_model(values: Files, is_given: bool) -> None:
    """Complete [model]: the default of survival, and the whole path of a backbone.

    Args:
        values: the sections of all files.
        is_given: whether the user has named a model.
    """
    samples = values["samples"]
    if not is_given and Survival.is_named(samples.get("task"), samples.get("loss")):
        # Other settings, such as l2, apply to the default model too.
        values["model"] = {**values["model"], "name": "cox"}
    backbone = values["model"].get("backbone")
    if isinstance(backbone, str):
        # The path starts where the command runs, but paths in files start at their folders.
        values["model"]["backbone"] = str(user_path(backbone).absolute())


def _move_labels(values: Files) -> None:
    """Move what the labels are, and how rows become samples of a forecast, from [data] to
    [samples], because it must be equal at all sites. A column of events says that the task is
    survival."""
    is_forecast = Forecast.name in (values["data"].get("task"), values["samples"].get("task"))
    keys = (*LABEL_KEYS, *SERIES_KEYS) if is_forecast else LABEL_KEYS
    for key in keys:
        if values["data"].get(key) is not None:
            values["samples"].setdefault(key, values["data"][key])
    values["data"] = {key: value for key, value in values["data"].items() if key not in keys}
    says_task = any(values["samples"].get(key) for key in ("task", "loss"))
    if values["data"].get("event") is not None and not says_task:
        values["samples"]["task"] = Survival.name


def _site(name: str, number: int, server: Files, client: Values, data: Values) -> Files:
    """The content of a client.toml.

    Args:
        name: name of the site.
        number: number of its client in a data set that all sites share.
        server: content of server.toml.
        client: the user's settings of [client].
        data: content of [data].
    """
    federation = server.get("federation", {}).get("name", "trial")
    own: Values = {"name": name, "federation": federation, "folder": "state"}
    if not _is_per_site(data):
        own["clients"] = [number]
    shared = {section: server[section] for section in ("samples", "model") if section in server}
    return {"client": own | client, **shared, "data": data}


def new_site(folder: Path, name: str, settings: Sequence[str] = ()) -> Files:
    """The content of client.toml of a site that joins an existing deployment, by section.

    Args:
        folder: folder of the deployment.
        name: name of the site.
        settings: ``section.key=value`` for [client] or [data]; other values are those of the first
            existing site.

    Raises:
        ConfigError, DataError, ModelError: a setting is invalid, or the new site exceeds
            ``federation.capacity``.
    """
    changes = _by_section(settings, exists=True)
    server = _existing_server(folder, len(_known_sites(folder)) + 1)
    data = _with_settings("data", _existing_data(folder) or TRIAL["data"], changes.get("data", {}))
    site = _site(
        name=name,
        number=_next_number(folder),
        server=server,
        client=changes.get("client", {}),
        data=data,
    )
    check_files(folder, server, {name: site})
    return site


def _known_sites(folder: Path) -> list[Path]:
    """The client.toml of each site of a deployment, removed sites included."""
    return [*folder.glob(f"*/{files.CLIENT}"), *folder.glob(f"{REMOVED}/*/{files.CLIENT}")]


def _next_number(folder: Path) -> int:
    """The first number of a client, in a data set that all sites share, after those of all known
    sites."""
    numbers = [-1]
    for path in _known_sites(folder):
        clients = read_toml(path).get("client", {}).get("clients", [])
        numbers += [number for number in clients if isinstance(number, int)]
    return max(numbers) + 1


def _existing_server(folder: Path, sites: int) -> Files:
    """The content of an existing server.toml. Raises ConfigError if ``federation.capacity`` is too
    small for the sites."""
    path = folder / files.SERVER
    capacity = load_server(path).federation.capacity
    if sites > capacity:
        raise ConfigError(
            f"{path}: federation.capacity is {capacity}, too small for {sites} sites; raise it in "
            "that file, and set another federation.folder for a new run, because a run cannot be "
            "resumed with another capacity"
        )
    return read_toml(path)


def _by_section(settings: Sequence[str], exists: bool) -> dict[str, Values]:
    """The settings by section.

    Raises ConfigError for an unknown section, a key that differs between sites, and a section of
    server.toml if that file exists already.
    """
    changes: dict[str, Values] = {}
    given: list[tuple[str, str]] = []
    for text in settings:
        section, key, value = parse_override(text)
        sections = (*SERVER, *(name for name in CLIENT if name not in SERVER))
        if section not in sections:
            raise ConfigError(f"{section}: {unknown('section', section, sections)}")
        if section == "client" and key in _PER_SITE:
            raise ConfigError(
                f"client.{key}: each site has its own value; change it in the site's client.toml"
            )
        if exists and section in SERVER:
            raise ConfigError(
                f"{section}.{key}: {files.SERVER} exists already and is not changed; change it in "
                "that file"
            )
        changes.setdefault(section, {})[key] = value
        given.append((section, key))
    return with_lists(changes, given, {**CLIENT_DECLARED, **SERVER_DECLARED})


def _with_settings(section: str, base: Values, changes: Values) -> Values:
    """The values of a section: its defaults ``base``, replaced by the user's ``changes``.

    If the changes give the section another ``name`` (e.g. of a method), the defaults are dropped,
    because they belong to the former name.
    """
    if section == "model" and "torch" in changes:
        changes = {"name": "torch"} | changes
    if section in _CHOICES and changes.get("name", base["name"]) != base["name"]:
        return dict(changes)
    return {**base, **changes}


def _is_per_site(data: Values) -> bool:
    """Whether [data] names a file in the site's own folder (a relative path)."""
    return registry.reads_files(data) and not Path(str(data.get("path", ""))).is_absolute()


def _existing_data(folder: Path) -> Values:
    """[data] in the client.toml of a site that exists already; empty if there is no site."""
    paths = sorted(folder.glob(f"*/{files.CLIENT}"))
    return dict(read_toml(paths[0]).get("data", {})) if paths else {}


def _samples(data: Values, sites: Sequence[Path], changes: Values) -> Values:
    """The section [samples], computed from the data unless the settings give the whole section.

    Args:
        data: content of [data], with the keys of labels.
        sites: folders of all sites. The first one's data describe the samples.
        changes: the values that are known already; they take precedence.
    """
    says_outputs = "classes" in changes or any(changes.get(key) for key in LABEL_KEYS)
    if "shape" in changes and says_outputs:
        return changes
    first = sites[0] / str(data.get("path", ""))
    if _is_per_site(data) and not first.exists():
        outputs = f"samples.task={data['task']}" if data.get("task") else "samples.classes=2"
        raise ConfigError(
            f"data.path: {first} does not exist, and a relative path starts in each site's folder; "
            "copy the files there first, or give one file for all sites by its absolute path; if "
            "the data are on another machine, describe their samples: samples.shape=[30] "
            f"{outputs}"
        )
    loaded = _loaded(data, sites[0])
    samples: Values = {"shape": list(loaded.x.shape[1:]), "classes": loaded.classes}
    if loaded.vocabulary is not None:
        samples["words"] = len(loaded.vocabulary)
    elif loaded.x.dtype.kind in "iu":
        samples["words"] = _number_of_words(data, sites, loaded)
    if loaded.features_of is not None:
        samples["features_of"] = asdict(loaded.features_of)
    if loaded.label_names is not None:
        samples["labels"] = list(loaded.label_names)
    if loaded.feature_names is not None:
        samples["features"] = list(loaded.feature_names)
    return samples | changes


def _loaded(data: Values, site: Path) -> FederatedData:
    """The data of a site.

    Args:
        data: content of [data], with the keys of labels.
        site: the site's folder, in which a relative path starts.
    """
    values = data
    if "path" in data:
        values = {**data, "path": str(site.absolute() / str(data["path"]))}
    entry = resolve("data set", registry.datasets(), values, lambda key: f"data.{key}")
    with error_context("data"):
        return registry.make_site_data(entry)


def _number_of_words(data: Values, sites: Sequence[Path], first: FederatedData) -> int:
    """The number of words of texts that are token numbers: one more than the largest number in the
    files of all sites, since a single site may lack the rare words.

    Args:
        data, sites: as for ``_samples``. Files that are on another machine are left out.
        first: data of the first site.
    """
    largest = int(first.x.max())
    if _is_per_site(data):
        for site in sites[1:]:
            if (site / str(data["path"])).exists():
                largest = max(largest, int(_loaded(data, site).x.max()))
    return largest + 1


def check_files(folder: Path, server: Values, sites: dict[str, Files]) -> None:
    """Check all files by loading them from a temporary folder, as the programs will.

    Args:
        folder: folder of the deployment, for messages.
        server: content of server.toml.
        sites: content of each client.toml, by the site's name.

    Raises the errors that the programs would raise.
    """
    with tempfile.TemporaryDirectory() as place:
        paths = {Path(place) / files.SERVER: server}
        paths |= {Path(place) / name / files.CLIENT: site for name, site in sites.items()}
        try:
            for path, content in paths.items():
                path.parent.mkdir(exist_ok=True)
                path.write_text(tomli_w.dumps(content))
            checked_model(load_server(Path(place) / files.SERVER))
            configs = [load_client(Path(place) / name / files.CLIENT) for name in sites]
            # One site is enough, since all have the same model and data. The last one has the
            # largest client number, which the data must have.
            if configs and _is_available(configs[-1].data_values):
                node_from_config(configs[-1])
        except FedkinError as error:
            # The message has the path in the temporary folder.
            raise type(error)(str(error).replace(f"{place}/", f"{folder}/")) from error


def _is_available(data: Values) -> bool:
    """Whether the data that [data] names can be loaded on this machine."""
    return not registry.reads_files(data) or Path(str(data["path"])).exists()
