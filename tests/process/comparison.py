"""What of two folders of the same run is not the same."""

from __future__ import annotations

from pathlib import Path

from safetensors.numpy import load_file

EXACT = ("config.toml", "metrics.jsonl", "clients.parquet", "figure.svg")


def differences(whole: Path, other: Path) -> list[str]:
    """What differs: names of files, bytes of records and figures, arrays of the last checkpoints;
    nothing if equal."""
    files, others = ({p.relative_to(root) for p in root.rglob("*")} for root in (whole, other))
    wrong = [f"{name} is in one of the folders only" for name in sorted(files ^ others)]
    both = sorted(name for name in files & others if (whole / name).is_file())
    exact = [name for name in both if name.name in EXACT]
    wrong += [
        f"{name} differs"
        for name in exact
        if (whole / name).read_bytes() != (other / name).read_bytes()
    ]
    # One in each folder.
    last = {path.parent: path for path in both if path.suffix == ".safetensors"}.values()
    return wrong + [
        f"{name} has other arrays"
        for name in last
        if _arrays(whole / name) != _arrays(other / name)
    ]


def _arrays(path: Path) -> dict[str, bytes]:
    return {key: array.tobytes() for key, array in load_file(path).items()}
