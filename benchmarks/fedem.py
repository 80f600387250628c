"""FedEM on its synthetic mixture beside FedAvg and Ditto: accuracy of clients' test samples, and the seconds of a run.

    python -m benchmarks.fedem [--rates 0.1,1.0] [--rounds 200]

300 clients, three logistic models in shares of Dir(0.4), 150 features, 1,000 test samples each; all clients in every
round, one local epoch in batches of 128, the rate a tenth from the middle of the run on (the authors drop it once more
at three quarters). Fine tuning is one epoch of the last FedAvg model on each client's training samples. Seconds are of
FedEM alone, without scoring but at the end, programs compiled before.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import fedkin as fk


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fedem", description=__doc__)
    parser.add_argument("--rates", default="0.1,1.0")
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    data = fk.data.synthetic_mixture(test_samples=1000)
    for rate in map(float, options.rates.split(",")):
        drop = fk.Schedule("step", every=options.rounds // 2, gamma=0.1)
        local = fk.SGD(epochs=1, batch_size=128, lr=rate, schedule=drop)
        fk.simulate(fk.FedEM(3), data, fk.models.mclr(data), rounds=1, cohort=data.clients, local=local)
        accuracy, seconds = scored(fk.FedEM(3), data, local, options.rounds)
        print(f"lr {rate:g}: FedEM {accuracy}, a run of {options.rounds} rounds {seconds:.1f} s", flush=True)
        for name, method in (("FedAvg", fk.FedAvg()), ("Ditto", fk.Ditto())):
            print(f"lr {rate:g}: {name} {scored(method, data, local, options.rounds)[0]}", flush=True)


def scored(method: Any, data: fk.FederatedData, local: fk.LocalTraining, rounds: int) -> tuple[str, float]:
    """A method's accuracy in words, that after fine tuning beside it for FedAvg, and the seconds of its run."""
    start = time.perf_counter()
    run = fk.simulate(
        method, data, fk.models.mclr(data), rounds=rounds, cohort=data.clients, local=local, evaluate_every=0
    )
    seconds = time.perf_counter() - start
    words = f"{100 * run.summary()['final_accuracy']:.1f}%"
    if isinstance(method, fk.FedAvg):
        tuned = run.evaluate(fine_tune_epochs=1).summary["fine_tuned_accuracy"]
        words += f", fine-tuned for an epoch {100 * tuned:.1f}%"
    return words, seconds


if __name__ == "__main__":
    main()
