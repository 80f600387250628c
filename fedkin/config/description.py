"""What a run is, as its config.toml says: read by name, not by the keys of a dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedkin.config.schema import Values
from fedkin.config.shared_options import configured_clusters
from fedkin.measures.lookup import measures_in
from fedkin.measures.measure import Measure
from fedkin.options import SECTIONS
from fedkin.options.with_options import ORDER


@dataclass(frozen=True)
class Description:
    """The description of a run: a configuration, what a program has given to ``simulate``, or a
    server's file.

    A folder may have been written by a program with other sections, so what is absent is None or
    empty.

    Attributes:
        sections: everything by section and key, as TOML holds it.
    """

    sections: dict[str, Any]

    def section(self, name: str) -> Values:
        """A section by its name, such as ``local``; empty where there is none."""
        return self.sections.get(name) or {}

    @property
    def method(self) -> Values:
        """The method's name and options."""
        return self.sections["method"]

    @property
    def method_name(self) -> str:
        """What a configuration calls the method."""
        return self.method["name"]

    @property
    def method_with_options(self) -> str:
        """The name of the method in records and tables, with the options that have a title."""
        named = [section for section in ORDER if section in SECTIONS and SECTIONS[section].titles]
        options = [self.section(section)["name"] for section in named if self.section(section)]
        return "+".join([self.method_name, *options])

    @property
    def clusters(self) -> int | None:
        """K, where the method has a number of clusters to configure."""
        return configured_clusters(self.method)

    @property
    def data(self) -> Values:
        """The data set's name and options."""
        return self.section("data")

    @property
    def data_name(self) -> str:
        """What a configuration calls the data set."""
        return self.data["name"]

    @property
    def model(self) -> Values:
        """The model's name and options."""
        return self.section("model")

    @property
    def model_name(self) -> str:
        """What a configuration calls the model."""
        return self.model["name"]

    @property
    def local(self) -> Values:
        """The settings of local training."""
        return self.section("local")

    @property
    def scenario(self) -> Values:
        """What clients do besides training: drop out, arrive late, leave."""
        return self.section("scenario")

    @property
    def shift(self) -> Values:
        """How the data shift; empty where they do not."""
        return self.section("shift")

    @property
    def run(self) -> Values:
        """The settings of [run] as TOML holds them."""
        return self.section("run")

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.run.get("seed", 0)

    @property
    def seeds(self) -> int | None:
        """From how many seeds the run is repeated; None for a single run."""
        return self.run.get("seeds")

    @property
    def rounds(self) -> int | None:
        """T as it was configured."""
        return self.run.get("rounds")

    @property
    def cohort(self) -> int | None:
        """n as it was configured."""
        return self.run.get("cohort")

    @property
    def target(self) -> float | None:
        """The accuracy for ``rounds_to_target``."""
        return self.run.get("target")

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Measures that stand in every table of the run, after those that have a place there."""
        return measures_in(self.sections)

    @property
    def from_python(self) -> bool:
        """Whether a program has started the run: its data and model are in no file."""
        return "python" in self.sections

    @property
    def of_federation(self) -> bool:
        """Whether the run's clients are real: their data are elsewhere."""
        return "federation" in self.sections

    def with_run(self, **settings: Any) -> Description:
        """The same with other settings of [run]. A setting that is None is left out."""
        changed = {key: value for key, value in (self.run | settings).items() if value is not None}
        return Description({**self.sections, "run": changed})

    def with_sections(self, sections: Mapping[str, Any]) -> Description:
        """The same with other sections."""
        return Description({**self.sections, **sections})
