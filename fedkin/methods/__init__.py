"""Federated learning methods, one paper per file. ``METHODS`` has them by their names in configurations."""

from __future__ import annotations

import sys

from fedkin.core.suggestions import suggesting
from fedkin.methods.apfl import APFL as APFL
from fedkin.methods.athena import Athena as Athena
from fedkin.methods.cflgp import CFLGP as CFLGP
from fedkin.methods.ditto import Ditto as Ditto
from fedkin.methods.fedavg import FedAvg as FedAvg
from fedkin.methods.feddrift import FedDrift as FedDrift
from fedkin.methods.fedem import FedEM as FedEM
from fedkin.methods.fedgroup import FedGroup as FedGroup
from fedkin.methods.fedgroup import FedGrouProx as FedGrouProx
from fedkin.methods.fedper import FedPer as FedPer
from fedkin.methods.fedper import FedRep as FedRep
from fedkin.methods.fedprox import FedProx as FedProx
from fedkin.methods.fedrc import FedRC as FedRC
from fedkin.methods.fedsim import FedSim as FedSim
from fedkin.methods.fedsoft import FedSoft as FedSoft
from fedkin.methods.feroma import FEROMA as FEROMA
from fedkin.methods.fesem import FeSEM as FeSEM
from fedkin.methods.fesem import FeSEMMig as FeSEMMig
from fedkin.methods.flexcfl import FlexCFL as FlexCFL
from fedkin.methods.flhc import FLHC as FLHC
from fedkin.methods.flux import FLUX as FLUX
from fedkin.methods.gossip import Gossip as Gossip
from fedkin.methods.gossip import Local as Local
from fedkin.methods.hierarchical import Hierarchical as Hierarchical
from fedkin.methods.ifca import IFCA as IFCA
from fedkin.methods.ifca import IFCAMig as IFCAMig
from fedkin.methods.oracle import Oracle as Oracle
from fedkin.methods.pacfl import PACFL as PACFL
from fedkin.methods.panm import PANM as PANM
from fedkin.methods.panm import PANMLoss as PANMLoss
from fedkin.methods.pens import PENS as PENS
from fedkin.methods.pfedme import PFedMe as PFedMe
from fedkin.methods.private_clusters import PrivateClusters as PrivateClusters
from fedkin.methods.sattler import SattlerCFL as SattlerCFL
from fedkin.methods.scaffold import SCAFFOLD as SCAFFOLD

METHODS: dict[str, type] = {
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "fedper": FedPer,
    "fedrep": FedRep,
    "ditto": Ditto,
    "apfl": APFL,
    "pfedme": PFedMe,
    "scaffold": SCAFFOLD,
    "fedgroup": FedGroup,
    "fedgrouprox": FedGrouProx,
    "flexcfl": FlexCFL,
    "sattler": SattlerCFL,
    "flhc": FLHC,
    "ifca": IFCA,
    "ifca_mig": IFCAMig,
    "fesem": FeSEM,
    "fesem_mig": FeSEMMig,
    "fedsim": FedSim,
    "feddrift": FedDrift,
    "cflgp": CFLGP,
    "flux": FLUX,
    "feroma": FEROMA,
    "pacfl": PACFL,
    "fedem": FedEM,
    "fedrc": FedRC,
    "fedsoft": FedSoft,
    "private_clusters": PrivateClusters,
    "hierarchical": Hierarchical,
    "athena": Athena,
    "panm": PANM,
    "panm_loss": PANMLoss,
    "pens": PENS,
    "gossip": Gossip,
    "oracle": Oracle,
    "local": Local,
}


for _method in METHODS.values():
    suggesting(sys.modules[__name__], _method.__name__)
