"""Writes a page for the manager of each hospital: how well its lengths of stay are predicted, by
what, and why.

    python examples/length_of_stay/statement.py runs/stays

The argument is the folder of a finished run. Pages are written into its folder ``statements``. The
choice is the same as with ``fedkin serve-choice``, for an equal number of parts (``--folds``).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fedkin as fk
from fedkin.analysis.serving.candidates import OWN, WITH_CLUSTER
from fedkin.analysis.serving.served_models import ServedClient, ServedModels

FEW = 10  # checks with fewer patients are called uncertain


@dataclass(frozen=True)
class Check:
    """Absolute errors of predictions, in days, for the patients that were kept for the check.

    Attributes:
        served: with the prediction that serves the hospital.
        own: with the prediction from the hospital's patients alone.
        mean: with the mean stay of the hospital's other patients.
    """

    served: np.ndarray
    own: np.ndarray
    mean: np.ndarray

    @property
    def saved(self) -> tuple[float, float]:
        """Days that the served prediction is closer than the own one: mean and standard error."""
        days = self.own - self.served
        return float(days.mean()), float(days.std(ddof=1) / np.sqrt(len(days)))


def main() -> None:
    """Write the pages."""
    options = read_options()
    run = fk.Run.load(options.run)
    served = fk.serve(run, folds=options.folds)
    settings = run.config.data
    stays: Any = pd.read_csv(settings["path"])
    folder = options.run / "statements"
    folder.mkdir(exist_ok=True)
    for hospital in served.rows:
        patients = stays[stays[settings["client"]] == hospital.name]
        check = errors_in_days(served, hospital, patients, settings["label"])
        page = statement(served, hospital, patients[settings["label"]], check)
        (folder / f"{hospital.name}.md").write_text(page, encoding="utf-8")
    print(f"{len(served.rows)} statements: {folder}")


def errors_in_days(
    served: ServedModels, hospital: ServedClient, patients: Any, label: str
) -> Check | None:
    """The errors for the patients kept for the check; None for fewer than two."""
    checked = patients[patients["split"] == "test"]
    others = patients[patients["split"] != "test"]
    if len(checked) < 2:
        return None
    days = checked[label].to_numpy(float)
    served_days = served.predict(checked, client=hospital.name)
    own_scores = served.candidates.own.of_client(hospital.client)(checked)
    own_days = served.task_type.predict(own_scores)
    return Check(
        served=np.abs(days - served_days),
        own=np.abs(days - own_days),
        mean=np.abs(days - others[label].mean()),
    )


def statement(
    served: ServedModels, hospital: ServedClient, days: pd.Series, check: Check | None
) -> str:
    """The page of a hospital, as Markdown."""
    lines = [
        f"# Length of stay: hospital {hospital.name}",
        "",
        f"{len(served.rows)} hospitals looked for the best way to predict how long a patient will "
        "stay. No hospital showed its patients' records to another.",
        "",
        "| your hospital | |",
        "|---|---|",
        f"| patients | {len(days):,} |",
        f"| mean stay | {days.mean():.1f} days |",
        *error_rows(hospital.served_by, check),
        "",
        "## What we recommend",
        "",
        f"Use {recommended(served, hospital)}.",
        "",
        "## Why",
        "",
        reason(served, hospital),
        "",
        *how_sure(served, hospital, check),
    ]
    return "\n".join(lines) + "\n"


def error_rows(served_by: str, check: Check | None) -> list[str]:
    """The rows of the table about errors."""
    if check is None:
        return []
    rows = [
        f"| error of a prediction from your patients alone | {check.own.mean():.1f} days |",
        f"| error if you always expect your mean stay | {check.mean.mean():.1f} days |",
    ]
    if served_by != OWN:
        recommended_row = (
            f"| error of the recommended prediction | {check.served.mean():.1f} days |"
        )
        rows.insert(0, recommended_row)
    return rows


def recommended(served: ServedModels, hospital: ServedClient) -> str:
    """The prediction that serves a hospital."""
    if hospital.served_by == OWN:
        return "the prediction that is made from your patients alone"
    if hospital.served_by == WITH_CLUSTER:
        similar = [
            row.name
            for row in served.rows
            if row.cluster == hospital.cluster and row.client != hospital.client
        ]
        partner = f"the prediction of a group of similar hospitals (you with {', '.join(similar)})"
        if not similar:
            partner = "the prediction of your group, in which you are alone"
    else:
        partner = f"the prediction of all {len(served.rows)} hospitals together"
    return f"the mean of two predictions: the one from your patients alone, and {partner}"


def reason(served: ServedModels, hospital: ServedClient) -> str:
    """Why this prediction serves a hospital."""
    if hospital.held_out == 0:
        return "You have too few patients to find out whether other hospitals help you."
    gain = served.service.gain
    hidden = (
        f"For {hospital.held_out} of your patients we hid the stay and predicted it. "
        f"On them, the shared prediction was {compared(hospital.gain)} yours alone"
    )
    all_hospitals = f"On average over all hospitals, sharing is {compared(gain)} working alone"
    if not served.service.gate:
        all_hospitals += ". That is too little for a rule, so each hospital's own patients decide"
    is_own = hospital.served_by == OWN
    if is_own and served.service.gate:
        return f"{all_hospitals}, but you are an exception. {hidden}. So you keep your own."
    if is_own and hospital.gain > 0:
        return f"{all_hospitals}. {hidden}. This may be chance, so you keep your own."
    if is_own:
        return f"{all_hospitals}. {hidden}. So you keep your own."
    if served.service.gate:
        return f"{all_hospitals}. {hidden}. Your patients give no reason against it."
    return f"{all_hospitals}. {hidden}. This is more than chance explains."


def compared(gain: float) -> str:
    """How the shared prediction compares with the own one, in words."""
    size = f"{abs(gain):.0%}"
    if size == "0%":
        return "as good as"
    return f"{size} {'better' if gain > 0 else 'worse'} than"


def how_sure(served: ServedModels, hospital: ServedClient, check: Check | None) -> list[str]:
    """How much the errors say, as lines."""
    if check is None:
        return ["Too few of your patients were left to check the errors."]
    count = len(check.own)
    lines = [
        f"The errors in the table are means over {count} other patients, who were used for nothing "
        "else. Percentages are of a score in which a long stay counts more than a short one."
    ]
    if count < FEW:
        lines.append("These are few patients, so the errors are uncertain.")
    if hospital.served_by != OWN:
        saved, deviation = check.saved
        if abs(saved) <= 2 * deviation:
            lines.append("On them, the two predictions cannot be told apart.")
        elif saved > 0:
            lines.append(f"On them, the recommended prediction is {saved:.1f} days closer.")
        else:
            lines.append(
                f"On them, your own prediction is {-saved:.1f} days closer: please tell us, "
                "since the choice should be made again."
            )
    return lines


def read_options() -> argparse.Namespace:
    """The arguments of the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, help="the folder of a finished run")
    parser.add_argument("--folds", type=int, default=5, help="parts that are hidden in turn")
    return parser.parse_args()


if __name__ == "__main__":
    main()
