"""A trained recommender, ready to be asked.

A trained recommender on disk: parameters as safetensors, everything else as JSON beside them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as as_bytes
from torch import Tensor

from assent.data.problem import Rows
from assent.models import Evidence, Recommender, Sizes, model_class, model_name
from assent.models.contract import build_model
from assent.support.arrays import Strings
from assent.support.cost import NO_COST, Cost
from assent.support.errors import AssentError
from assent.support.files import check_format, read_json, write_json, write_with
from assent.training.checkpoint import copies, named_under


def evidence_of(rows: Rows) -> Evidence:
    """Disclosed rows, in a model's indices, as what it reads: each counts in full."""
    weights = torch.ones(len(rows), dtype=torch.get_default_dtype())
    return Evidence(torch.from_numpy(rows.users), torch.from_numpy(rows.items), weights)


@dataclass(frozen=True)
class Trained:
    """A trained recommender with the ids that its indices mean."""

    model: Recommender
    user_ids: Strings
    item_ids: Strings
    seed: int
    epochs: int
    """Epoch whose parameters were kept."""
    monitor: float | None
    """Validation NDCG@5 of those parameters, as early stopping measures it; None without validation rows."""
    rows: Rows | None = None
    """The disclosed interactions that the model reads, in its indices; None if it reads none."""
    seconds: float = 0.0
    """What the training took, by the wall clock, in all processes that worked on it; no part of a file."""
    cost: Cost = NO_COST
    """The same as a cost that can be added up; no part of a file."""

    @cached_property
    @torch.no_grad()
    def _prepared(self) -> Any:
        self.model.eval()
        return None if self.rows is None else self.model.prepare(evidence_of(self.rows))

    @torch.no_grad()
    def scores(self, users: Tensor, items: Tensor) -> Tensor:
        """Logits of `users[n]` with `items[n, m]`, in the model's indices: [n, m]."""
        logits: Tensor = self.model(users, items, self._prepared)[0]
        return logits

    @torch.no_grad()
    def scores_of_all(self, users: Tensor) -> Tensor:
        """Logits of `users[n]` for every item and, last, for an unknown one: [n, n_items + 1]."""
        return self.model.score_all(users, self._prepared)


FORMAT = 2
"""Raised whenever a file written before could not be read any more."""


def tensors_of(trained: Trained) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return a model's parameters, with the disclosed rows if it reads them, and a description as JSON."""
    tensors = {f"model.{name}": value for name, value in copies(trained.model.state_dict()).items()}
    if trained.rows is not None:
        tensors |= {
            "evidence.users": torch.from_numpy(trained.rows.users),
            "evidence.items": torch.from_numpy(trained.rows.items),
        }
    sizes = trained.model.sizes
    description = {
        "format": FORMAT,
        "assent": version("assent"),
        "model": model_name(type(trained.model)),
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
    return tensors, description


def trained_from(tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> Trained:
    """Return the model that `tensors_of` took apart."""
    kind = model_class(description["model"])
    model = build_model(kind, Sizes(**description["sizes"]), kind.Settings(**description["settings"]))
    model.load_state_dict(named_under("model", dict(tensors)))
    evidence = named_under("evidence", dict(tensors))
    return Trained(
        model=model.eval(),
        user_ids=np.array(description["user_ids"], dtype=np.str_),
        item_ids=np.array(description["item_ids"], dtype=np.str_),
        seed=description["seed"],
        epochs=description["epochs"],
        monitor=description["monitor"],
        rows=Rows(evidence["users"].numpy(), evidence["items"].numpy()) if evidence else None,
    )


def save(trained: Trained, path: Path) -> None:
    """Write `path`.safetensors, then `path`.json: where the latter is, the model is whole."""
    parameters, about = files_of(path)
    tensors, description = tensors_of(trained)
    write_with(parameters, lambda file: file.write(as_bytes(tensors)))
    write_json(about, {**description, "parameters": _digest(parameters)})


def load(path: Path) -> Trained:
    """Read what `save` wrote; anything else is an `AssentError` that names the file."""
    parameters, about = files_of(path)
    description: dict[str, Any] = read_json(about)
    check_format(about, description, FORMAT)
    try:
        if _digest(parameters) != description["parameters"]:
            raise AssentError(f"{parameters}: not the parameters that {about.name} describes; train again")
        return trained_from(load_file(parameters), description)
    except FileNotFoundError:
        raise AssentError(f"{parameters}: no such file") from None
    except (KeyError, TypeError, ValidationError, RuntimeError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise AssentError(f"{about}: not a model that this assent can read ({reason})") from None


def files_of(path: Path) -> tuple[Path, Path]:
    """The two files of the model `path`: parameters and description."""
    return path.with_name(f"{path.name}.safetensors"), path.with_name(f"{path.name}.json")


def _digest(file: Path) -> str:
    """A hash of the parameters' file, by which the description knows its own."""
    return blake2b(file.read_bytes(), digest_size=16).hexdigest()
