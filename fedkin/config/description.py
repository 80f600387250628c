"""Run descriptions: the contents of config.toml, with a property for each common value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkin.config.inherited_options import configured_clusters
from fedkin.config.schema import Values
from fedkin.measures.lookup import measures_in
from fedkin.measures.measure import Measure
from fedkin.options import SECTIONS
from fedkin.options.with_options import ORDER


@dataclass(frozen=True)
class Description:
    """The description of a run: all its settings, which come from a configuration, from the
    arguments of ``simulate`` or from a server's file.

    Run folders that other software has written can also be read. Their sections may differ, so
    missing values are None or empty.

    Attributes:
        sections: all values by section and key, as in TOML.
    """

    sections: dict[str, Any]

    def section(self, name: str) -> Values:
        """A section by its name, such as ``local``; empty if missing."""
        return self.sections.get(name) or {}

    @property
    def method(self) -> Values:
        """The method's name and options."""
        return self.sections["method"]

    @property
    def method_name(self) -> str:
        """The method's name in configurations."""
        return self.method["name"]

    @property
    def method_with_options(self) -> str:
        """The method's name in records and tables, with the names of the options that change it,
        such as ``ifca+fedadam``."""
        named = [section for section in ORDER if section in SECTIONS and SECTIONS[section].titles]
        options = [self.section(section)["name"] for section in named if self.section(section)]
        return "+".join([self.method_name, *options])

    @property
    def clusters(self) -> int | None:
        """K, the configured number of clusters; None if the method does not have this option."""
        return configured_clusters(self.method)

    @property
    def data(self) -> Values:
        """The data set's name and options."""
        return self.section("data")

    @property
    def data_name(self) -> str:
        """The data set's name in configurations."""
        return self.data["name"]

    @property
    def data_title(self) -> str:
        """The data in titles: the name of a user's file or folder without its ending, or the name
        of the data set."""
        path = self.data.get("path")
        return Path(path).stem if self.data_name == "file" and path else self.data_name

    @property
    def model(self) -> Values:
        """The model's name and options."""
        return self.section("model")

    @property
    def model_name(self) -> str:
        """The model's name in configurations."""
        return self.model["name"]

    @property
    def local(self) -> Values:
        """The settings of local training."""
        return self.section("local")

    @property
    def scenario(self) -> Values:
        """Participation of clients: drop-outs, late arrival, leaving."""
        return self.section("scenario")

    @property
    def shift(self) -> Values:
        """The shift of the data; empty if there is none."""
        return self.section("shift")

    @property
    def run(self) -> Values:
        """The section [run] as TOML values."""
        return self.section("run")

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.run.get("seed", 0)

    @property
    def seeds(self) -> int | None:
        """Number of seeds for which the run is repeated; None for a single run."""
        return self.run.get("seeds")

    @property
    def rounds(self) -> int | None:
        """The configured number of communication rounds."""
        return self.run.get("rounds")

    @property
    def cohort(self) -> int | None:
        """The configured number of clients per round."""
        return self.run.get("cohort")

    @property
    def target(self) -> float | None:
        """The target accuracy for ``rounds_to_target``; None if not set."""
        return self.run.get("target")

    @property
    def against(self) -> list[Description]:
        """The descriptions of the methods that are compared with this one, in the order in which
        they are run."""
        entries = self.run.get("against") or []
        return [
            Description({**self.sections, "method": entry})
            for entry in entries
            if isinstance(entry, Mapping) and "name" in entry
        ]

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The user's measures, which every table of the run shows after the built-in ones."""
        return measures_in(self.sections)

    @property
    def from_python(self) -> bool:
        """Whether the run was started from Python, so that no file describes its data and model."""
        return "python" in self.sections

    @property
    def of_federation(self) -> bool:
        """Whether the run's clients are real, with their data at other sites."""
        return "federation" in self.sections

    def with_run(self, **settings: Any) -> Description:
        """A copy with changed settings of [run]. A setting that is None is removed."""
        changed = {key: value for key, value in (self.run | settings).items() if value is not None}
        return Description({**self.sections, "run": changed})

    def with_sections(self, sections: Mapping[str, Any]) -> Description:
        """A copy with some sections replaced."""
        return Description({**self.sections, **sections})
