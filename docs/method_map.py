"""A map of the field: what each method clusters, when, and what leaves a client for it. ``generate_pages.py`` writes it
as a page. What a declaration can say of a row (peers, K, soft membership, methods that cluster nothing) is held against
the methods by ``tests/docs/test_method_map.py``; when clusters change and what leaves is written by hand."""

from __future__ import annotations

from typing import NamedTuple

NOTHING = "nothing"


class Row(NamedTuple):
    """A method's place.

    Attributes:
        clusters: what is compared to find clusters; ``nothing`` where there are none.
        when: the rounds in which clusters are found or changed.
        membership: hard (one cluster for a client), soft (shares of several), or -.
        decides: who says where a client belongs.
        count: how the number of clusters is known: given, found, or -.
        leaves: what a client sends for it, beside the training that FedAvg has too.
    """

    clusters: str
    when: str
    membership: str
    decides: str
    count: str
    leaves: str


_GLOBAL = Row(NOTHING, "-", "-", "-", "-", NOTHING)
_FIRST = "directions of updates"
_LOSSES = "losses of all models"
MAP: dict[str, Row] = {
    "fedavg": _GLOBAL,
    "fedprox": _GLOBAL,
    "scaffold": _GLOBAL._replace(leaves="the change of its control variate, in a sum"),
    "fedper": _GLOBAL,
    "fedrep": _GLOBAL,
    "ditto": _GLOBAL,
    "apfl": _GLOBAL,
    "pfedme": _GLOBAL,
    "fedgroup": Row(_FIRST, "once, before training", "hard", "server", "given", "one update of its own"),
    "fedgrouprox": Row(_FIRST, "once, before training", "hard", "server", "given", "one update of its own"),
    "flexcfl": Row(_FIRST, "once; newcomers and migration later", "hard", "server", "given", "one update of its own"),
    "sattler": Row("directions of updates", "when a cluster has converged", "hard", "server", "found", "updates"),
    "flhc": Row("updates", "once, after some rounds of FedAvg", "hard", "server", "given or found", "updates, once"),
    "ifca": Row(_LOSSES, "every round", "hard", "client", "given", "the cluster that it chose"),
    "ifca_mig": Row(_LOSSES, "every round", "hard", "client", "given", "the cluster that it chose; a bit at a shift"),
    "fesem": Row("weights of local models", "every round", "hard", "server", "given", "updates"),
    "fesem_mig": Row("weights of local models", "every round", "hard", "server", "given", "updates; a bit at a shift"),
    "fedsim": Row("local gradients, reduced", "every round", "hard", "server", "given", "updates"),
    "cflgp": Row("gradients at one model", "the first rounds", "hard", "server", "given or found", "gradients"),
    "pacfl": Row(
        "subspaces of samples", "once, before training", "hard", "server", "found", "singular vectors by label"
    ),
    "flux": Row(
        "descriptors of data", "once, after some rounds of FedAvg", "hard", "server", "found", "moments of outputs"
    ),
    "feroma": Row(
        "descriptors of data", "every round", "soft", "server", "-", "its model; moments of outputs, every round"
    ),
    "private_clusters": Row(
        _FIRST, "once, before training", "hard", "client", "given", "sums of sketched updates; its cluster"
    ),
    "feddrift": Row("accuracies on new data", "at a drift", "hard", "client and server", "found", "accuracies"),
    "fedem": Row(
        "losses of samples", "every round", "soft", "client", "given", "updates of components, summed; shares"
    ),
    "fedrc": Row(
        "losses of samples, by label", "every round", "soft", "client", "given", "label counts of components; shares"
    ),
    "fedsoft": Row("losses of samples", "every round", "soft", "client", "given", "its model; K numbers"),
    "hierarchical": Row("last layers", "once, after one training", "hard", "server", "found", "its last layer, once"),
    "athena": Row(
        "last layers", "once, after one training", "hard", "server", "found", "its last layer, once; its labels"
    ),
    "panm": Row("updates of peers", "every round", "hard", "peers", "found", "its model, to peers"),
    "panm_loss": Row("losses of peers' models", "every round", "hard", "peers", "found", "its model, to peers"),
    "pens": Row("losses of peers' models", "every round", "hard", "peers", "found", "its model, to peers"),
    "gossip": Row(NOTHING, "-", "-", "peers", "-", "its model, to peers"),
    "oracle": Row("true clusters, which it is told", "-", "hard", "-", "given", "its model, to peers"),
    "local": Row(NOTHING, "-", "-", "-", "-", "nothing at all"),
}
HEADS = ("what is compared", "when", "membership", "who decides", "K", "what leaves a client for it")


def page(known: dict[str, type]) -> str:
    """The map as a page.

    Args:
        known: the methods that there are, by name.
    """
    head = ["# A map of the field", "", "Beside the update of local training that every method but `local` has.", ""]
    lines = [f"| method | {' | '.join(HEADS)} |", f"|{'---|' * (len(HEADS) + 1)}"]
    lines += [f"| `{name}` | {' | '.join(MAP[name])} |" for name in known]
    return "\n".join([*head, *lines]) + "\n"
