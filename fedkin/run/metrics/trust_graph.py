"""The trust graph of peer-to-peer methods (which peers each peer trusts): its metrics, its storage
in records, and columns for the table of clients."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.method import State
from fedkin.core.model_spec import BYTES_PER_NUMBER
from fedkin.core.records import Record
from fedkin.core.strict_json import finite_or_none
from fedkin.methods.decentralized import PeerState


def peers_record(
    state: State,
    reachable: Int[np.ndarray, "c"],
    true_clusters: Int[np.ndarray, "N"] | None,
    keeping: bool,
) -> Record:
    """The entries about peers in a round's record; empty if the method has no peers.

    ``neighbours`` is the mean number of peers that a peer trusts. ``neighbour_precision`` is the
    share of a peer's neighbours in its true cluster, averaged over peers with neighbours.
    ``neighbour_recall`` is the share of a peer's true cluster that it trusts, averaged over peers
    whose true cluster has other peers. Both are None without true clusters, or if no peer trusts
    another. ``messages`` is the number of replies between peers so far. Row i of ``trust`` holds
    the peers that peer i trusts.

    Args:
        state: the state after the round.
        reachable: ids of the reachable peers; only these count.
        true_clusters: true cluster of each peer, if known.
        keeping: whether the record includes ``trust``.
    """
    if not isinstance(state, PeerState):
        return {}
    trust = state.trust[np.ix_(reachable, reachable)]
    precision, recall = neighbour_agreement(
        trust, None if true_clusters is None else true_clusters[reachable]
    )
    return {
        "neighbours": float(trust.sum(axis=1).mean()),
        "neighbour_precision": _mean(precision),
        # Undefined if no peer has chosen neighbours; 0 would look like a wrong choice.
        "neighbour_recall": _mean(recall) if trust.any() else None,
        "messages": int(state.messages[:, 0].sum()),
        **({"trust": pack_trust(state.trust)} if keeping else {}),
    }


def neighbour_agreement(
    trust: Bool[np.ndarray, "c c"], true_clusters: Int[np.ndarray, "c"] | None
) -> tuple[Float[np.ndarray, "c"], Float[np.ndarray, "c"]]:
    """Precision and recall of each peer's neighbours with respect to its true cluster. Precision is
    NaN for a peer without neighbours, recall for a peer that is alone in its true cluster; both are
    NaN without true clusters."""
    nothing = np.full(len(trust), np.nan)
    if true_clusters is None:
        return nothing, nothing
    same = (true_clusters[:, None] == true_clusters) & ~np.eye(len(true_clusters), dtype=bool)
    correct = (trust & same).sum(axis=1)
    trusted = trust.sum(axis=1)
    others = same.sum(axis=1)
    return tuple(
        np.divide(correct, whole, out=nothing.copy(), where=whole > 0)
        for whole in (trusted, others)
    )  # type: ignore[return-value]


def peer_columns(
    state: State,
    clients: Int[np.ndarray, "c"],
    true_clusters: Int[np.ndarray, "N"] | None,
    parameters: int,
) -> Mapping[str, np.ndarray]:
    """Columns about peers for the table of clients: the number of neighbours, their precision and
    recall (NaN if undefined), and the traffic with other peers.

    Args:
        state: the state at the end of the run.
        clients: ids of the peers in the table's rows.
        true_clusters: true cluster of each peer, if known.
        parameters: P, the number of parameters, for the bytes.
    """
    if not isinstance(state, PeerState):
        return {}
    trust = state.trust[np.ix_(clients, clients)]
    precision, recall = neighbour_agreement(
        trust, None if true_clusters is None else true_clusters[clients]
    )
    # Neighbours are counted among the peers in the table's rows, which are the evaluated ones.
    # Messages were counted as they were sent, so they include those with all other peers.
    columns: dict[str, Any] = {"neighbours": trust.sum(axis=1), "neighbour_precision": precision}
    # If no peer trusts another, no neighbours were chosen (as in gossip), and a recall of 0 would
    # look like a wrong choice. It is therefore undefined, as the precision is.
    columns["neighbour_recall"] = recall if trust.any() else np.full(len(recall), np.nan)
    for side, name in enumerate(("got", "given")):
        columns[f"messages_{name}"] = state.messages[clients, side]
        columns[f"bytes_{name}"] = state.vectors[clients, side] * parameters * BYTES_PER_NUMBER
    return columns


def pack_trust(trust: Bool[np.ndarray, "N N"]) -> str:
    """Encode a square boolean matrix as text: its bits, compressed by zlib, in base 64."""
    return base64.b64encode(zlib.compress(np.packbits(trust).tobytes(), 9)).decode()


def unpack_trust(text: str, peers: int) -> Bool[np.ndarray, "N N"]:
    """Decode a matrix with ``peers`` rows that ``pack_trust`` encoded."""
    bits = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)
    return np.unpackbits(bits, count=peers * peers).astype(bool).reshape(peers, peers)


def trust_over_time(records: Sequence[Record], peers: int) -> dict[int, Bool[np.ndarray, "N N"]]:
    """The trust graph after the rounds in which it was stored: row i holds the peers that peer i
    trusts. Empty without peers.

    Args:
        records: records of a run.
        peers: number of peers.
    """
    stored = [record for record in records if isinstance(record.get("trust"), str)]
    return {record["round"]: unpack_trust(record["trust"], peers) for record in stored}


def _mean(values: Float[np.ndarray, "c"]) -> float | None:
    """The mean of the values that are not NaN; None if all are."""
    known = values[np.isfinite(values)]
    return finite_or_none(float(known.mean())) if len(known) else None
