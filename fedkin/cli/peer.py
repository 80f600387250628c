"""The commands ``fedkin peer``: run a real peer as a process, and write the files of a federation
of peers."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fedkin.cli.common import error_exit
from fedkin.core.object_repr import shell_command

if TYPE_CHECKING:
    from fedkin.p2p.peer import Peer

_PRINT_EVERY = 5.0  # seconds


class _RunByDefault(TyperGroup):
    """Command group in which ``run`` is the default: ``fedkin peer --config peer.toml``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, with ``run`` in front if they do not begin with a command."""
        if args and args[0] not in (*self.commands, "--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


peer_app = typer.Typer(
    cls=_RunByDefault,
    no_args_is_help=True,
    help="Deploy a federation without a server: peers that communicate over Zenoh.",
)


@peer_app.command("run")
def run_command(
    config: Annotated[
        Path, typer.Option("--config", metavar="FILE", help="The peer's file peer.toml.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[section.key=value]...", help="Settings that replace those of the file."
        ),
    ] = None,
) -> None:
    """Run one peer until its rounds are finished or it is stopped (Ctrl-C).

    The word `run` may be left out."""
    with error_exit():
        from fedkin.config import peer as peer_config
        from fedkin.p2p.launch import build_peer
        from fedkin.run.folder.lock import folder_lock

        loaded = peer_config.load(config, settings or [])
        with folder_lock(Path(loaded.peer.folder)):
            peer = build_peer(loaded, on_round=_RoundPrinter())
            _stop_on_signals(peer)
            own = peer.settings
            typer.echo(
                f"peer {own.name} of {own.federation}: after round {peer.memory.age}, in "
                f"{own.folder}"
            )
            peer.run()
            typer.echo(f"peer {own.name}: stopped after round {peer.memory.age}")


@peer_app.command("init")
def init_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder for the folders of the peers.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[section.key=value]...", help="Settings of all peers."),
    ] = None,
    peers: Annotated[int, typer.Option("--peers", metavar="N", help="Number of peers.")] = 8,
    tls: Annotated[
        bool, typer.Option("--tls", help="Use mutual TLS: only peers with a certificate take part.")
    ] = False,
    federation: Annotated[
        str, typer.Option("--federation", metavar="NAME", help="Name of the federation.")
    ] = "trial",
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Address on which peers listen.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port", help="Port of the first peer; the other peers have the following ports."
        ),
    ] = 7450,
) -> None:
    """Write a peer.toml for each peer of a federation; with --tls also keys, certificates and
    access rules."""
    with error_exit():
        from fedkin.p2p.init_federation import init_federation

        paths = init_federation(
            folder,
            peers,
            tls=tls,
            federation=federation,
            host=host,
            port=port,
            settings=settings or [],
        )
        typer.echo(f"{len(paths)} peers in {folder}; start each peer, in any order:")
        for path in paths:
            typer.echo(f"  {shell_command('fedkin', 'peer', '--config', path)}")


def _stop_on_signals(peer: Peer) -> None:
    """Make the first Ctrl-C end the peer after its round, and the second one at once."""

    def stop(number: int, frame: object) -> None:
        if peer.client.stopped.is_set():
            raise KeyboardInterrupt
        peer.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


class _RoundPrinter:
    """Prints a line about the current round every few seconds."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, record: dict[str, Any]) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PRINT_EVERY
        from fedkin.measures.number_texts import LABEL, number_text
        from fedkin.measures.table import MEASURES

        # The score is the entry after the round.
        name, value = [*record.items()][1]
        measure = MEASURES[name]
        score = "no test data"
        if value is not None:
            unit = LABEL if measure.unit == LABEL else "number"
            score = f"{measure.head} {number_text(value, unit)}"
        neighbours = ", ".join(record["neighbours"]) or "none"
        print(f"round {record['round']}: {score}; neighbours: {neighbours}", flush=True)
