"""What serves each client, in the report: nothing without a choice, and the largest gain first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import fedkin as fk
from fedkin.analysis.serving.served_models import FILE as WRITTEN
from fedkin.reporting.html.served_table import FILE, served_table


def test_a_report_shows_the_choice(tmp_path: Path) -> None:
    data = fk.data.digits(clients=4)
    model = fk.models.mclr(data)
    run = fk.simulate(fk.FedAvg(), data, model, rounds=2, cohort=4, out=tmp_path / "run")
    assert served_table(run)["rows"] == []
    assert served_table(replace(run, folder=None))["rows"] == []

    served = fk.serve(run, folds=2)
    served.save(tmp_path / "run")
    shown = served_table(run)
    gains = sorted((row.gain for row in served.rows), reverse=True)
    assert [row[3] for row in shown["rows"]] == [f"{gain:+.1%}" for gain in gains]
    counts = served.summary()["served_by"]
    for name, count in counts.items():
        assert f"{count} by {name}" in shown["note"] or not count
    assert f"{served.summary()['gain']:+.1%}" in shown["note"]
    assert FILE == WRITTEN

    text = fk.report(run, tmp_path / "report.html").read_text()
    assert '<details id="served"' in text and "What serves each client" in text
