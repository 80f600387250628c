"""Options for any method: server optimisers, personal parts, robust rules, a monitor of clusters,
noise in the data, attacks, late replies, asynchronous clusters, privacy and secret sums.

``SECTIONS`` lists all options. To add an option, write its class in a new file, and add an entry to
``SECTIONS`` that names the class.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import NamedTuple


class OptionSection(NamedTuple):
    """A section of a configuration that holds one option.

    Attributes:
        words: the option's name in messages.
        kinds: the choices of the section. Each maps a name in the configuration to the location of
            the class (``module:Class``), which is imported only when needed.
        titles: the title of each choice, which tables and figures append to the method's title,
            such as ``FedAdam`` in ``IFCA + FedAdam``. A choice without an entry appends nothing.
        only_simulated: whether the option applies only to simulated clients.
        files: names of the files that the option writes into the run's folder.
        repeatable: whether the training of a run with the option can be repeated without some
            samples. False if the repetition's rounds would differ from those of the run, or would
            cost privacy again.
        by_client: whether the option changes only each client's own data, so that the models of
            clusters stay as separate as the method keeps them.
        single_updates: whether the option asks each client for its own update, even if the method
            needs means only.
        replaces_tasks: whether the option replaces a method's tasks by others.
        is_problem: whether the option describes the problem, so that it cannot be tuned, and not a
            solution.
        extra: the extra of the package fedkin that the option needs; empty for none.
    """

    words: str
    kinds: Mapping[str, str]
    titles: Mapping[str, str] = MappingProxyType({})
    only_simulated: bool = False
    files: tuple[str, ...] = ()
    repeatable: bool = True
    by_client: bool = False
    single_updates: bool = False
    replaces_tasks: bool = False
    is_problem: bool = False
    extra: str = ""

    def classes(self) -> dict[str, type]:
        """Import the classes of all choices, and return them by name."""
        found = {}
        for name, place in self.kinds.items():
            module, _, kind = place.partition(":")
            found[name] = getattr(import_module(module), kind)
        return found


# Files of a run with privacy: what each release has cost, the statement, and the folder of the
# files that may be given away.
PRIVACY_JOURNAL = "privacy.jsonl"
PRIVACY_STATEMENT = "privacy.json"
RELEASE = "release"

_OPTIMIZERS = "fedkin.options.server_optimizer"
_ASYNCHRONOUS = "fedkin.options.asynchronous"
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
        {
            "head": f"{_PARTS}:PersonalHead",
            "fedbn": f"{_PARTS}:PersonalBatchNorm",
            "bias": f"{_PARTS}:FedBias",
            "ditto": f"{_PARTS}:PersonalModel",
            "linear": "fedkin.options.personal.linear:PersonalLinear",
        },
        titles={
            "head": "personal heads",
            "fedbn": "FedBN",
            "bias": "own intercept",
            "ditto": "Ditto",
            "linear": "own linear fit",
        },
        replaces_tasks=True,
    ),
    "privacy": OptionSection(
        "privacy",
        {"client_dp": "fedkin.options.privacy.client_dp:ClientDP"},
        files=(PRIVACY_JOURNAL, PRIVACY_STATEMENT, RELEASE),
        replaces_tasks=True,
        repeatable=False,
        is_problem=True,
        extra="privacy",
    ),
    "robust": OptionSection(
        "robust rule",
        {"aggregation": "fedkin.options.robust.robust:RobustAggregation"},
        single_updates=True,
    ),
    "monitor": OptionSection(
        "monitor", {"clusters": "fedkin.options.monitor.monitor:Monitor"}, repeatable=False
    ),
    "label_noise": OptionSection(
        "label noise",
        {
            "symmetric": "fedkin.options.noise.data_noise:SymmetricFlips",
            "pair": "fedkin.options.noise.data_noise:PairFlips",
        },
        only_simulated=True,
        by_client=True,
    ),
    "feature_noise": OptionSection(
        "feature noise",
        {"gaussian": "fedkin.options.noise.data_noise:GaussianNoise"},
        only_simulated=True,
        by_client=True,
    ),
    "attack": OptionSection(
        "attack",
        {"byzantine": "fedkin.options.attack.byzantine:Byzantine"},
        only_simulated=True,
        repeatable=False,
        is_problem=True,
    ),
    "quorum": OptionSection(
        "quorum",
        {"per_cluster": "fedkin.options.quorum.minimum_replies:MinimumReplies"},
        single_updates=True,
    ),
    "late": OptionSection(
        "way to use late replies",
        {"replies": "fedkin.options.late.late_replies:LateReplies"},
        single_updates=True,
        repeatable=False,
    ),
    "asynchronous": OptionSection(
        "way to wait for replies",
        {
            "first_replies": f"{_ASYNCHRONOUS}.first_replies:FirstReplies",
            "buffered": f"{_ASYNCHRONOUS}.buffered_clusters:BufferedClusters",
        },
        titles={"first_replies": "first replies", "buffered": "buffered"},
        single_updates=True,
        repeatable=False,
    ),
    "secret": OptionSection(
        "secret sums",
        {"sums": "fedkin.options.secret.secret_sums:SecretSums"},
        files=("secret.jsonl",),
        replaces_tasks=True,
        repeatable=False,
        extra="secret",
    ),
}
