"""A trained recommender: its scores, rankings and recommendations, and its files (safetensors and JSON)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as as_bytes
from torch import Tensor

from assent.data.problem import Rows
from assent.models import IALS, MODELS, Evidence, Recommender, Sizes, model_class, model_name
from assent.models.checks import build_model
from assent.support.arrays import Ints, Strings, positions
from assent.support.cost import NO_COST, Cost
from assent.support.errors import AssentError
from assent.support.files import as_json, check_format, parse_json, read_own, write_bytes
from assent.support.runtime import one_thread
from assent.training.ranking import Pairs, Scores, best_items

FORMAT = 2
"""Version of the files; raised when older files cannot be read any more."""


def evidence_of(rows: Rows) -> Evidence:
    """Return disclosed rows, in a model's indices, as evidence of weight 1 each."""
    weights = torch.ones(len(rows), dtype=torch.get_default_dtype())
    return Evidence(torch.from_numpy(rows.users), torch.from_numpy(rows.items), weights)


@dataclass(frozen=True)
class Trained:
    """A trained recommender with the ids of its users and items."""

    model: Recommender
    user_ids: Strings  # sorted: [n_users]
    item_ids: Strings  # sorted: [n_items]
    seed: int
    epochs: int  # the epoch whose parameters were kept
    monitor: float | None
    """Score of these parameters by which the epoch was kept, validation NDCG@5 or minus the loss; None where
    no validation row was looked at."""
    rows: Rows | None = None
    """The disclosed interactions that the model reads, in its indices; None if it reads none."""
    seconds: float = 0.0
    """Wall-clock seconds of the training, those of killed processes included; not saved with the model."""
    cost: Cost = NO_COST
    """The same as a cost that adds up with others; not saved with the model."""

    @cached_property
    @torch.no_grad()
    def _prepared(self) -> Any:
        self.model.eval()
        return None if self.rows is None else self.model.prepare(evidence_of(self.rows))

    def scores(self, users: Tensor, items: Tensor) -> Tensor:
        """Return the logits of `users[n]` with `items[n, m]`, in the model's indices: [n, m]."""
        return self.model.scores(users, items, self._prepared)

    @torch.no_grad()
    def scores_of_all(self, users: Tensor) -> Tensor:
        """Return the logits of `users[n]` for every item and, last, for an unknown one: [n, n_items + 1]."""
        return self.model.score_all(users, self._prepared)

    @torch.no_grad()
    def vectors(self) -> tuple[Tensor, Tensor]:
        """Return vectors of users and items whose products are the logits: [users + 1, d], [items + 1, d].

        The unknown ones come last. Only some models have vectors (`Recommender.vectors`).
        """
        if not self.model.brings("vectors"):
            able = ", ".join(name for name, kind in MODELS.items() if "vectors" in vars(kind))
            raise AssentError(
                f"model {self.model.name}: its scores are no products of vectors; accepted: {able}, or a "
                "model of your own that implements vectors"
            )
        with one_thread():  # sums depend on the number of threads
            users, items = self.model.vectors(self._prepared)
        return users.detach(), items.detach()

    def fold_in(self, items: Iterable[str]) -> Tensor:
        """Return the vector of a person who discloses these items, exact given the model's items: [d].

        Items that the model does not know tell it nothing. A person of the training data who discloses the
        same items as there gets the vector that they have there; who discloses nothing gets that of an
        unknown user. Only some models can (iALS).
        """
        return self._folded_in([items])[0]

    def _folded_in(self, people: Sequence[Iterable[str]]) -> Tensor:
        """Return the vectors of people who disclose these items: [len(people), d]."""
        if not isinstance(self.model, IALS):
            raise AssentError(f"fold-in: model {self.model.name} cannot; accepted: {IALS.name}")
        places = [positions(self.item_ids, np.array(_list_of_ids(items), dtype=np.str_)) for items in people]
        known = [np.unique(each[each < len(self.item_ids)]) for each in places]
        with one_thread():  # sums of the Gram matrix depend on the number of threads
            return self.model.fold_in([torch.from_numpy(each) for each in known])

    def recommend(
        self,
        users: str | Sequence[str],
        k: int = 10,
        *,
        exclude: Pairs | None = None,
        disclosed: Mapping[str, Iterable[str]] | None = None,
    ) -> pl.DataFrame:
        """Return the k best items for each user: a table of user, item, score and rank (1 is the best).

        `users` are ids; a user whom the model does not know gets the scores of an unknown user. `exclude`
        lists what not to recommend to whom, as a table with the columns user and item or as (user, item)
        pairs; usually these are the interactions that people disclosed. A user may get fewer than k items.
        Items of equal score are in the order of their ids. `disclosed` are the items that some of the users
        disclose now: their scores come from these alone, by fold-in, and not from what the model was trained
        on, and these items are not recommended.

            model.recommend(["ann", "bob"], k=5, exclude=[("ann", "Dune")])
            model.recommend("eve", k=5, disclosed={"eve": ["Dune", "Solaris"]})
        """
        asked = pl.Series([users] if isinstance(users, str) else list(users), dtype=pl.String)
        now = {user: _list_of_ids(items) for user, items in (disclosed or {}).items()}
        if others := now.keys() - set(asked):
            raise AssentError(f"disclosed: {min(others)!r} is none of the users; accepted: their items alone")
        theirs = [(user, item) for user, items in now.items() for item in items]
        known = positions(self.user_ids, np.array(asked.to_list(), dtype=np.str_))
        return best_items(
            asked,
            self.item_ids,
            k,
            lambda here: self._scores_now(asked[here].to_list(), known[here], now),
            [] if exclude is None else exclude,
            theirs,
        )

    def _scores_now(self, asked: list[str], known: Ints, disclosed: Mapping[str, Iterable[str]]) -> Scores:
        """Return the scores of all items for users, from what they disclose now where that is given."""
        scores = self.scores_of_all(torch.from_numpy(known))
        given = [place for place, user in enumerate(asked) if user in disclosed]
        if given:
            vectors = self._folded_in([disclosed[asked[place]] for place in given])
            assert isinstance(self.model, IALS)  # others have been refused
            with torch.no_grad():
                scores[given] = self.model.score_vectors(vectors)
        found: Scores = scores.numpy()
        return found


def _list_of_ids(items: Iterable[str]) -> list[str]:
    """Return the ids of items as a list; one text alone is refused: its letters would be taken for ids."""
    if isinstance(items, str):
        raise AssentError(f"items: the text {items!r}; accepted: a list of ids")
    return list(items)


def copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return contiguous copies of tensors, each with its own memory, as safetensors needs them."""
    own = torch.contiguous_format
    return {name: value.detach().clone(memory_format=own) for name, value in tensors.items()}


def named_under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors under `prefix`, named without it."""
    start = f"{prefix}."
    return {key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)}


def tensors_of(trained: Trained) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return a model as tensors and a description that JSON can hold.

    The tensors are the parameters and, for a model that reads them, the disclosed interactions.
    """
    tensors = {f"model.{name}": value for name, value in copies(trained.model.state_dict()).items()}
    if trained.rows is not None:
        tensors |= {f"evidence.{name}": torch.from_numpy(each) for name, each in vars(trained.rows).items()}
    description = {
        "format": FORMAT,
        "assent": version("assent"),
        "model": model_name(type(trained.model)),
        "settings": trained.model.settings.model_dump(mode="json"),
        "sizes": asdict(trained.model.sizes),
        "seed": trained.seed,
        "epochs": trained.epochs,
        "monitor": trained.monitor,
        "user_ids": trained.user_ids.tolist(),
        "item_ids": trained.item_ids.tolist(),
    }
    model = trained.model
    if isinstance(model, IALS) and model.weighed_by != model.sizes:  # people were folded in since
        description["weighed_by"] = asdict(model.weighed_by)
    return tensors, description


def trained_from(
    tensors: Mapping[str, Tensor], description: Mapping[str, Any], *, model: str | None = None
) -> Trained:
    """Return the model that `tensors_of` described; raise an `AssentError` if it cannot be read.

    A description may name a model of assent's. Any other is `model`, as `package.module:Class`: code is run
    because the caller names it, never because a file does.
    """
    kind = _kind(description.get("model"), model)
    try:
        sizes, settings = Sizes(**description["sizes"]), kind.Settings(**description["settings"])
        users, items = (_ids(description[key]) for key in ("user_ids", "item_ids"))
        _check_sizes(sizes, users=len(users), items=len(items))
        parameters = named_under("model", tensors)
        if kind in MODELS.values():  # before memory is taken for sizes that a damaged file may name
            with torch.device("meta"):
                _check_shapes(parameters, build_model(kind, sizes, settings).state_dict())
        made = build_model(kind, sizes, settings)
        made.load_state_dict(dict(parameters))
        if isinstance(made, IALS) and "weighed_by" in description:
            made.weigh(Sizes(**description["weighed_by"]))
        rows = _evidence(named_under("evidence", tensors), sizes) if made.reads_evidence else None
        about = {key: description[key] for key in ("seed", "epochs", "monitor")}
        if not all(isinstance(value, int | float | None) for value in about.values()):
            raise TypeError("seed, epochs or monitor is no number")
        return Trained(made.eval(), users, items, **about, rows=rows)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise AssentError(f"not a model that this assent can read ({reason})") from None


def _kind(named: object, model: str | None) -> type[Recommender]:
    """Return the class of a description that is `named` so."""
    if model is None:
        if isinstance(named, str) and named in MODELS:
            return MODELS[named]
        raise AssentError(
            f"made by {named!r}, which is no model of assent's; accepted: model=package.module:Class for the "
            "code that made it, if you trust that"
        )
    kind = model_class(model)
    if named not in (model, model_name(kind)):
        raise AssentError(f"made by {named!r}, and not by {model}, the model that was asked for")
    return kind


def _ids(given: Any) -> Strings:
    """Return ids as an array; a vocabulary is sorted, and nobody is in it twice: [n]."""
    if not isinstance(given, list) or not set(map(type, given)) <= {str}:
        raise TypeError("ids that are no text")
    found = np.array(given, dtype=np.str_)
    if (found[:-1] >= found[1:]).any():
        raise ValueError("ids that are not in order")
    return found


def _check_sizes(sizes: Sizes, *, users: int, items: int) -> None:
    if not all(type(each) is int and each >= 0 for each in vars(sizes).values()):
        raise ValueError("sizes that are no numbers")
    if (sizes.users, sizes.items) != (users, items):
        raise ValueError("sizes that are not those of the ids")


def _check_shapes(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    for name in sorted({*found, *expected}):
        if name not in found or name not in expected or found[name].shape != expected[name].shape:
            raise ValueError(f"the parameter {name} has another shape")


def _evidence(tensors: Mapping[str, Tensor], sizes: Sizes) -> Rows:
    """Return the disclosed interactions that were saved with a model."""
    rows = Rows(**{name: each.numpy() for name, each in tensors.items()})
    for each, size in ((rows.users, sizes.users), (rows.items, sizes.items)):
        if each.dtype != np.int64 or each.shape != (sizes.rows,) or not ((each >= 0) & (each < size)).all():
            raise ValueError("interactions that are not those of its users and items")
    return rows


def as_files(trained: Trained, name: str) -> dict[str, bytes]:
    """Return the files of a model: `name`.safetensors, then `name`.json, which has the hash of the former."""
    tensors, description = tensors_of(trained)
    content = as_bytes(tensors)
    ids = {key: description.pop(key) for key in ("user_ids", "item_ids")}  # the long lists come last
    about = as_json(description | {"parameters": _digest(content)} | ids)
    return {f"{name}.safetensors": content, f"{name}.json": about}


def save(trained: Trained, path: Path) -> None:
    """Write `path`.safetensors, then `path`.json: once the latter exists, the model is complete."""
    for name, content in as_files(trained, path.name).items():
        write_bytes(path.with_name(name), content, private=True)


def load(path: Path, model: str | None = None) -> Trained:
    """Read what `save` wrote; anything else raises an `AssentError` that names the file.

    A model of your own is named by `model`, as `package.module:Class`; its code is run.
    """
    parameters, about = (path.with_name(f"{path.name}.{kind}") for kind in ("safetensors", "json"))
    return from_files(path, read_own(about), read_own(parameters), model)


def from_files(path: Path, about: bytes, parameters: bytes, model: str | None = None) -> Trained:
    """Return the model `path` from the content of its files."""
    file = path.with_name(f"{path.name}.json")
    description: dict[str, Any] = parse_json(file, about)
    check_format(file, description, FORMAT)
    if _digest(parameters) != description.get("parameters"):
        other = f"not the parameters that {file.name} describes; train again"
        raise AssentError(f"{file.with_suffix('.safetensors')}: {other}")
    try:
        tensors = from_bytes(parameters)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise AssentError(f"{file.with_suffix('.safetensors')}: no safetensors ({error})") from None
    try:
        return trained_from(tensors, description, model=model)
    except AssentError as error:
        raise AssentError(f"{file}: {error}") from None


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
