"""Replies that no node of fedkin sends: each is invalid, whatever it was made from."""

from __future__ import annotations

from random import Random

import numpy as np

from fedkin.server.message import RpcMessage, decode, encode


def tampered(what: str, reply: bytes, random: Random) -> bytes:
    """A reply's bytes after an attacker has changed them.

    Args:
        what: one of ``schedule.HOSTILE``.
        reply: as it was.
        random: which part is changed.
    """
    if what == "garbage":
        return random.randbytes(random.randrange(2000))
    if what == "cut":
        return reply[: random.randrange(len(reply))]
    if what == "deep":
        text = "[" * 50_000
        return len(text).to_bytes(8, "little") + text.encode()
    message = decode(reply)
    header = dict(message.header)
    arrays = dict(message.arrays)
    if "samples" in arrays and what == "shape":  # a handshake that names more clients is believed
        what = "empty"
    if what == "failed" or not arrays:
        return encode(RpcMessage({"failed": "no\nreply\x1b[2J" * 100}))
    name = random.choice(sorted(arrays))
    array = np.atleast_1d(arrays[name])
    if what == "empty":
        arrays = {}
    elif what == "missing":
        arrays.pop(name)
    elif what == "extra":
        arrays["extra"] = np.zeros(3, np.float32)
    elif what == "shape":
        arrays[name] = np.concatenate([array, array[:1]])
    elif what == "type":
        arrays[name] = array.astype(np.float64 if array.dtype.kind in "iub" else np.int64)
    elif what == "negative" and array.dtype.kind != "f":
        arrays[name] = array.astype(np.int64) - 2**40
    else:
        floats = [
            one
            for one in sorted(arrays)
            if arrays[one].dtype.kind == "f" and "loss" not in one and one != "cosine"
        ]
        for one in floats:
            # NaN is a valid loss, of a model that has diverged, and a valid cosine, of a zero
            # update.
            arrays[one] = np.full_like(arrays[one], np.nan)
        header |= {} if floats else {"failed": "nan"}
    return encode(RpcMessage(header, arrays))
