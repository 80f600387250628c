"""The backbone of an export: which one the models belong to, and where its weights are.

An export of adapters has no weights of the backbone, unless it is asked for a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkin.core.errors import ConfigError, ModelError

if TYPE_CHECKING:
    from fedkin.models.frozen import Origin

BACKBONE = "backbone"  # folder of an export with a copy of the backbone
TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
)

# The contents of a folder's files, by name. They are made when they are written, one after the
# other, since a backbone is large.
Files = dict[str, Callable[[], bytes]]


def origin_of(model: Any) -> Origin | None:
    """The folder of the backbone of an adapter's model; None for other models."""
    frozen = getattr(model, "frozen", None)
    return None if frozen is None else frozen.origin


def card_facts(model: Any) -> dict[str, Any]:
    """What ``card.json`` says about the backbone of a model; empty for other models."""
    origin = origin_of(model)
    if origin is None:
        return {}
    return {
        "backbone": {"name": model.frozen.name, "digest": origin.digest},
        "model": dict(origin.section),
    }


def backbone_files(model: Any) -> Files:
    """Copies of the files of a model's backbone.

    Raises:
        ModelError: the model has no backbone of a folder, or the folder has another one now.
    """
    from fedkin.models.backbone import CONFIG, WEIGHTS

    folder = checked_folder(model, "with_backbone")
    names = (CONFIG, WEIGHTS, *TOKENIZER)
    return {
        f"{BACKBONE}/{name}": (folder / name).read_bytes
        for name in names
        if (folder / name).is_file()
    }


def origin_for(model: Any, what: str) -> Origin:
    """The folder of a model's backbone. Raises ModelError if it has none.

    Args:
        model: the model.
        what: the format or option of the export that needs it, for the message.
    """
    origin = origin_of(model)
    if origin is None:
        raise ModelError(
            f"model {model.name!r} cannot be exported with {what}, which needs adapters of a "
            "backbone of fk.models.from_transformers; use format 'safetensors'"
        )
    return origin


def checked_folder(model: Any, what: str) -> Path:
    """The folder of a model's backbone. Raises ModelError if it has other weights now; arguments
    are those of ``origin_for``."""
    from fedkin.models.backbone import from_transformers

    origin = origin_for(model, what)
    found = from_transformers(origin.folder)
    if found.digest != origin.digest:
        raise ModelError(
            f"{origin.folder} has changed: its digest is {found.digest[:12]}, but the adapters "
            f"belong to the backbone with {origin.digest[:12]}"
        )
    return origin.folder


def entry_with_backbone(
    card: dict[str, Any], folder: Path, backbone: str | Path | None
) -> dict[str, Any]:
    """The section [model] in a card, with the folder of the backbone.

    Args:
        card: the card of an export.
        folder: the export's folder.
        backbone: the backbone's folder, if it is given; None: the copy in the export.

    Raises:
        ConfigError: the export has no copy of the backbone, and none is given.
    """
    facts = card["backbone"]
    own = folder / BACKBONE
    if backbone is None and not own.is_dir():
        raise ConfigError(
            f"{folder} has the adapters of the backbone {facts['name']!r} (digest "
            f"{facts['digest'][:12]}), but not its weights; give its folder: "
            "load(folder, backbone=...) or --backbone FOLDER"
        )
    return {**card["model"], "backbone": str(own if backbone is None else backbone)}
