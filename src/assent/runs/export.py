"""A run's model for other programs: vectors (safetensors), scoring graphs (ONNX), an item index (usearch).

The model's scores have to be products of a person's and an item's vector (`Recommender.vectors`). Everything
comes from the model and from counts of disclosed rows: given the decisions, a withheld interaction changes no
byte. The files name the people and items that have a disclosed row, and no others.

    ids.json             users and items, by their places in all other files; places of the popular items
    vectors.safetensors  `users` [users, d] and `items` [items, d]; a score is the product of two rows
    scores.onnx          places of users → scores of all items
    fold_in.onnx         places of the items that somebody discloses now → scores of all items (iALS alone)
    items.usearch        an index of the items' vectors: finds the best without scoring all
    README.md            how to use them
    export.json          what was exported, and hashes; written last, so that a folder that has it is whole
"""

import warnings
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from assent.runs.folder import Recommending
from assent.runs.recommend import popularity
from assent.support.arrays import Bools
from assent.support.errors import AssentError
from assent.support.files import as_json, check_format, read_json, write_bytes

FORMAT = 1
"""Raised whenever programs that read an export would have to change."""
FORMATS: Final = ("safetensors", "onnx", "usearch")
"""What a model can be exported to; the last two need the library of that name."""
MARKER = "export.json"
IDS = "ids.json"
VECTORS = "vectors.safetensors"
SCORES = "scores.onnx"
FOLD_IN = "fold_in.onnx"
INDEX = "items.usearch"
README = "README.md"
_ALL = (IDS, VECTORS, SCORES, FOLD_IN, INDEX, README)
_CONNECTIVITY, _EXPANSION = 32, 256
"""Links of an item in the index, and candidates that are looked at to find them."""
Vectors = npt.NDArray[np.float32]


def export(
    run: Recommending, to: str | Path, *, formats: Sequence[str] | None = None, replace: bool = False
) -> Mapping[str, int]:
    """Write a run's model to the folder `to`, in these formats; return the bytes of each file, by name.

    By default they are all whose libraries are installed; a warning names the others. The files are for this
    user alone: they name people. A folder with anything in it is refused; with `replace`, one that holds
    another export is not.
    """
    to = Path(to)
    formats = _available() if formats is None else formats
    _check_formats(formats)
    _check_folder(to, replace=replace)
    trained = run.trained
    if not len(trained.item_ids):
        raise AssentError(
            f"{run.folder}: no interaction is disclosed; accepted: a run with something to export"
        )
    users, items = (each[:-1].numpy().astype(np.float32, copy=False) for each in trained.vectors())
    if not (np.isfinite(users).all() and np.isfinite(items).all()):
        raise AssentError("vectors: the model has diverged (NaN); train it with other settings")
    shown = _shown(run)
    items = items[shown]
    contents = {IDS: _ids(run, shown)}
    if "safetensors" in formats:
        contents[VECTORS] = _safetensors(users, items)
    if "onnx" in formats:
        contents |= _graphs(run, users, items, shown)
    if "usearch" in formats:
        contents[INDEX] = _index(items)
    contents[README] = _readme(contents).encode()
    for name in (MARKER, *_ALL):
        (to / name).unlink(missing_ok=True)
    for name, content in contents.items():
        write_bytes(to / name, content, private=True)
    write_bytes(to / MARKER, _description(run, users, items, contents), private=True)
    return {name: len(content) for name, content in contents.items()}


def _available() -> list[str]:
    """Return the formats whose libraries are here."""
    found = [name for name in FORMATS if find_spec(name) is not None]
    if lacking := [name for name in FORMATS if name not in found]:
        how = "pip install 'assent[export]' brings what they need"
        warnings.warn(f"not written: {', '.join(lacking)}; {how}", stacklevel=3)
    return found


def _check_formats(formats: Sequence[str]) -> None:
    """Refuse formats that are unknown, or whose library is not here."""
    if isinstance(formats, str) or not formats or not set(formats) <= set(FORMATS):
        raise AssentError(f"formats={formats!r}: accepted: a list of {', '.join(FORMATS)}")
    for name in formats:
        if find_spec(name) is None:
            raise AssentError(
                f"formats={name!r}: the library {name} is not installed; accepted: pip install "
                f"'assent[export]', or formats without it"
            )


def _check_folder(to: Path, *, replace: bool) -> None:
    """Refuse a folder with anything in it but an export that may be replaced."""
    if not to.exists() or (to.is_dir() and not any(to.iterdir())):
        return
    if not replace:
        raise AssentError(f"{to}: already exists; accepted: another name, or replace=True")
    if not (to / MARKER).is_file():
        raise AssentError(f"{to}: holds no export that could be replaced; accepted: an empty or a new folder")
    check_format(to / MARKER, read_json(to / MARKER), FORMAT)


def _shown(run: Recommending) -> Bools:
    """Return which of the model's items somebody discloses: all, but for those that went since: [n_items]."""
    return np.isin(run.trained.item_ids, popularity(run)["item"].to_numpy().astype(np.str_))


def _ids(run: Recommending, shown: Bools) -> bytes:
    """Return the ids of users and items, and the places of items by popularity."""
    users, items = run.trained.user_ids.tolist(), run.trained.item_ids[shown].tolist()
    shares = pl.DataFrame({"item": items}).join(popularity(run), on="item", how="left", maintain_order="left")
    popular = np.argsort(-shares["share"].to_numpy(), kind="stable")
    return as_json({"users": users, "items": items, "popular": popular.tolist()})


def _safetensors(users: Vectors, items: Vectors) -> bytes:
    from safetensors.numpy import save

    content: bytes = save({"users": np.ascontiguousarray(users), "items": np.ascontiguousarray(items)})
    return content


def _graphs(run: Recommending, users: Vectors, items: Vectors, shown: Bools) -> dict[str, bytes]:
    from assent.models import IALS
    from assent.runs.graphs import fold_in_graph, scoring_graph

    graphs = {SCORES: scoring_graph(users, items)}
    if isinstance(run.trained.model, IALS):
        graphs[FOLD_IN] = fold_in_graph(run.trained.model, shown)
    return graphs


def _index(items: Vectors) -> bytes:
    """Return an index for the largest products; one thread makes the same bytes every time."""
    from usearch.index import Index

    index = Index(
        ndim=items.shape[1],
        metric="ip",
        dtype="f32",
        connectivity=_CONNECTIVITY,
        expansion_add=_EXPANSION,
        expansion_search=_EXPANSION,
    )
    index.add(np.arange(len(items)), np.ascontiguousarray(items), threads=1)
    content = index.save()
    assert content is not None  # it has no path to be written to
    return bytes(content)


def _description(run: Recommending, users: Vectors, items: Vectors, contents: Mapping[str, bytes]) -> bytes:
    return as_json(
        {
            "format": FORMAT,
            "assent": version("assent"),
            "model": run.trained.model.name,
            "users": len(users),
            "items": len(items),
            "dimension": items.shape[1],
            "files": {name: sha256(content).hexdigest() for name, content in contents.items()},
        }
    )


_FILES: Final = {
    IDS: "`users` and `items`: ids by their places in all other files. `popular`: places of items, the one "
    "that most people disclose first.",
    VECTORS: "`users` and `items`, a row each. The product of two rows is the score.",
    SCORES: "Input `users`: places of people [n]. Output `scores` [n, items].",
    FOLD_IN: "Input `items`: places of the items that somebody discloses now [n]. Output `scores` [items].",
    INDEX: "The items' vectors, keyed by their places, for inner products.",
}
_USES: Final = {
    SCORES: """
import onnxruntime

session = onnxruntime.InferenceSession("export/scores.onnx")
[scores] = session.run(None, {"users": [0, 1]})  # of the first two people: [2, items]
""",
    FOLD_IN: """
session = onnxruntime.InferenceSession("export/fold_in.onnx")
[scores] = session.run(None, {"items": [3, 17]})  # of somebody who discloses these two: [items]
""",
    INDEX: """
import json
from pathlib import Path

from safetensors.numpy import load_file
from usearch.index import Index

folder = Path("export")
ids = json.loads((folder / "ids.json").read_text())
users = {user: place for place, user in enumerate(ids["users"])}
vectors = load_file(folder / "vectors.safetensors")["users"]
index = Index.restore(folder / "items.usearch", view=True)
index.expansion_search = 256  # more finds more of the best, and takes longer


def recommend(user, had, k=10):
    places = ids["popular"]
    if user in users:
        places = index.search(vectors[users[user]], k + len(had)).keys.tolist()
    return [ids["items"][place] for place in places if ids["items"][place] not in had][:k]
""",
}


def _readme(contents: Mapping[str, bytes]) -> str:
    """Return what the files are and how they are used."""
    rows = "\n".join(f"| `{name}` | {_FILES[name]} |" for name in contents)
    needs = {INDEX: (INDEX, VECTORS), SCORES: (SCORES,), FOLD_IN: (FOLD_IN,)}
    uses = "".join(
        f"\n```python{code}```\n"
        for name, code in _USES.items()
        if all(each in contents for each in needs[name])
    )
    return f"""# An exported recommender

It was trained on disclosed interactions alone, and names only people and items that have one. Guard the files
all the same: they tell who discloses anything.

| file | what it holds |
|---|---|
{rows}

People who are not in `users` disclose nothing: give them the popular items. The model does not know what else
people have had. Do not show them that: ask for more items than you need, and leave those out.

Graphs are run by `onnxruntime`, the index is searched by `usearch`. A program that uses both should import
`onnxruntime` first: some versions of the two do not go together otherwise.
{uses}"""
