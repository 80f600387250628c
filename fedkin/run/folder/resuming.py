"""Text for messages: the command or the Python call that resumes an unfinished run."""

from __future__ import annotations

from pathlib import Path

from fedkin.config.description import Description
from fedkin.core.object_repr import shell_command

_SERVER = "server.toml"  # a federation's file, next to its run folder


def how_to_resume(folder: Path, config: Description) -> str:
    """Text that says how to resume a run, as part of a message.

    Args:
        folder: the run's folder.
        config: the run's description.
    """
    if config.of_federation:
        place = folder.absolute().parent
        holds_server = (place / _SERVER).exists()
        # The command needs the folder of the server's file. A copied run folder lacks that file, so
        # the text cannot name its folder.
        start = shell_command("fedkin", "deploy", "up", folder.parent)
        how = start if holds_server else f"fedkin deploy up the folder of its {_SERVER}"
        return f"resume it with its sites ({how})"
    if config.from_python:
        return f"resume it (simulate(..., out={str(folder)!r}, resume=True))"
    return f"resume it ({shell_command('fedkin', 'run', '--resume', folder)})"
