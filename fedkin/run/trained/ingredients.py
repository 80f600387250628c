"""The method, model, data and local training of a run (its parts). A run in memory has them; for a
stored run they are rebuilt from its description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedkin.config import registry
from fedkin.config.description import Description
from fedkin.config.run import LocalSection, from_dict
from fedkin.config.samples_section import SamplesSection
from fedkin.config.schema import Values, error_context
from fedkin.config.server import DataDescription
from fedkin.core.errors import ConfigError, DataError
from fedkin.core.method import Method
from fedkin.core.model_spec import Samples
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.options import SECTIONS
from fedkin.options.base import Option
from fedkin.options.with_options import by_section, simulated
from fedkin.scenarios.shift import Shift
from fedkin.simulation.torch import wrap_module
from fedkin.simulation.workers import AnyModel


@dataclass(frozen=True, eq=False)
class Ingredients:
    """The parts of a run (method, model, data, local training) that are needed to use its trained
    models.

    Attributes:
        method: the method with its hyper-parameters; None if its class cannot be found.
        model: the model that clients train.
        samples: the data of all clients. For real clients, a description of their samples.
        local: the settings of local training.
        shift: the shift of the data; None: no shift.
    """

    method: Method | None
    model: AnyModel
    samples: Samples
    local: LocalTraining
    shift: Shift | None = None

    @property
    def data(self) -> FederatedData:
        """The data of all clients. Raises DataError for a run with real clients."""
        if not isinstance(self.samples, FederatedData):
            raise DataError(
                f"the data of {self.samples.name} are on its clients' machines, so they cannot be "
                "used here; a site can export its models on its own machine (fedkin export "
                "client.toml)"
            )
        return self.samples

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Pickle the parts as None: model and data cannot be copied safely to another process."""
        return type(None), ()


def parts_of(
    config: Description,
    model: Any = None,
    data: FederatedData | None = None,
    method: Method | None = None,
) -> Ingredients:
    """Build the method, model, data and local training of a finished run from its description.

    Args:
        config: the description, as in the run's config.toml.
        model: the run's model, if the description cannot make it; any value that ``simulate``
            takes.
        data: the run's data, if the description cannot make them.
        method: the run's method, if it is a user's class.

    Raises:
        ConfigError: the description cannot make a part that is not given.
    """
    if config.of_federation:
        return _of_federation(config, model, method)
    if config.from_python:
        return _of_program(config, model, data, method)
    settings = from_dict(config.sections)
    with error_context("data"):
        samples = settings.make_data() if data is None else data
    with error_context("model"):
        model = settings.model.make(samples) if model is None else model
    shift = settings.shift.made if settings.shift else None
    # Options such as label noise change the data, as they did for the run.
    samples, shift = simulated(settings.options, samples, shift, config.seed)
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
    """The parts (method, model, data, local training) of a run that was started from Python, whose
    model and data the user must give."""
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
            "this run was started from Python with data that shift, which cannot be rebuilt "
            "from its folder; use the run in memory"
        )
    local = LocalTraining.from_settings(config.local)
    changed, shift = simulated(_data_options(config), data, None, config.seed)
    return Ingredients(
        method=method or _method(config.method),
        model=wrap_module(model),
        samples=changed,
        local=local,
        shift=shift,
    )


def _data_options(config: Description) -> dict[str, Option]:
    """The options of a run that may change its data, such as label noise and attacks, by section.
    A user's own options are not among them, since a description does not say where their classes
    are."""
    entries = {
        section: config.section(section)
        for section, option in SECTIONS.items()
        if option.only_simulated and config.section(section)
    }
    return by_section(
        registry.resolve(section, SECTIONS[section].classes(), values, str).made
        for section, values in entries.items()
    )


def _of_federation(config: Description, model: Any, method: Method | None) -> Ingredients:
    """The parts (method, model, description of the data, local training) of a run with real
    clients, whose data are on their machines."""
    samples = {key: config.data[key] for key in SamplesSection.model_fields if key in config.data}
    description = DataDescription.of(SamplesSection(**samples), config.data_name)
    with error_context("model"):
        model = (
            registry.make(registry.models(), config.model, description) if model is None else model
        )
    local = LocalSection(**config.local).work
    return Ingredients(method or _method(config.method), wrap_module(model), description, local)


def _method(entry: Values) -> Method | None:
    """The method that a description's entry names; None if its class cannot be found. Only the
    placement of newcomers needs the method."""
    known = registry.methods()
    return registry.make(known, entry) if entry["name"] in known else None
