"""``fedkin reproduce fedgroup-1``: the runs behind a claim, by its key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedkin.core.errors import ConfigError
from papers.claims.claim import evidence_jobs, judge
from papers.claims.table import keys
from papers.table_request import TableRequest, plain, request_table, shipped


def request(
    name: str,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    seeds: int | None = None,
    folder: Path | None = None,
) -> TableRequest:
    """Some cells of a table, or the cells that judge a claim.

    Args:
        name: of the table, as for ``request_table``, or the key of a claim.
        rows: as for ``request_table``; none with a claim.
        columns: as for ``request_table``; none with a claim.
        seeds: seeds 0 to ``seeds - 1``; None: the recipe's.
        folder: of the stores; None: the default folder.

    Raises:
        ConfigError: as ``request_table`` does; rows or columns with a claim.
    """
    claim = keys().get(plain(name))
    if claim is None:
        return request_table(name, rows, columns, seeds, folder)
    if rows or columns:
        raise ConfigError(
            f"{plain(name)} is a claim, which has its rows and columns: leave out --rows and "
            f"--columns, or use the table: fedkin reproduce {claim.table} --rows ..."
        )
    whole = request_table(claim.table, seeds=seeds, folder=folder)
    # Rows that the report has no run of, such as days of convolutions, are left out.
    known = [*whole.stored().runs, *shipped(whole.store.parent, whole.paper)]
    verdicts = judge(claim, {claim.store: known}).verdicts
    return replace(whole, jobs=tuple(evidence_jobs(claim, verdicts)), claim=plain(name))
