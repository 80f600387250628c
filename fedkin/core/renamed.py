"""Where former names are now: one of version 0.1, or a former method of ``World``, raises an error that says it."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

PUBLIC_NAMES = {"LocalWork": "LocalTraining", "Repeated": "RepeatedRuns", "Trained": "TrainingReply"}
_PAIRS = """
    cli.shell=cli.common clustering.eps=clustering.dbscan_eps clustering.how_many=clustering.cluster_count
    clustering.two_kinds=clustering.gaussian_mixture data.looks=data.transforms data.options=data.partition_options
    data.own=data.user_data errors=core.errors experiment.advise=analysis.advise
    experiment.advise.advice=analysis.advise.advice experiment.advise.advising=analysis.advise.advisor
    experiment.advise.differ=analysis.advise.heterogeneity
    experiment.advise.kinds=analysis.advise.split_half_stability experiment.advise.picture=reporting.advice_figure
    experiment.advise.pilots=analysis.advise.pilot_runs experiment.checkpoint=run.checkpoint
    experiment.choices=config.registry experiment.compare=analysis.compare
    experiment.compare.axes=config.comparison_axes experiment.compare.cells=analysis.compare.comparison_folder
    experiment.compare.comparison=analysis.compare.comparison
    experiment.compare.differences=analysis.pairwise_tests
    experiment.compare.display=reporting.comparison_progress experiment.compare.grid=config.comparison
    experiment.compare.picture=reporting.comparison_figure experiment.compare.running=analysis.compare.runner
    experiment.compare.writing=reporting.comparison_tables experiment.config=config.run
    experiment.deploy=server.deploy experiment.deploy.alone=server.deploy.run_lock
    experiment.deploy.check=server.deploy.check experiment.deploy.check_keys=server.deploy.check_keys
    experiment.deploy.check_network=server.deploy.check_network
    experiment.deploy.client_app=server.deploy.client_app experiment.deploy.config=config.server
    experiment.deploy.disk=server.deploy.node_disk experiment.deploy.finding=server.deploy.check_result
    experiment.deploy.hooks=server.deploy.custom_clients experiment.deploy.init=server.deploy.init
    experiment.deploy.keys=server.deploy.keys experiment.deploy.nodes=server.deploy.build_node
    experiment.deploy.project=server.deploy.deployment_folder
    experiment.deploy.roster_file=server.deploy.registry_file experiment.deploy.serve=server.deploy.run_server
    experiment.deploy.server_app=server.deploy.server_app experiment.eps_study=analysis.eps_study
    experiment.figure=reporting.run_figure experiment.folder=run.run_folder
    experiment.heterogeneity=analysis.non_iid_index experiment.identity=run.fingerprint
    experiment.lens=run.instrumented_world experiment.metrics=run.metrics experiment.moves=run.migrations
    experiment.options=config.schema experiment.peer_config=config.peer experiment.peer_folder=p2p.peer_folder
    experiment.peer_init=p2p.init_federation experiment.plan=config.plan experiment.progress=reporting.progress
    experiment.repeat=analysis.repeat experiment.report=reporting.html.report
    experiment.report.compared=reporting.html.comparison_section experiment.report.contents=reporting.html.contents
    experiment.report.curves=reporting.html.accuracy_chart experiment.report.page=reporting.html.page
    experiment.report.pictures=reporting.html.paper_figures experiment.report.portrait=reporting.html.client_similarity
    experiment.report.reading=reporting.html.read_runs experiment.report.ribbon=reporting.html.alluvial
    experiment.report.salvage=reporting.html.recovery experiment.report.trees=reporting.html.dendrogram
    experiment.reproduce=papers experiment.results=run.results experiment.runner=run.loop
    experiment.seeds_figure=reporting.seeds_figure experiment.side_by_side=run.lifecycle
    experiment.simulate=run.simulate experiment.statistics=analysis.statistics experiment.storage=core.storage
    experiment.tabular=analysis.tables experiment.topology=run.trust_graph
    experiment.tracker_kinds=tracking.registry experiment.trackers=tracking.tracker
    experiment.watch=run.cluster_metrics fake_world=simulation.fake_world federation.book=p2p.peer_table
    federation.certificates=security.certificates federation.exchange=server.request_retries
    federation.flower=server.flower_transport federation.hall=server.membership
    federation.introduction=server.handshake federation.letters=server.rpc_client
    federation.network=p2p.zenoh_transport federation.node=server.node federation.others=p2p.peer_client
    federation.parcel=server.message federation.peer=p2p.peer federation.remote=server.remote_world
    federation.replies=server.reply_collector federation.roster=server.node_registry
    federation.settings=config.peer_settings federation.shelf=p2p.response_cache
    federation.terms=config.server_settings federation.wire=p2p.messages label_memory=tasks.shift
    layout=core.layout method=core.method methods.last_layer=methods.last_layer_clustering
    peers=methods.decentralized policies=methods.policies pytorch=simulation.torch
    pytorch.loaders=simulation.torch.client_loaders pytorch.model=simulation.torch.model
    pytorch.scoring=simulation.torch.scoring pytorch.source=simulation.torch.source
    pytorch.training=simulation.torch.training randomness=core.randomness scenarios.options=scenarios.validation
    scenarios.plant=scenarios.planted_clusters simulator.batching=simulation.batching
    simulator.checks=simulation.model_checks simulator.compiled=simulation.compiled_workers
    simulator.devices=simulation.devices simulator.engine=simulation.engine
    simulator.local_training=simulation.local_training simulator.plan=simulation.padding
    simulator.scoring=simulation.scoring simulator.trainer=simulation.trainer simulator.workers=simulation.workers
    world=core.world
"""
VERBS = {  # methods that World had: what is written now, and where it comes from
    "train": "train(world, models, clients, model_index, stream=stream), from fedkin.tasks.train",
    "evaluate": "evaluate(world, models, clients, model_index), from fedkin.tasks.evaluate",
    "losses": "world.run(Losses(models), clients).losses, from fedkin.tasks.losses",
    "gradients": "world.run(Gradients(models, model_index), clients).gradients, from fedkin.tasks.gradients",
    "label_errors": "world.run(LabelErrors(models), clients).error, from fedkin.tasks.label_errors",
    "detections": "world.run(Detections(models, model_index, positive), clients).counts, from fedkin.tasks.detections",
    "classes": "world.run(Classes(), clients).classes, from fedkin.tasks.classes",
    "send": "world.run(Directions(directions), clients), from fedkin.tasks.similarities",
    "similarities": "world.run(Similarities(start, directions, work), clients, stream).cosine, "
    "from fedkin.tasks.similarities",
    "ask": "world.run(Ask(vectors), targets).arrived, from fedkin.tasks.ask",
    "note": "world.run(Note(), clients), from fedkin.tasks.shift",
    "shifted": "world.run(Shifted(test, threshold), clients).shifted, from fedkin.tasks.shift",
}
MODULES = {former: place for former, _, place in (pair.partition("=") for pair in _PAIRS.split())}


_EMPTY = ("experiment", "federation", "simulator")  # their modules are in several places now
FORMER_PACKAGES = {package for name in MODULES if (package := name.rpartition(".")[0]).startswith(_EMPTY)}


def new_place(former: str) -> str | None:
    """Where the content of a module of version 0.1 is now (both without ``fedkin.``)."""
    while former and former not in MODULES:
        former = former.rpartition(".")[0]
    return MODULES.get(former)


class FormerModuleFinder:
    """The last finder of modules: refuses one of version 0.1 with the name of its new place."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of an empty package in place of a former one, so that its modules are searched by their full names.

        Args:
            name: of the module, in full.
            path: of its package.
            target: a module that is loaded again.

        Raises ModuleNotFoundError for a module that was renamed.
        """
        root, _, former = name.partition(".")
        if root == "fedkin" and former in FORMER_PACKAGES:
            return ModuleSpec(name, FormerModuleFinder, is_package=True)  # type: ignore[arg-type]
        if root == "fedkin":
            _refuse(former)
        return None

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """As Python does it."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Let the package refuse what is taken from it."""

        def refuse(attribute: str) -> Any:
            if not attribute.startswith("__"):
                _refuse(f"{module.__name__.removeprefix('fedkin.')}.{attribute}")
            raise AttributeError(f"module {module.__name__!r} has no attribute {attribute!r}")

        module.__getattr__ = refuse  # type: ignore[method-assign]


def refuse_attribute(owner: object, name: str) -> NoReturn:
    """Raise AttributeError for what an object does not have; where ``World`` had it, with what is written now."""
    if name in VERBS:
        raise AttributeError(f"world.{name} is now {VERBS[name]}")
    raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}")


def _refuse(former: str) -> None:
    if former in PUBLIC_NAMES:  # ``from fedkin import NAME`` looks for a module where there is no such attribute
        raise ModuleNotFoundError(f"fedkin.{former} of version 0.1 is fedkin.{PUBLIC_NAMES[former]} now")
    if place := new_place(former):
        place = place if place == "papers" else f"fedkin.{place}"
        raise ModuleNotFoundError(f"fedkin.{former} is of version 0.1; what it held is in {place} now")


def install() -> None:
    """Register the finder, after all others."""
    if FormerModuleFinder not in sys.meta_path:
        sys.meta_path.append(FormerModuleFinder)  # type: ignore[arg-type]
