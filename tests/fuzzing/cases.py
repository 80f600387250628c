"""One case: a target, damaged as a seed says."""

from __future__ import annotations

import logging
import traceback
import warnings
from pathlib import Path

import numpy as np

from fedkin.core.errors import FedkinError
from tests.fuzzing.targets import TARGETS, Target


def targets(folder: Path, names: tuple[str, ...] = tuple(TARGETS)) -> dict[str, Target]:
    """Targets by name, each with a separate folder below ``folder``."""
    made = {}
    for name in names:
        (folder / name).mkdir()
        made[name] = TARGETS[name](folder / name)
    return made


def failure(target: Target, seed: int) -> str:
    """What went wrong in a case, with the end of its traceback; empty where nothing did."""
    log = logging.getLogger("fedkin")
    before = log.propagate
    log.propagate = False
    log.addHandler(quiet := logging.NullHandler())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.case(np.random.default_rng(seed))
    except FedkinError:
        return ""
    except Exception as error:
        places = [
            f"{Path(frame.filename).name}:{frame.lineno}"
            for frame in traceback.extract_tb(error.__traceback__)
        ]
        return f"{type(error).__name__}: {str(error)[:300]} ({' > '.join(places[-6:])})"
    finally:
        log.propagate = before
        log.removeHandler(quiet)
    return ""
