"""Names of federations, peers and nodes."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def is_name(text: object) -> bool:
    """Whether this is a valid name of a federation, peer or node: up to 64 letters, digits, ``_``,
    ``.`` and ``-``."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None
