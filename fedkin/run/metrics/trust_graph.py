"""The trust graph of peer-to-peer methods: its metrics, and the rounds in which it is stored."""

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
from fedkin.methods.decentralized import PeerState
from fedkin.run.metrics.accuracy import finite_or_none


def peers_record(
    state: State,
    reachable: Int[np.ndarray, "c"],
    true_clusters: Int[np.ndarray, "N"] | None,
    keeping: bool,
) -> Record:
    """The peer entries of a round's record; empty if the method has no peers.

    neighbours: mean number of peers that a peer trusts. neighbour_precision: the share of these in
    its true cluster, mean over the peers that trust another. neighbour_recall: the share of its
    true cluster that it trusts, mean over the peers with others in their true cluster. (Both are
    None without true clusters, or if no peer trusts another.) messages: replies between peers so
    far. trust: row i holds the peers that peer i trusts.

    Args:
        state: after the round.
        reachable: ids of the peers that count.
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
        "neighbour_recall": _mean(recall) if trust.any() else None,
        "messages": int(state.messages[:, 0].sum()),
        **({"trust": pack_trust(state.trust)} if keeping else {}),
    }


def neighbour_agreement(
    trust: Bool[np.ndarray, "c c"], true_clusters: Int[np.ndarray, "c"] | None
) -> tuple[Float[np.ndarray, "c"], Float[np.ndarray, "c"]]:
    """Precision and recall of every peer's neighbours; NaN if undefined."""
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
    """The peer columns of the table of clients: their neighbours, and their traffic with other
    peers.

    Args:
        state: at the end of the run.
        clients: ids of the rows.
        true_clusters: true cluster of each peer, if known.
        parameters: P, for bytes.
    """
    if not isinstance(state, PeerState):
        return {}
    trust = state.trust[np.ix_(clients, clients)]
    precision, recall = neighbour_agreement(
        trust, None if true_clusters is None else true_clusters[clients]
    )
    columns: dict[str, Any] = {"neighbours": trust.sum(axis=1), "neighbour_precision": precision}
    columns["neighbour_recall"] = recall if trust.any() else np.full(len(recall), np.nan)
    for side, name in enumerate(("got", "given")):
        columns[f"messages_{name}"] = state.messages[clients, side]
        columns[f"bytes_{name}"] = state.vectors[clients, side] * parameters * BYTES_PER_NUMBER
    return columns


def pack_trust(trust: Bool[np.ndarray, "N N"]) -> str:
    """A square boolean matrix as a short text: bits, compressed, in base 64."""
    return base64.b64encode(zlib.compress(np.packbits(trust).tobytes(), 9)).decode()


def unpack_trust(text: str, peers: int) -> Bool[np.ndarray, "N N"]:
    """The matrix with ``peers`` rows that ``pack_trust`` encoded."""
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
    known = values[np.isfinite(values)]
    return finite_or_none(float(known.mean())) if len(known) else None
