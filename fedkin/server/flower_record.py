"""Converts a message between fedkin's frames and Flower's records.

A record has one ConfigRecord with the message's header and its small arrays, and an ``Array`` for
each large float array (a model or an update). An array is large above 64 KiB in a request, and
above 4 MiB in a reply (``message.IN_REQUEST``, ``message.IN_REPLY``).

Large arrays: Flower (1.41) splits only an ``Array`` into chunks (5 MB each), and stores equal
objects once. So a model for a hundred nodes is uploaded once; inside a ConfigRecord it would be
sent a hundred times.

Small arrays: every ``Array`` adds three objects to a message, and every object takes one request to
the SuperLink and one from it, of 12 ms each. For a small array this costs more time than sending
its bytes again, so it is sent in the ConfigRecord.

Only the standard library and Flower are imported here.
"""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedkin.server.frames import Frame, Frames

_ARRAYS = "arrays"
_REST = "rest"
_MESSAGE = "message"
# A record with this number of separate arrays is refused. fedkin sends fewer.
_MAX_ARRAYS = 24


def parts_to_record(parts: Frames) -> RecordDict:
    """Convert a message to the record that Flower sends."""
    arrays = {
        name: Array(part.dtype, part.shape, "fedkin", part.data)
        for name, part in parts.arrays.items()
    }
    record = RecordDict({_REST: ConfigRecord({_MESSAGE: parts.rest})})
    if arrays:
        record[_ARRAYS] = ArrayRecord(arrays)
    return record


def record_to_parts(record: RecordDict) -> Frames:
    """The message in a record that Flower has delivered. Raises ValueError if the record holds no
    message."""
    try:
        rest = record.config_records[_REST][_MESSAGE]
        arrays = record.array_records.get(_ARRAYS, {})
        parts = {
            name: Frame(array.dtype, tuple(array.shape), array.data)
            for name, array in arrays.items()
        }
    except (KeyError, AttributeError, TypeError) as error:
        raise ValueError(
            f"the message in Flower's record cannot be read ({type(error).__name__})"
        ) from error
    all_bytes = all(isinstance(part.data, bytes) for part in parts.values())
    if not isinstance(rest, bytes) or not all_bytes:
        raise ValueError("a message's header and arrays must be bytes in Flower's record")
    if len(parts) >= _MAX_ARRAYS:
        raise ValueError(
            f"a message must have fewer than {_MAX_ARRAYS} separate arrays, got {len(parts)}"
        )
    return Frames(rest, parts)
