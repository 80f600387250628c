"""``python -m benchmarks``: measure everything and write the page."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import clustering, fedsim, measure, models, panm, report, torch_world
from fedkin.models.model import prepare_jax


def main() -> None:
    """Make the measurements that the options name, and write docs/benchmarks.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--turns", type=int, default=15, help="how often each engine is measured")
    parser.add_argument(
        "--flower-turns", type=int, default=3, help="Flower jobs of 30 rounds; 0 leaves Flower out"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks.md"))
    options = parser.parse_args()

    prepare_jax()  # before the first computation of any kind
    peak = measure.matrix_product(max(3, options.turns))
    training = {}
    for model in measure.EPOCHS:
        print(f"local training, {model} ...", flush=True)
        training[model] = measure.local_training(model, options.turns)
    print("evaluation ...", flush=True)
    scoring = measure.evaluation(4 * options.turns)
    print("clustering ...", flush=True)
    times = clustering.everything(options.turns) | fedsim.everything(options.turns)
    print("ATHENA-FL's networks ...", flush=True)
    times |= models.everything(options.turns)
    print("PANM ...", flush=True)
    times |= panm.everything(options.turns)
    print("the PyTorch world ...", flush=True)
    times |= torch_world.everything(options.turns)
    flower = None
    if options.flower_turns:
        print("Flower's simulation ...", flush=True)
        flower = measure.flower(options.flower_turns, 30)
    page = report.page(
        training=training,
        flower=flower,
        scoring=scoring,
        peak=peak,
        clustering=times,
        turns=options.turns,
        old=options.out,
    )
    options.out.write_text(page)
    print(page)


if __name__ == "__main__":
    main()
