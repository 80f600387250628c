"""The features of samples, as an array or as a source larger than memory."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Features(Protocol):
    """Numbers [M ...]: an array, or a source larger than memory that returns slices of its rows
    (samples)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of samples M, then the shape of a sample."""
        ...

    @property
    def dtype(self) -> Any:
        """The type of the numbers."""
        ...

    def __getitem__(self, rows: slice, /) -> Any: ...
