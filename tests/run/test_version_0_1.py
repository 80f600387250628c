"""Run folders of version 0.1 are read under today's names, and not resumed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedkin as fk
from fedkin.core.codec import decode, encode
from fedkin.core.errors import CheckpointError
from fedkin.data.federated import FederatedData
from fedkin.models import mclr
from fedkin.run.results import Run

# What version 0.1 called the keys of records and summaries, and arrays of checkpoints.
FORMER = {
    **{"bottom_decile": "worst_decile", "bytes_by_operation": "bytes_by_verb", "nonfinite": "broken"},
    **{"shifts_detected": "noticed", "data_shifts": "moved", "data_shifts_assigned": "moved_warm"},
    **{"data_shifts_new": "moved_fresh", "shifts_detected_true": "noticed_moved"},
    **{"detection_delay_sum": "notice_delay_sum", "matched_share": "right", "mismatched": "astray"},
    **{"migrations_correct": "migrations_right", "true_cluster_changes": "events", "changes_recovered": "answered"},
    **{"recovery_delay_sum": "answer_delay_sum", "newcomers_matched": "newcomers_settled"},
    "memory/cluster_metrics_assignment": "memory/watch_assignment",
    "memory/cluster_metrics_true_clusters": "memory/watch_truth",
    "memory/cluster_metrics_shift_since": "memory/watch_move_since",
    "memory/cluster_metrics_change_since": "memory/watch_event_since",
    "memory/cluster_metrics_newcomer_since": "memory/watch_newcomer_since",
}


def renamed(entries: dict[str, Any]) -> dict[str, Any]:
    return {FORMER.get(name, name): value for name, value in entries.items()}


def digest_of(header: dict[str, Any], arrays: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape};".encode() + arrays[name].tobytes())
    return digest.hexdigest()


def make_former(folder: Path) -> None:
    """Rewrite a run folder as version 0.1 would have written it."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(renamed(line)) + "\n" for line in lines))
    (folder / "migrations.jsonl").rename(folder / "moves.jsonl")
    (folder / "SHA256SUMS").unlink()
    clients = pd.read_parquet(folder / "clients.parquet").rename(columns={"true_cluster": "truth"})
    clients.to_parquet(folder / "clients.parquet", index=False)
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps(renamed(summary)))
    for file in (folder / "checkpoints").iterdir():
        header, arrays = decode(file.read_bytes())
        del header["digest"], header["records"]
        header |= {"layout": "2", "state": header["state"].replace("fedkin.core.method", "fedkin.method")}
        arrays = renamed(arrays)
        file.write_bytes(encode({**header, "digest": digest_of(header, arrays)}, arrays))


def run(data: FederatedData, **options: Any) -> Run:
    settings = {"rounds": 3, "cohort": 4, "shift": fk.SwapAll(), **options}
    return fk.simulate(fk.IFCA(clusters=2), data, mclr(data), against=[fk.FedAvg()], **settings)


@pytest.fixture
def former(tiny: FederatedData, tmp_path: Path) -> Path:
    run(tiny, out=tmp_path / "run")
    for folder in (tmp_path / "run", tmp_path / "run/against/fedavg"):
        make_former(folder)
    return tmp_path / "run"


def test_it_reads_as_if_it_were_of_today(tiny: FederatedData, former: Path) -> None:
    ours, theirs = run(tiny), Run.load(former)
    for one, other in ((ours, theirs), (ours.against["fedavg"], theirs.against["fedavg"])):
        assert one.records == other.records and one.migrations == other.migrations
        assert type(one.state) is type(other.state) and one.models.tobytes() == other.models.tobytes()
        assert one.memory.keys() == other.memory.keys()
        pd.testing.assert_frame_equal(one.clients, other.clients)
        assert one.summary() | {"seconds": 0} == other.summary() | {"seconds": 0}


def test_a_report_shows_it(former: Path) -> None:
    assert "bottom 10%" in fk.report(former).read_text()


def test_an_unfinished_one_is_reported_as_far_as_it_got(former: Path) -> None:
    (former / "summary.json").unlink()
    page = fk.report(former).read_text()
    assert "damaged" not in page and "bottom 10%" in page


def test_it_is_not_resumed_and_the_reason_is_given(tiny: FederatedData, former: Path) -> None:
    before = {file: file.read_bytes() for file in former.rglob("*") if file.is_file()}
    with pytest.raises(CheckpointError, match=r"run of fedkin 0\.1.*finish it with fedkin 0\.1, or start it anew"):
        run(tiny, rounds=5, out=former, resume=True)
    assert {file: file.read_bytes() for file in former.rglob("*") if file.is_file()} == before
