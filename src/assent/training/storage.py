"""A trained recommender on disk: parameters as safetensors, everything else as JSON beside them."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from assent.errors import AssentError
from assent.files import read_json, write_json, write_with
from assent.models import Sizes, model_class
from assent.training.trainer import Trained

FORMAT = 1
"""Raised whenever a file written before could not be read any more."""


def save(trained: Trained, path: Path) -> None:
    """Write `path`.safetensors, then `path`.json: where the latter is, the model is whole."""
    tensors = {name: value.contiguous() for name, value in trained.model.state_dict().items()}
    write_with(path.with_suffix(".safetensors"), lambda file: save_file(tensors, file))
    sizes = trained.model.sizes
    description = {
        "format": FORMAT,
        "assent": version("assent"),
        "model": trained.model.name,
        "settings": trained.model.settings.model_dump(mode="json"),
        "sizes": {
            "users": sizes.users,
            "items": sizes.items,
            "rows": sizes.rows,
            "negatives": sizes.negatives,
        },
        "seed": trained.seed,
        "epochs": trained.epochs,
        "monitor": trained.monitor,
        "user_ids": trained.user_ids.tolist(),
        "item_ids": trained.item_ids.tolist(),
    }
    write_json(path.with_suffix(".json"), description)


def load(path: Path) -> Trained:
    """Read what `save` wrote; anything else is an `AssentError` that names the file."""
    about = path.with_suffix(".json")
    description: dict[str, Any] = read_json(about)
    check_format(about, description)
    try:
        kind = model_class(description["model"])
        model = kind(Sizes(**description["sizes"]), kind.Settings(**description["settings"]))
        model.load_state_dict(load_file(path.with_suffix(".safetensors")))
        return Trained(
            model=model,
            user_ids=np.array(description["user_ids"], dtype=np.str_),
            item_ids=np.array(description["item_ids"], dtype=np.str_),
            seed=description["seed"],
            epochs=description["epochs"],
            monitor=description["monitor"],
        )
    except (KeyError, TypeError, ValidationError, RuntimeError, SafetensorError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise AssentError(
            f"{path.with_suffix('.safetensors')}: not a model that assent wrote ({reason})"
        ) from None


def check_format(path: Path, description: Any) -> None:
    """Refuse a file of another format, naming the version of assent that wrote it."""
    found = description.get("format") if isinstance(description, dict) else None
    if found != FORMAT:
        writer = (
            description.get("assent", "an unknown version")
            if isinstance(description, dict)
            else "another program"
        )
        raise AssentError(
            f"{path}: format {found} (written by assent {writer}); this is assent {version('assent')}, "
            f"which reads format {FORMAT}: run the fit again"
        )
