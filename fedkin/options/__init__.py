"""Options of any method: server optimisers, parts that stay on clients, robust rules, attacks, late
replies, privacy and secret sums.

``SECTIONS`` is the one list of them. A new option is a file with its class, and an entry here.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import NamedTuple


class OptionSection(NamedTuple):
    """A section of a configuration that holds an option.

    Attributes:
        words: the option in messages.
        kinds: its choices: the name in a configuration, and the place of the class
            (``module:Class``).
        titles: text that tables add to the name of a method, by name; empty: nothing.
        only_simulated: whether the option makes no sense with real clients.
        files: names of the files that the option writes into the folder of a run.
    """

    words: str
    kinds: Mapping[str, str]
    titles: Mapping[str, str] = MappingProxyType({})
    only_simulated: bool = False
    files: tuple[str, ...] = ()

    def classes(self) -> dict[str, type]:
        """The classes by name. They are imported here."""
        found = {}
        for name, place in self.kinds.items():
            module, _, kind = place.partition(":")
            found[name] = getattr(import_module(module), kind)
        return found


_OPTIMIZERS = "fedkin.options.server_optimizer"
_PARTS = "fedkin.options.personal.parts"

SECTIONS = {
    "server_optimizer": OptionSection(
        "server optimizer",
        {
            "fedavgm": f"{_OPTIMIZERS}:FedAvgM",
            "fedadam": f"{_OPTIMIZERS}:FedAdam",
            "fedyogi": f"{_OPTIMIZERS}:FedYogi",
            "fedadagrad": f"{_OPTIMIZERS}:FedAdagrad",
        },
        titles={
            "fedavgm": "FedAvgM",
            "fedadam": "FedAdam",
            "fedyogi": "FedYogi",
            "fedadagrad": "FedAdagrad",
        },
    ),
    "personal": OptionSection(
        "personal part",
        {"head": f"{_PARTS}:PersonalHead", "ditto": f"{_PARTS}:PersonalModel"},
        titles={"head": "personal heads", "ditto": "Ditto"},
    ),
    "privacy": OptionSection(
        "privacy",
        {"client_dp": "fedkin.options.privacy.client_dp:ClientDP"},
        files=("privacy.jsonl", "privacy.json", "release"),
    ),
    "robust": OptionSection(
        "robust rule", {"aggregation": "fedkin.options.robust.robust:RobustAggregation"}
    ),
    "attack": OptionSection(
        "attack", {"byzantine": "fedkin.options.attack.byzantine:Byzantine"}, only_simulated=True
    ),
    "late": OptionSection(
        "way to use late replies", {"replies": "fedkin.options.late.late_replies:LateReplies"}
    ),
    "secret": OptionSection(
        "secret sums",
        {"sums": "fedkin.options.secret.secret_sums:SecretSums"},
        files=("secret.jsonl",),
    ),
}
