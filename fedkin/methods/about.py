"""A method's description of itself: its name, its paper, its row in the overview of methods, and
the meaning of its options.

Configurations, comparisons and the documentation read it, so a new method needs no entry in any of
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NOTHING = "nothing"

# Meanings of options that several methods have. In a comparison, methods that give an option the
# same meaning get the same value: if one method is set to five clusters, all have five.
NUMBER_OF_MODELS = "K, the number of models that clients share"
COLD_START_CLIENTS = "clients per cluster that the cold start trains"
RATE_BETWEEN_CLUSTERS = "learning rate between clusters, a step of these papers"
PROXIMAL_WEIGHT = "weight of the proximal term, which defines both methods"
SHIFTED_SHARE = "largest change of a client's labels without a shift"
AVERAGED_PEERS = "peers whose models a peer averages"
COMPARED_PART = "part of an update by which clients are compared"
LAST_LAYER_CLUSTERING = "the clustering of last layers that both methods begin with"

# For an option with the name of another method's option, but with a different meaning.
UNLIKE_OTHERS = ""


@dataclass(frozen=True)
class About:
    """A method's description of itself.

    Attributes:
        name: name in configurations.
        paper: authors, venue and year; empty for a method without a paper.
        compares: the data that the method compares to find clusters; ``nothing`` if it finds none.
        when: the rounds in which clusters are found or changed.
        membership: hard (one cluster per client), soft (shares of several clusters), or -.
        decides: who chooses a client's cluster: client or server.
        count: how the number of clusters is determined: given, found, or -.
        leaves: data that leave a client, in addition to the data that FedAvg's clients send.
        meanings: the meaning of each option that another method has too. In a comparison, the
            section [method] of the configuration describes the main method. The other methods take
            the value of an option from this section if they give the option the same meaning. The
            value of an option without an entry is never taken over.
    """

    name: str
    paper: str = ""
    compares: str = NOTHING
    when: str = "-"
    membership: str = "-"
    decides: str = "-"
    count: str = "-"
    leaves: str = NOTHING
    meanings: Mapping[str, str] = field(default_factory=dict)
