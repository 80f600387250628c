"""FedBN: batch normalisation stays on each client, with its running statistics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from torch import nn

import fedkin as fk
from fedkin.core.errors import ConfigError, MethodError
from fedkin.simulation.torch.model import TorchModel

DATA = fk.data.digits(clients=4)
WORK = fk.SGD(epochs=1, lr=0.1)


def module() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 10))


MODEL = fk.torch_model(module)


def entries(model: TorchModel) -> np.ndarray:
    """The entries of batch normalisation in a flat model."""
    parts = model.spec.batch_norm
    return np.concatenate([np.arange(part.start, part.stop) for part in parts])


def simulate(
    data: fk.data.FederatedData = DATA,
    options: Sequence[fk.Option] = (),
    model: TorchModel = MODEL,
    rounds: int = 2,
    method: fk.Method | None = None,
) -> fk.Run:
    return fk.simulate(
        method or fk.FedAvg(),
        data,
        model,
        rounds=rounds,
        cohort=data.clients,
        local=WORK,
        options=options,
    )


def vectors(run: fk.Run) -> np.ndarray:
    """The whole model of each client, a row each."""
    return np.stack([run.model_for(client).vectors[0] for client in range(len(run.assignment))])


def test_the_part_is_all_of_batch_normalisation_and_nothing_else() -> None:
    """After 64 * 6 + 6 numbers of the first layer: weight, bias, running mean, running variance."""
    assert entries(MODEL).tolist() == list(range(390, 390 + 4 * 6))
    frozen = module()
    frozen[0].requires_grad_(False)  # not trained, but no batch normalisation
    assert entries(fk.torch_model(frozen)).tolist() == entries(MODEL).tolist()
    assert fk.torch_model(nn.Linear(64, 10)).spec.batch_norm == ()


def test_mobilenet_has_scales_biases_and_statistics() -> None:
    images = fk.data.FederatedData(
        name="images",
        x=np.zeros((2, 32, 32, 3), np.float32),
        y=np.zeros(2, np.int64),
        classes=2,
        train=DATA.train.of([np.array([0])]),
        test=DATA.train.of([np.array([1])]),
    )
    spec = fk.models.mobilenet(images).spec
    kept = sum(part.stop - part.start for part in spec.batch_norm)
    # 21,888 running means and variances, and as many scales and biases.
    assert kept == 2 * 21_888
    assert fk.models.mobilenet(images, norm="group").spec.batch_norm == ()


def test_normalisation_differs_between_clients_and_other_layers_are_shared() -> None:
    run = simulate(options=[fk.PersonalBatchNorm()])
    models = vectors(run)
    own = entries(MODEL)
    shared = np.delete(models, own, axis=1)
    assert (shared == shared[0]).all()
    for first in range(len(models)):
        for second in range(first):
            for part in MODEL.spec.batch_norm:  # also the running statistics
                assert (models[first, part] != models[second, part]).any()
    assert run.config.method_with_options == "fedavg+fedbn"


def test_shared_layers_are_the_weighted_mean_of_the_clients() -> None:
    """One round, against the training of each client alone from the same initial model."""
    run = simulate(options=[fk.PersonalBatchNorm()], rounds=1)
    alone = vectors(simulate(method=fk.Local(), rounds=1))
    own = entries(MODEL)
    np.testing.assert_array_equal(vectors(run)[:, own], alone[:, own])
    sizes = DATA.train.sizes / DATA.train.sizes.sum()
    mean = sizes @ np.delete(alone, own, axis=1)
    np.testing.assert_allclose(np.delete(vectors(run)[0], own), mean, atol=1e-6)


def test_a_federation_of_one_client_is_local_training() -> None:
    one = DATA.select(np.array([2]))
    own = simulate(one, [fk.PersonalBatchNorm()], rounds=3)
    plain = simulate(one, rounds=3)
    np.testing.assert_allclose(vectors(own)[0], vectors(plain)[0], atol=1e-6)


def test_without_it_statistics_are_averaged() -> None:
    """As in every run without the option: all clients have the same normalisation."""
    models = vectors(simulate())
    assert (models == models[0]).all()
    assert (models[0, entries(MODEL)] != MODEL.initial(np.array([1, 2], np.uint32))[390]).any()


def test_clients_are_tested_with_their_own_normalisation() -> None:
    run = simulate(options=[fk.PersonalBatchNorm()])
    correct = [
        int((run.predict(DATA.x[DATA.test[c]], client=c) == DATA.y[DATA.test[c]]).sum())
        for c in range(DATA.clients)
    ]
    assert run.clients["correct"].tolist() == correct
    with pytest.raises(MethodError, match=r"because batch normalisation layers are personal"):
        run.predict(DATA.x[:3], cluster=0)


def test_pytorch_and_jax_agree() -> None:
    compiled = fk.torch_model(module, engine="jax")
    expected = vectors(simulate(options=[fk.PersonalBatchNorm()]))
    found = vectors(simulate(options=[fk.PersonalBatchNorm()], model=compiled))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_refusals() -> None:
    option = [fk.PersonalBatchNorm()]
    with pytest.raises(
        ConfigError, match=r"^personal: method: FedAvg .* this model has none: use one such as"
    ):
        simulate(options=option, model=fk.torch_model(nn.Linear(64, 10)))
    with pytest.raises(ConfigError, match=r"IFCA compares losses of all models, which needs batch"):
        simulate(options=option, method=fk.IFCA(clusters=2))
    with pytest.raises(ConfigError, match=r"^personal: method: FedPer cannot have a personal part"):
        simulate(options=option, method=fk.FedPer())
