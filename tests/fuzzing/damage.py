"""Damage to bytes and to text, drawn from a seed."""

from __future__ import annotations

import numpy as np

_TOKENS = [
    *(
        "-1",
        "0",
        "1e308",
        "-1e308",
        "1e-320",
        "nan",
        "inf",
        "true",
        "''",
        "[]",
        "{}",
        "[[1, 2], [3]]",
        "2 ** 63",
    ),
    *(
        "9223372036854775808",
        "-9223372036854775809",
        "1" * 400,
        "'a b'",
        '"[red]"',
        '"\\u0000"',
        "'é\U0001f600'",
    ),
    *(
        "1979-05-27T07:32:00Z",
        "{a = 1}",
        "[" * 60,
        "'" + "x" * 5000 + "'",
        "0x10",
        "'nan'",
        "'../..'",
        "'/'",
    ),
]
_SIZES = [0, 1, 2**31, 2**62, 2**64 - 1]  # where a file says how long something is


def damaged_bytes(rng: np.random.Generator, content: bytes) -> bytes:
    """The content after one to three accidents: bits that flip, bytes that are lost, doubled, moved
    or overwritten.

    Args:
        rng: draws.
        content: as it was.
    """
    data = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        if not data:
            return bytes(data)
        first, second = sorted(int(place) for place in rng.integers(0, len(data) + 1, 2))
        match rng.integers(7):
            case 0:
                data[min(first, len(data) - 1)] ^= 1 << int(rng.integers(8))
            case 1:
                del data[first:]
            case 2:
                del data[first : first + int(rng.integers(1, 9))]
            case 3:
                data[first:first] = data[first : first + int(rng.integers(1, 200))]
            case 4:
                data[first : first + 8] = rng.integers(0, 256, 8, np.uint8).tobytes()
            case 5:
                data[first:second] = b"\0" * (second - first)
            case _:
                data[first : first + 8] = _SIZES[int(rng.integers(len(_SIZES)))].to_bytes(
                    8, "little"
                )
    return bytes(data)


def damaged_text(rng: np.random.Generator, text: str) -> str:
    """Lines of a configuration or a table after one to three mistakes: values that cannot be meant,
    keys that are misspelt, lines that are doubled, lost or swapped.

    Args:
        rng: draws.
        text: as it was.
    """
    lines = text.splitlines()
    for _ in range(rng.integers(1, 4)):
        if not lines:
            break
        one, other = (int(place) for place in rng.integers(0, len(lines), 2))
        key, equals, value = lines[one].partition("=")
        token = _TOKENS[int(rng.integers(len(_TOKENS)))]
        match rng.integers(8):
            case 0 | 1 | 2 if equals:
                lines[one] = f"{key}= {token}"
            case 3 if equals:
                place = int(rng.integers(len(key)))
                lines[one] = f"{key[:place]}{key[place + 1 :]}={value}"
            case 4:
                lines.insert(one, lines[other])
            case 5:
                del lines[one]
            case 6:
                lines[one], lines[other] = lines[other], lines[one]
            case _:
                cells = lines[one].split(",")
                cells[int(rng.integers(len(cells)))] = token
                lines[one] = ",".join(cells)
    return "\n".join(lines) + "\n"
