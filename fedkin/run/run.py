"""Finished runs: the class ``Run``, and its storage in a folder."""

from __future__ import annotations

import dataclasses
import json
import logging
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.config import registry
from fedkin.config.description import Description
from fedkin.core.errors import CheckpointError
from fedkin.core.method import State
from fedkin.core.records import Record
from fedkin.core.storage import user_path, write_atomic
from fedkin.core.strict_json import json_text
from fedkin.data.table_transform import transform_of
from fedkin.measures.complete_rounds import best_record, first_to_reach, is_complete
from fedkin.measures.measure import Measure
from fedkin.measures.scores import names_in
from fedkin.run import run_repr
from fedkin.run.folder import checkpoint, integrity, run_folder
from fedkin.run.folder.client_table import Columns, from_parquet, to_parquet
from fedkin.run.folder.migrations import Migrations, migrations_table
from fedkin.run.folder.resuming import how_to_resume
from fedkin.run.metrics import clustering
from fedkin.run.metrics.final import BestRound, final_entries, number_entries
from fedkin.run.metrics.monitor_record import monitor_acts
from fedkin.run.metrics.partial_rounds import away_rounds
from fedkin.run.stopping import failure
from fedkin.run.trained.model_access import ModelAccess

if TYPE_CHECKING:
    import pandas as pd

    from fedkin.run.trained.ingredients import Ingredients

# Entries of a summary about replies that came late, and the clock of asynchronous runs.
_OF_LATE_REPLIES = (
    "late_used",
    "late_dropped",
    "simulated_seconds",
    "replies_used",
    "replies_dropped",
)
_OF_PEERS = ("neighbours", "neighbour_precision", "neighbour_recall", "messages")
CLIENTS = run_folder.CLIENTS
SUMMARY = run_folder.SUMMARY
AGAINST = run_folder.AGAINST

_log = logging.getLogger("fedkin")


@dataclass(frozen=True, eq=False, repr=False)
class Run(ModelAccess):
    """A finished run. Shapes: N clients, K clusters, P parameters, T rounds.

    Attributes:
        config: the run's description, with properties such as ``run.config.seed``.
            ``run.config.sections`` has the whole content of config.toml.
        records: metrics of rounds 0 .. T, as in metrics.jsonl.
        state: the method's final state.
        client_columns: the columns of ``clients``, by name.
        seconds: wall-clock time of all rounds, over all processes.
        against: the runs of other methods on the same data, by name.
        folder: the run's folder, if any.
        fingerprint: digest of configuration, data and model, which identifies the run in
            checkpoints.
        memory: arrays that clients and cluster metrics store at the end.
        migrations: changes of clients' clusters by round, as in migrations.jsonl.
        best: the round selected on validation samples, with its state; None if the data have no
            validation split.
        final: measurements after the last round, as in the summary.
        made_of: the run's method, model and data, which are not stored. None: they are rebuilt from
            the description when they are needed.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.IFCA(clusters=2), data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> len(run.records), run.models.shape, run.assignment.shape
        (2, (2, 650), (6,))
    """

    config: Description
    records: list[Record]
    state: State
    client_columns: Columns
    seconds: float
    against: dict[str, Run] = field(default_factory=dict)
    folder: Path | None = None
    fingerprint: str = ""
    memory: dict[str, np.ndarray] = field(default_factory=dict)
    migrations: list[Migrations] = field(default_factory=list)
    made_of: Ingredients | None = None
    best: BestRound | None = None
    final: Record = field(default_factory=dict)

    def __repr__(self) -> str:
        against = [other.summary() for other in self.against.values()]
        return run_repr.text(
            self.summary(), against, run_repr.names_by_position(self.client_columns), self.measures
        )

    def _repr_html_(self) -> str:
        return run_repr.html(
            [run.summary() for run in (self, *self.against.values())], self.measures
        )

    @cached_property
    def clients(self) -> pd.DataFrame:
        """A table with a row for each evaluated client in the final state: cluster, test samples,
        correct, accuracy, loss."""
        import pandas as pd  # slow to import, and a run does not need it

        return pd.DataFrame(dict(self.client_columns))

    @property
    def models(self) -> Float[np.ndarray, "K P"]:
        """The final models: a row of parameters per cluster. For ATHENA-FL the rows are
        detectors."""
        return self.state.models

    @property
    def assignment(self) -> Int[np.ndarray, "N"]:
        """The cluster of each client; -1 for a client without a cluster."""
        return self.state.assignment

    @property
    def client_names(self) -> dict[int, str]:
        """The names of the clients by their numbers; empty if they have no names."""
        columns = self.client_columns
        if not {"client", "name"} <= set(columns):
            return {}
        return dict(zip(columns["client"].tolist(), columns["name"].tolist(), strict=True))

    @property
    def scored_split(self) -> str:
        """The split on which the run's rounds were evaluated: ``validation`` or ``test``."""
        return self.records[-1].get("split", "test")

    @property
    def best_state(self) -> State | None:
        """The method's state after the best round, for which ``best_accuracy`` is measured. None if
        the data have no validation split."""
        return None if self.best is None else self.best.state

    @property
    def history(self) -> pd.DataFrame:
        """A DataFrame with a row for each round, indexed by round. The columns are the entries of
        metrics.jsonl."""
        import pandas as pd  # slow to import, and no round needs it

        return pd.DataFrame(self.records).set_index("round")

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The user's measures, which every table of the run shows after the built-in ones."""
        return self.config.measures

    def migrations_frame(self) -> pd.DataFrame:
        """A DataFrame with a row for each change of a client's cluster, sorted by round. The
        columns are round, client, name (if clients have names), from_cluster and to_cluster (-1:
        none)."""
        return migrations_table(self.migrations, len(self.assignment), self.client_names or None)

    def summary(self) -> dict[str, Any]:
        """The numbers of the run as plain JSON values.

        A round is complete if every reachable client had a cluster and every client with a cluster
        was evaluated.

        * ``best_accuracy``: the highest accuracy of a complete round. The methods' papers report
          this number. Of numbers, names have the score instead (``measure``), such as
          ``best_root_mean_squared_error``, which is the lowest.
        * ``rounds_to_target``: the first complete round that reaches ``run.target``.
        * ``accuracy_all_clients``: the final accuracy over all clients. Clients without a cluster
          are evaluated on the model that they would get now (``run.metrics.final``).
        * ``rounds_with_clients_away``: number of rounds in which a client with a cluster was not
          evaluated. If the last round is one of these, ``scored`` is its number of evaluated
          clients, and ``scored_of`` its number of clients with a cluster.
        * ``stopped``: round and reason of an early stop. ``failed``: no reply was usable in the
          last rounds.
        * ``discrepancy_sum_mean``, ``discrepancy_sum_variance``: over the rounds' discrepancy sums,
          as in FedGroup's Table I.

        Bytes are the method's, without evaluation.

        With a validation split, rounds are evaluated on validation samples, and test samples are
        used once, after the last round. ``best_round`` is then the complete round with the highest
        validation accuracy, ``validation_accuracy``. Its state is tested for ``best_accuracy``,
        ``best_median_client`` and ``best_bottom_decile``. The final state is tested for
        ``final_accuracy``, ``median_client`` and ``bottom_decile``.

        Metrics of the clustering are over all rounds, and None if undefined. To compute them, each
        cluster is paired with at most one true cluster. A client is matched if its cluster and its
        true cluster are a pair. ``ClusterMetrics.record`` defines the counts.

        * ``migrations``: number of migrations (changes of a client's cluster).
        * ``stability``: mean agreement (ARI) of clusters in consecutive rounds.
        * ``shift_precision``: share of detections that followed a data shift.
        * ``shift_recall``: share of data shifts that were detected. Several shifts of a client
          before a detection count once.
        * ``shift_delay``: mean number of rounds from a shift to its detection.
        * ``migration_precision``: share of migrations after which the client is matched.
        * ``migration_recall``: share of changes of a true cluster after which the client is matched
          again. ``migration_delay``: mean number of rounds until then.
        * ``newcomer_delay``: mean number of rounds from the round in which a newcomer gets a
          cluster until it is matched, over the newcomers that were matched.
        """
        return dict(self._summary)

    @cached_property
    def _summary(self) -> dict[str, Any]:
        """The numbers of the run, as ``summary`` returns them, computed once."""
        best = best_record(self.records)
        last = self.records[-1]
        names = names_in(last)
        target = self.config.target
        reached = first_to_reach(self.records, target)
        acts = monitor_acts(self.records)
        discrepancies = [
            r["discrepancy_sum"] for r in self.records if r["discrepancy_sum"] is not None
        ]
        return {
            "method": self.config.method_with_options,
            "data": self.config.data_title,
            "model": self.config.model_name,
            "rounds": last["round"],
            "seed": self.config.seed,
            **({"measure": last["measure"]} if "measure" in last else {}),
            # With a validation split, this is a test result, which ``self.final`` has.
            names.best: best[names.score] if best and "split" not in last else None,
            "best_round": best["round"] if best else None,
            **({names.validation: best[names.score] if best else None} if "split" in last else {}),
            names.final: last[names.score],
            names.median: last[names.median],
            names.worst: last[names.worst],
            **number_entries(last, names),
            **{measure.name: last.get(measure.name) for measure in self.measures},
            names.all_clients: last[names.score] if is_complete(last) else None,
            "target": target,
            "rounds_to_target": reached["round"] if reached else None,
            "clusters": self.state.clusters,
            "configured_clusters": self.config.clusters,
            "cluster_sizes": last["cluster_sizes"],
            **({"excluded": last["excluded"]} if last.get("excluded") else {}),  # in no score
            **{name: last[name] for name in ("members", "scored", "scored_of") if name in last},
            **({"rounds_with_clients_away": away} if (away := away_rounds(self.records)) else {}),
            "ari": last["ari"],
            "nmi": last["nmi"],
            **{name: last[name] for name in _OF_PEERS if name in last},
            **clustering.summary(self.records),
            "discrepancy_sum_mean": float(np.mean(discrepancies)) if discrepancies else None,
            "discrepancy_sum_variance": float(np.var(discrepancies)) if discrepancies else None,
            "missing": sum(r["missing"] for r in self.records),
            "nonfinite": sum(r["nonfinite"] for r in self.records),
            **(
                {"outliers": outliers}
                if (outliers := sum(r.get("outliers", 0) for r in self.records))
                else {}
            ),
            **{name: last[name] for name in _OF_LATE_REPLIES if name in last},
            # Alarms, moves and proposals of the monitor of clusters.
            **({"monitor": [act.plain() for act in acts]} if acts is not None else {}),
            **({"failed": why} if (why := failure(self.records)) else {}),
            "bytes_down": last["bytes_down"],
            "bytes_up": last["bytes_up"],
            **{
                name: last[name] for name in ("messages_down", "messages_up") if name in last
            },  # of real clients
            "seconds": round(self.seconds, 3),
            **self.final,
        }

    def save(self, path: str | Path) -> Path:
        """Save the run and the compared runs in a new folder, from which they can be resumed.
        Figures are drawn by ``fk.draw``.

        Raises StorageError if the folder holds a run or cannot be written. No files are left behind
        then.
        """
        folders: list[run_folder.Folder] = []
        try:
            self._save(user_path(path), folders)
        except Exception:
            for folder in reversed(folders):
                folder.withdraw()
            raise
        return user_path(path)

    def _save(self, target: Path, folders: list[run_folder.Folder]) -> None:
        """Write this run and its compared runs. Each folder that is created is appended to
        ``folders``, so that the caller can remove it after an error."""
        transform = None if self.made_of is None else transform_of(self.made_of.samples)
        folder = run_folder.Folder.create(target, self.config, self.fingerprint, transform)
        folders.append(folder)
        if self.folder is not None:
            folder.copy_origin(self.folder)
        migrations = {entry["round"]: entry for entry in self.migrations}
        for record in self.records:
            # The seconds of single rounds are not known any more, so timings have only the round.
            folder.append(record, {"round": record["round"]}, migrations.get(record["round"]))
        last = self.records[-1]
        down, up = _sides(last.get("bytes_by_operation", {}))
        measured_down, measured_up = _sides(last.get("messages_by_operation", {}))
        folder.keep(
            checkpoint.Checkpoint(
                round=last["round"],
                state=self.state,
                down=down,
                up=up,
                measured_down=measured_down,
                measured_up=measured_up,
                seconds=self.seconds,
                memory=self.memory,
                best=self.best,
                stopped=self.final.get("stopped"),
            )
        )
        for name, other in self.against.items():
            other._save(run_folder.against_folder(target, name), folders)
        self.write_results(target)

    def write_results(self, path: Path) -> None:
        """Write the files of a finished run: table of clients, summary, and checksums of all
        files."""
        write_atomic(path / CLIENTS, to_parquet(self.client_columns))
        write_atomic(path / SUMMARY, json_text(self.summary(), indent=2) + "\n")
        integrity.write_sums(path, run_folder.SUMMED)

    @classmethod
    def load(
        cls,
        path: str | Path,
        model: Any = None,
        data: Any = None,
        method: Any = None,
        backbone: str | Path | None = None,
    ) -> Run:
        """Read a finished run from its folder.

        Args:
            path: the folder.
            model, data: needed to use the models of a run that was started from Python. For other
                runs they are rebuilt from the configuration.
            method: needed to place newcomers if the run's method is a user's class.
            backbone: folder of the backbone of adapters (``fk.lora``), if it is not where the run
                had it. Another backbone is refused.

        Raises CheckpointError if the folder holds no finished run, if a file is damaged, or if the
        clients of the data have other names.
        """
        source = user_path(path)
        config = run_folder.read_config(source)
        records = run_folder.read_records(source)
        migrations = run_folder.read_records(source, run_folder.MIGRATIONS)
        if config.seeds is not None:
            raise CheckpointError(
                f"{source} holds several seeds; use RepeatedRuns.load for all seeds, or Run.load "
                "for a run in seeds/"
            )
        if not (source / SUMMARY).exists():
            raise CheckpointError(
                f"{source} holds a run that is not finished; {how_to_resume(source, config)}"
            )
        try:
            columns = from_parquet((source / CLIENTS).read_bytes())
        except Exception as error:  # the reader of a damaged file raises errors of any type
            raise CheckpointError(f"{source / CLIENTS} cannot be read: {error}") from error
        registry.define_states(config.method_name)
        last, fingerprint = checkpoint.newest(source / run_folder.CHECKPOINTS)
        integrity.check_files(source, last)
        if reason := integrity.missing_end(source, records, last):
            _log.warning(
                "%s; to compute the last round again, %s", reason, how_to_resume(source, config)
            )
        loaded = cls(
            config=config,
            records=records,
            state=last.state,
            client_columns=columns,
            seconds=last.seconds,
            folder=source,
            fingerprint=fingerprint,
            memory=last.memory,
            migrations=migrations,
            best=last.best,
            final=_final(source / SUMMARY, config),
        )
        for folder in sorted((source / AGAINST).glob("*")):
            if run_folder.holds_run(folder):
                other = cls.load(folder, model, data, backbone=backbone)
                loaded.against[other.config.method_name] = other
        if model is None and data is None and method is None and backbone is None:
            return loaded
        parts = _parts(loaded, model=model, data=data, method=method, backbone=backbone)
        return dataclasses.replace(loaded, made_of=parts)


def _parts(
    run: Run, model: Any, data: Any, method: Any, backbone: str | Path | None
) -> Ingredients:
    """The method, model and data of a run, some of which are given by the user."""
    # Imported here, so that reading a table does not import models and data.
    from fedkin.run.folder.data_path import with_backbone
    from fedkin.run.trained.ingredients import parts_of
    from fedkin.run.trained.rebuild import check_given, parts_again

    if data is None:
        return parts_again(
            run.config,
            run.folder,
            identity=run.fingerprint,
            model=model,
            method=method,
            backbone=None if backbone is None else user_path(backbone),
        )
    made_of = parts_of(with_backbone(run.config, backbone), model, data, method)
    check_given(run.config, made_of, run.client_columns, run.fingerprint)
    return made_of


def _final(path: Path, config: Description) -> Record:
    """The entries of a stored summary that were measured after the last round. The records of
    rounds do not have these entries."""
    try:
        return final_entries(json.loads(path.read_text()), config.measures)
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def _sides(by_operation: dict[str, list[int]]) -> tuple[dict[str, int], dict[str, int]]:
    """Split the pairs [download, upload] of each operation into two dictionaries by operation: the
    downloaded and the uploaded bytes."""
    down, up = ({name: pair[side] for name, pair in by_operation.items()} for side in (0, 1))
    return down, up
