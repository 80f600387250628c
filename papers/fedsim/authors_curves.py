"""The mean curves that FedSim's authors published: accuracy by round, mean over their 35 seeds.

They are in results/ of the authors' repository, one CSV file a row. The repository has no licence.
So authors_curves.json has only the numbers that the figures show, rounded to four digits.

``python -m papers.fedsim.authors_curves FOLDER`` reads a checkout, and writes the file.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from papers.fedsim import network_recipes as networks
from papers.fedsim import recipes

SOURCE = "https://github.com/chamathpali/FedSim, commit 982b5db, results/"
FILE = Path(__file__).with_name("authors_curves.json")
DIGITS = 4
METHODS = {"FedAvg": "avg", "FedProx": "prox", "FedSim": "sim"}  # column of the authors' files
# File in results/ of each row that a figure shows.
FILES = {
    recipes.MNIST.row: "main/mnist.csv",
    recipes.FEMNIST.row: "main/femnist.csv",
    recipes.MEX.row: "main/mex.csv",
    recipes.GOODREADS.row: "main/goodreads.csv",
    "IID": "main/IID.csv",
    recipes.AUTHORS.row: "main/00.csv",
    recipes.AUTHORS_QUARTER.row: "main/2525.csv",
    "(0.5, 0.5)": "main/0505.csv",
    "(0.75, 0.75)": "main/7575.csv",
    "(1, 1)": "main/11.csv",
    networks.MNIST_CNN.row: "other/mnist.csv",
    networks.FEMNIST_CNN.row: "other/femnist.csv",
    networks.MEX_MLP.row: "other/mex.csv",
    networks.GOODREADS_TRAINED.row: "other/goodreads.csv",
}
Curves = dict[str, list[float]]  # accuracy after the rounds 0 to T, by method


def curves_of(row: str) -> Curves:
    """The authors' curves of a row; empty if they published none."""
    return _stored().get(row, {})


@lru_cache(maxsize=1)
def _stored() -> dict[str, Curves]:
    return json.loads(FILE.read_text())["curves"]


def read(checkout: Path) -> dict[str, Curves]:
    """The curves of all rows in a checkout of the authors' repository.

    Args:
        checkout: folder of the repository.

    Raises:
        ValueError: a file does not have a line for each round.
    """
    return {row: _read_file(checkout / "results" / name) for row, name in FILES.items()}


def _read_file(path: Path) -> Curves:
    with path.open(newline="") as file:
        rounds = list(csv.DictReader(file))
    if [int(line["round"]) for line in rounds] != list(range(len(rounds))):
        raise ValueError(f"{path}: expected one line for each of the rounds 0 to T, in this order")
    return {
        method: [round(float(line[column]), DIGITS) for line in rounds]
        for method, column in METHODS.items()
    }


def text(curves: Mapping[str, Curves]) -> str:
    """The content of the file: its source, and one line for each row.

    Args:
        curves: of all rows.
    """
    lines = [
        f"{json.dumps(row)}: {json.dumps(of_row, separators=(',', ':'))}"
        for row, of_row in curves.items()
    ]
    return f'{{"source": {json.dumps(SOURCE)},\n"curves": {{\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m papers.fedsim.authors_curves", description=__doc__)
    parser.add_argument("folder", type=Path, help="a checkout of the authors' repository")
    FILE.write_text(text(read(parser.parse_args().folder)))
