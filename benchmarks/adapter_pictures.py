"""``python -m benchmarks.adapter_pictures --backbone FOLDER``: the picture of the page "Adapters".

Distances between clients' updates after two epochs alone, by A, by B and by the last layer. The
clients are those of ``permuted``: four groups with the same texts, whose labels have other numbers.
FEDKIN_DATA names the folder of the texts.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

import fedkin as fk
from benchmarks.adapters import LAYER, LOCAL, federation
from fedkin.core.randomness import Stream
from fedkin.measures.factor_distances import mean_cosine_distances
from fedkin.reporting.style import STYLE, new_figure, write
from fedkin.tasks.train import train

IMAGE = Path(__file__).resolve().parents[1] / "docs" / "images" / "adapter-distances.svg"


def updates(data: Any, model: Any) -> Float[np.ndarray, "N P"]:
    """Updates of all clients after a training alone, from one model."""
    world = fk.SimulatedWorld(data, model, LOCAL)
    stream = Stream(1, 0, "picture")
    everybody = np.arange(data.clients)
    reply = train(
        world,
        world.initial(stream)[None],
        everybody,
        np.zeros(data.clients, np.int64),
        work=LOCAL,
        stream=stream,
    )
    return reply.update


def picture(data: Any, model: Any) -> Figure:
    """Three matrices of distances, with the clients sorted by their group."""
    order = np.argsort(data.true_clusters, kind="stable")
    sent = updates(data, model)[order]
    factors = model.spec.factors
    parts = {
        "A": [factor.a for factor in factors],
        "B": [factor.b for factor in factors],
        "last layer": [model.spec.head],
    }
    figure = new_figure(8.0, 3.2)
    panels = figure.subplots(1, 3)
    for axes, (name, slices) in zip(panels, parts.items(), strict=True):
        distances = mean_cosine_distances(sent, slices)
        shown = axes.imshow(distances, cmap="cividis", vmin=0, vmax=1.2)
        axes.set_title(name)
        axes.set_xlabel("client, by group")
        axes.set_xticks([])
        axes.set_yticks([])
    panels[0].set_ylabel("client, by group")
    bar = figure.colorbar(shown, ax=panels, fraction=0.025)
    bar.set_label("1 - cosine of updates")
    return figure


def main() -> None:
    """Draw the picture."""
    import matplotlib

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", type=Path, required=True, help="a local folder of MiniLM")
    backbone = fk.models.from_transformers(parser.parse_args().backbone)
    data = fk.models.features(federation("permuted", backbone), backbone, layer=LAYER)
    model = fk.lora(data, backbone, layers=(LAYER,))
    with matplotlib.rc_context(STYLE):
        write(picture(data, model), IMAGE)


if __name__ == "__main__":
    main()
