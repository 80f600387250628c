"""What a run is made of besides its numbers: method, model, data and local training, from memory or
built again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedkin.config import registry
from fedkin.config.description import Description
from fedkin.config.run import LocalSection, from_dict
from fedkin.config.schema import Values, error_context
from fedkin.config.server import DataDescription, SamplesSection
from fedkin.core.errors import ConfigError, DataError
from fedkin.core.method import Method
from fedkin.core.model_spec import Samples
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.scenarios.shift import Shift
from fedkin.simulation.torch import wrap_module
from fedkin.simulation.workers import AnyModel


@dataclass(frozen=True, eq=False)
class Ingredients:
    """What a run is made of.

    Attributes:
        method: with its hyper-parameters; None of a method that is not known here.
        model: what its clients train.
        samples: the data of all clients; of a run with real clients a description of one sample.
        local: the run's local training.
        shift: how the data shift; None where they do not.
    """

    method: Method | None
    model: AnyModel
    samples: Samples
    local: LocalTraining
    shift: Shift | None = None

    @property
    def data(self) -> FederatedData:
        """The data of all clients. Raises DataError where they are on real clients."""
        if not isinstance(self.samples, FederatedData):
            raise DataError(
                f"the data of {self.samples.name} are with its clients, not here; what a site has "
                "of the run is exported there: fedkin export client.toml"
            )
        return self.samples

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """A run that goes to another process leaves its model and data behind: neither can be
        copied safely."""
        return type(None), ()


def parts_of(
    config: Description,
    model: Any = None,
    data: FederatedData | None = None,
    method: Method | None = None,
) -> Ingredients:
    """The parts of a finished run, built from its description.

    Args:
        config: the description, as in the run's config.toml.
        model: the run's model, where the description cannot make it; whatever ``simulate`` takes.
        data: the run's data, where the description cannot make them.
        method: the run's method, where it is the user's own.

    Raises:
        ConfigError: what the description cannot make and was not given.
    """
    if config.of_federation:
        return _of_federation(config, model, method)
    if config.from_python:
        return _of_program(config, model, data, method)
    settings = from_dict(config.sections)
    with error_context("data"):
        samples = settings.data.make() if data is None else data
    with error_context("model"):
        model = settings.model.make(samples) if model is None else model
    shift = settings.shift.made if settings.shift else None
    return Ingredients(
        method=method or settings.method.made,
        model=wrap_module(model),
        samples=samples,
        local=settings.work,
        shift=shift,
    )


def _of_program(
    config: Description, model: Any, data: FederatedData | None, method: Method | None
) -> Ingredients:
    missing = " and ".join(
        name for name, part in (("model", model), ("data", data)) if part is None
    )
    if data is None or model is None:
        name = config.model_name
        raise ConfigError(
            f"this run was started from Python, so its {missing} must be given again (model "
            f"{name!r}, data {config.data_name!r}): Run.load(path, model=..., data=...)"
        )
    if config.shift:
        raise ConfigError(
            "this run was started from Python with data that shift, which cannot be made again "
            "from disk"
        )
    local = LocalTraining.from_settings(config.local)
    return Ingredients(method or _method(config.method), wrap_module(model), data, local)


def _of_federation(config: Description, model: Any, method: Method | None) -> Ingredients:
    """Of a server's run folder: its data are elsewhere."""
    samples = {key: config.data[key] for key in SamplesSection.model_fields if key in config.data}
    description = DataDescription.of(SamplesSection(**samples), config.data_name)
    with error_context("model"):
        model = (
            registry.make(registry.models(), config.model, description) if model is None else model
        )
    local = LocalSection(**config.local).work
    return Ingredients(method or _method(config.method), wrap_module(model), description, local)


def _method(entry: Values) -> Method | None:
    """The method of an entry; None of one that is not known here, as only some answers need it."""
    known = registry.methods()
    return registry.make(known, entry) if entry["name"] in known else None
