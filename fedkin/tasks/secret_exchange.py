"""The exchanges of keys and shares in a secret sum (the server learns only the sum of the clients'
vectors): the first, second and last of four exchanges.

In the third exchange clients train and send masked vectors (``secret_training``). If a client
refuses a request that would not be safe, it raises an error; a real site sends this error as its
reply. Shapes: n rows of a task (clients), G holders of a client's shares, including the client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.client import Client
from fedkin.core.client_memory import OwnMemory
from fedkin.core.schema import Memory, Rows, integers
from fedkin.core.task import Task, each, setting
from fedkin.secret import client as protocol
from fedkin.secret.client import ANNOUNCED, LEAST, SEALED, SESSION, Group, Session
from fedkin.secret.signed_keys import SIGNATURE, check_signed, sign
from fedkin.security.secret_keys import SEED

SESSION_MEMORY = {"secret_session": Memory(str(SESSION), np.int16)}
_BYTES: dict[str, Any] = {"high": 255, "counted": False}


def context(sum_id: str, group: int) -> bytes:
    """The bytes that name a group's secret sum. All keys for this sum are derived from them."""
    return f"{sum_id} group {group}".encode()


def kept_session(memory: OwnMemory) -> Session:
    """The session (secrets) of a client's last secret sum, from the client's memory."""
    return Session.of(memory.get("secret_session"))


@dataclass(frozen=True)
class SecretKeys(Task):
    """New keys of each client for one secret sum.

    Attributes:
        sum_id: unique id of this sum; it includes the round.
        group: number of each client's group.
        signed: whether the keys must be signed.
    """

    sum_id: str = setting()
    group: Int[np.ndarray, "n"] = each()
    signed: bool = setting(default=False)

    up = Rows(announced=integers(str(ANNOUNCED), **_BYTES), signature=integers("S", **_BYTES))
    memory = SESSION_MEMORY
    can_be_lost = False  # a simulated client fails in the training instead

    def compute(self, client: Client) -> dict[str, Any]:
        about = context(self.sum_id, int(self.group[0]))
        session, announced = protocol.begin(about)
        client.memory["secret_session"] = session.array()
        signature = np.zeros(0, np.uint8)
        if self.signed:
            alone = Group(about, client.id, np.array([client.id]), announced[None])
            signature = sign(client.identity, alone)
        return {"announced": announced.astype(np.int64), "signature": signature.astype(np.int64)}

    def sizes(self) -> dict[str, int]:
        return {"S": SIGNATURE if self.signed else 0}


@dataclass(frozen=True, kw_only=True)
class Holders:
    """Base class of tasks that tell a client the holders of its shares (the client itself and its
    neighbours).

    Attributes:
        sum_id: unique id of the sum, as in ``SecretKeys``.
        group: number of each client's group, as in ``SecretKeys``.
        holders: numbers of the holders, padded with -1.
        announced: announcement (public keys and commitment) of each holder, in bytes.
        least: smallest number of clients in a sum.
    """

    sum_id: str = setting()
    group: Int[np.ndarray, "n"] = each()
    holders: Int[np.ndarray, "n G"] = each()
    announced: Int[np.ndarray, "n G _"] = each()
    least: int = setting(default=LEAST)

    def group_of(self, client: int, row: int = 0) -> Group:
        """The holders of one client's shares, and their announcements, as this task states them.

        Args:
            client: number of the client.
            row: the client's row in the arrays of this task.
        """
        about = context(self.sum_id, int(self.group[row]))
        return Group(
            about=about,
            me=client,
            holders=self.holders[row],
            announced=self.announced[row].astype(np.uint8),
            least=self.least,
        )


@dataclass(frozen=True, kw_only=True)
class SecretShares(Holders, Task):
    """Shares of each client's secrets, encrypted ("sealed") for its holders.

    Attributes:
        signatures: signatures of the holders' announcements; empty if announcements are not signed.
    """

    signatures: Int[np.ndarray, "n G _"] = each()

    up = Rows(sealed=integers(f"G {SEALED}", **_BYTES))
    memory = SESSION_MEMORY
    can_be_lost = False

    def compute(self, client: Client) -> dict[str, Any]:
        group = self.group_of(client.id)
        if self.signatures.shape[-1] or client.identity is not None:
            check_signed(client.identity, group, self.signatures[0].astype(np.uint8))
        session, sealed = protocol.share(kept_session(client.memory), group)
        client.memory["secret_session"] = session.array()
        return {"sealed": sealed.astype(np.int64)}

    def sizes(self) -> dict[str, int]:
        return {"G": self.holders.shape[1]}


@dataclass(frozen=True, kw_only=True)
class SecretReveal(Holders, Task):
    """A client's shares of its neighbours' secrets: one for each neighbour about which the server
    asks.

    Attributes:
        partners: holders with whom the client has masked its vector.
        sealed: the shares that each holder has encrypted for the client, in bytes.
        wanted: 0 for nothing; 1 for a share of the seed of a neighbour whose vector is in the sum;
            2 for a share of the key of a neighbour that has dropped out.
    """

    partners: Bool[np.ndarray, "n G"] = each()
    sealed: Int[np.ndarray, "n G _"] = each()
    wanted: Int[np.ndarray, "n G"] = each()

    up = Rows(shares=integers(f"G {SEED}", **_BYTES))
    memory = SESSION_MEMORY
    can_be_lost = False

    def compute(self, client: Client) -> dict[str, Any]:
        group = self.group_of(client.id)
        sealed = self.sealed[0].astype(np.uint8)
        session, shares = protocol.reveal(
            session=kept_session(client.memory),
            group=group,
            partners=self.partners[0],
            sealed=sealed,
            wanted=self.wanted[0],
        )
        client.memory["secret_session"] = session.array()
        return {"shares": shares.astype(np.int64)}

    def sizes(self) -> dict[str, int]:
        return {"G": self.holders.shape[1]}


@dataclass(frozen=True)
class SecretForget(Task):
    """Clients that have not reached the last exchange of a secret sum delete their secrets.

    The sum has failed, or was computed without them.
    """

    memory = SESSION_MEMORY
    delivery = "next"
    can_be_lost = False

    def compute(self, client: Client) -> dict[str, Any]:
        if "secret_session" in client.memory:
            client.memory["secret_session"] = Session.of(None).array()
        return {}
