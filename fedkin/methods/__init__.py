"""Federated learning methods, one paper per file. ``METHODS`` maps the names of methods in
configurations to their classes.

A method is a class with three functions: ``init`` makes the state before the first round, ``round``
the state after a round, and ``place`` assigns new clients to clusters. A state is immutable and
holds the cluster models and each client's cluster.

The imports below are the list of methods. To add a method, add its file and a line here. Its class
attribute ``about`` holds its name in configurations, its paper and its row in the documentation.
"""

from __future__ import annotations

import sys

from fedkin.core.suggestions import suggesting

# The list, in the order of the documentation.
# isort: off
from fedkin.methods.fedavg import FedAvg as FedAvg
from fedkin.methods.fedprox import FedProx as FedProx
from fedkin.methods.fedper import FedPer as FedPer
from fedkin.methods.fedper import FedRep as FedRep
from fedkin.methods.ditto import Ditto as Ditto
from fedkin.methods.apfl import APFL as APFL
from fedkin.methods.pfedme import PFedMe as PFedMe
from fedkin.methods.scaffold import SCAFFOLD as SCAFFOLD
from fedkin.methods.fedgroup import FedGroup as FedGroup
from fedkin.methods.fedgroup import FedGrouProx as FedGrouProx
from fedkin.methods.flexcfl import FlexCFL as FlexCFL
from fedkin.methods.sattler import SattlerCFL as SattlerCFL
from fedkin.methods.flhc import FLHC as FLHC
from fedkin.methods.ocfl import OCFL as OCFL
from fedkin.methods.fedgwc import FedGWC as FedGWC
from fedkin.methods.ifca import IFCA as IFCA
from fedkin.methods.ifca import IFCAMig as IFCAMig
from fedkin.methods.fesem import FeSEM as FeSEM
from fedkin.methods.fesem import FeSEMMig as FeSEMMig
from fedkin.methods.fedsim import FedSim as FedSim
from fedkin.methods.feddrift import FedDrift as FedDrift
from fedkin.methods.selective import SelectiveReclustering as SelectiveReclustering
from fedkin.methods.fedccfa import FedCCFA as FedCCFA
from fedkin.methods.cflgp import CFLGP as CFLGP
from fedkin.methods.flux import FLUX as FLUX
from fedkin.methods.feroma import FEROMA as FEROMA
from fedkin.methods.pacfl import PACFL as PACFL
from fedkin.methods.fedem import FedEM as FedEM
from fedkin.methods.fedrc import FedRC as FedRC
from fedkin.methods.fedlease import FedLEASE as FedLEASE
from fedkin.methods.fltac import FLTAC as FLTAC
from fedkin.methods.fedrouter import FedRouter as FedRouter
from fedkin.methods.fedsoft import FedSoft as FedSoft
from fedkin.methods.private_clusters import PrivateClusters as PrivateClusters
from fedkin.methods.hierarchical import Hierarchical as Hierarchical
from fedkin.methods.athena import Athena as Athena
from fedkin.methods.panm import PANM as PANM
from fedkin.methods.panm import PANMLoss as PANMLoss
from fedkin.methods.pens import PENS as PENS
from fedkin.methods.gossip import Gossip as Gossip
from fedkin.methods.given import Given as Given
from fedkin.methods.oracle import Oracle as Oracle
from fedkin.methods.gossip import Local as Local
# isort: on

METHODS: dict[str, type] = {}
for _method in [value for value in globals().values() if hasattr(value, "about")]:
    METHODS[_method.about.name] = _method
    suggesting(sys.modules[__name__], _method.__name__)
