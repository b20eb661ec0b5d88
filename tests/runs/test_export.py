"""What is exported gives the model's own lists in every format, and knows disclosed rows alone."""

import json
import re
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
import torch
from safetensors.numpy import load_file

from assent.data.problem import Problem
from assent.models import IALS, MODELS
from assent.runs.export import FORMATS, export
from assent.runs.folder import Run
from assent.support.errors import AssentError
from tests.runs.served import problem_of, run_in, some_disclosed

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
pytest.importorskip("onnx", reason="the extra `export` is not installed")
usearch = pytest.importorskip("usearch.index", reason="the extra `export` is not installed")

ABLE = ("ials", "mf", "lightgcn", "cdae")
K = 10
Array = npt.NDArray[Any]


@pytest.fixture(scope="module")
def problem() -> Problem:
    return problem_of()


@pytest.fixture(scope="module", params=ABLE)
def run(request: pytest.FixtureRequest, problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp(request.param)
    return run_in(folder / "run", problem, some_disclosed(problem), request.param)


@pytest.fixture(scope="module")
def exported(run: Run) -> Path:
    export(run, run.folder.parent / "export")
    return run.folder.parent / "export"


def model_scores(run: Run) -> Array:
    """The scores of all items for everybody whom the model knows: [users, items]."""
    everybody = torch.arange(len(run.trained.user_ids))
    found: Array = run.trained.scores_of_all(everybody)[:, :-1].numpy()
    return found


def check_best(places: Array, scores: Array, run: Run) -> None:
    """Check lists of items, by place, against the model's own; rounding may exchange items of equal score."""
    users = run.trained.user_ids.tolist()
    items = run.trained.recommend(users, K)["item"].to_list()
    expected = np.searchsorted(run.trained.item_ids, np.array(items)).reshape(len(users), K)
    assert places.shape == expected.shape
    own = model_scores(run)
    as_good = np.abs(np.take_along_axis(own, places, 1) - np.take_along_axis(own, expected, 1)) < 1e-5
    assert ((places == expected) | as_good).all()
    assert (places == expected).mean() > 0.99
    np.testing.assert_allclose(scores, np.take_along_axis(own, places, 1), rtol=1e-4, atol=1e-4)


def best(scores: Array) -> tuple[Array, Array]:
    places = np.argsort(-scores, axis=1, kind="stable")[:, :K]
    return places, np.take_along_axis(scores, places, axis=1)


def test_vectors_give_the_models_lists(run: Run, exported: Path) -> None:
    tensors = load_file(exported / "vectors.safetensors")
    check_best(*best(tensors["users"] @ tensors["items"].T), run)


def test_the_scoring_graph_gives_the_models_lists(run: Run, exported: Path) -> None:
    session = onnxruntime.InferenceSession(exported / "scores.onnx")
    [scores] = session.run(None, {"users": np.arange(len(run.trained.user_ids))})
    check_best(*best(scores), run)


def test_the_index_gives_the_models_lists(run: Run, exported: Path) -> None:
    index = usearch.Index.restore(exported / "items.usearch", view=True)
    users = load_file(exported / "vectors.safetensors")["users"]
    found = index.search(users, K)
    check_best(found.keys.astype(np.int64), 1 - found.distances, run)


def test_ids_are_those_of_disclosed_rows(run: Run, exported: Path) -> None:
    ids = json.loads((exported / "ids.json").read_text())
    disclosed = run.selection.filter("disclosed")
    assert ids["users"] == sorted(set(disclosed["user"]))
    assert ids["items"] == sorted(set(disclosed["item"]))
    popular = run.recommend("a stranger", len(ids["items"]))["item"].to_list()
    assert [ids["items"][place] for place in ids["popular"]] == popular


def test_files_are_private_and_described(run: Run, exported: Path) -> None:
    about = json.loads((exported / "export.json").read_text())
    names = {file.name for file in exported.iterdir()}
    assert names == {"export.json", *about["files"]}
    assert ("fold_in.onnx" in names) == isinstance(run.trained.model, IALS)
    for name, digest in about["files"].items():
        assert sha256((exported / name).read_bytes()).hexdigest() == digest
        assert (exported / name).stat().st_mode & 0o777 == 0o600
    assert exported.stat().st_mode & 0o777 == 0o700
    assert (about["users"], about["items"]) == model_scores(run).shape


def test_the_readme_runs(run: Run, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code, as it stands, recommends what the run does to everybody, given what they have had."""
    monkeypatch.chdir(exported.parent)
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", (exported / "README.md").read_text(), re.DOTALL):
        exec(code, names)
    had = pl.concat([run.selection.select("user", "item"), run.held_out.select("user", "item")])
    for (user,), rows in run.recommend(k=5).group_by("user"):
        theirs = set(had.filter(user=user)["item"])
        assert names["recommend"](user, theirs, 5) == rows["item"].to_list()


def test_a_withheld_row_changes_no_byte(run: Run, exported: Path, problem: Problem, tmp_path: Path) -> None:
    """Withheld rows are dropped, or have an item that nobody has; others are sealed; a person is added."""
    name = run.trained.model.name
    kept = some_disclosed(problem)
    fewer = replace(problem, train=problem.train[kept], unwillingness=problem.unwillingness[kept])
    sealed = [("u01", "a secret", "never"), ("somebody", problem.item_ids[0], "closed")]
    other = run_in(tmp_path / "run", fewer, kept[kept], name, sealed)
    export(other, tmp_path / "export")
    for file in exported.iterdir():
        assert file.read_bytes() == (tmp_path / "export" / file.name).read_bytes(), file.name


@pytest.fixture(scope="module")
def ials(problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("folded")
    run = run_in(folder / "run", problem, some_disclosed(problem), "ials", epochs=20)
    export(run, folder / "export", formats=["onnx"])
    return run


def test_fold_in_gives_the_models_scores(ials: Run) -> None:
    session = onnxruntime.InferenceSession(ials.folder.parent / "export" / "fold_in.onnx")
    rng = np.random.default_rng(0)
    items, model = ials.trained.item_ids, ials.trained.model
    assert isinstance(model, IALS)
    for count in (0, 1, 2, 7, 30, len(items)):
        places = rng.permutation(len(items))[:count]
        [scores] = session.run(None, {"items": np.concatenate([places, places[:1]])})
        with torch.no_grad():
            expected = model.score_vectors(ials.trained.fold_in(items[places].tolist())[None])[0, :-1]
        np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", sorted(set(MODELS) - set(ABLE)))
def test_other_models_say_what_can_be_exported(name: str, problem: Problem, tmp_path: Path) -> None:
    run = run_in(tmp_path / "run", problem, some_disclosed(problem), name, epochs=1)
    message = (
        rf"^model {name}: its scores are no products of vectors; accepted: ials, mf, lightgcn, cdae, or a"
    )
    with pytest.raises(AssentError, match=message):
        export(run, tmp_path / "export")
    assert not (tmp_path / "export").exists()


def test_an_export_replaces_nothing_but_an_export(ials: Run, tmp_path: Path) -> None:
    target = tmp_path / "export"
    export(ials, target, formats=FORMATS)
    with pytest.raises(AssentError, match="already exists; accepted: another name, or replace=True"):
        export(ials, target)
    (target / "mine.txt").write_text("kept")
    assert set(export(ials, target, formats=["safetensors"], replace=True)) == {
        "ids.json", "vectors.safetensors", "README.md"
    }  # fmt: skip
    assert {file.name for file in target.iterdir()} == {
        "ids.json", "vectors.safetensors", "README.md", "export.json", "mine.txt"
    }  # fmt: skip
    with pytest.raises(AssentError, match="holds no export that could be replaced"):
        export(ials, ials.folder, replace=True)


def test_formats_are_checked_first(ials: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        AssentError, match=r"^formats=\['faiss'\]: accepted: a list of safetensors, onnx, usearch$"
    ):
        export(ials, tmp_path / "export", formats=["faiss"])
    monkeypatch.setattr("assent.runs.export.find_spec", lambda name: None if name == "usearch" else name)
    with pytest.raises(
        AssentError, match=r"^formats='usearch': the library usearch is not installed; accepted: pip"
    ):
        export(ials, tmp_path / "export", formats=["safetensors", "usearch"])
    assert not (tmp_path / "export").exists()
    with pytest.warns(UserWarning, match=r"^not written: usearch; pip install 'assent\[export\]' brings"):
        written = export(ials, tmp_path / "export")
    assert {"vectors.safetensors", "scores.onnx"} < written.keys()
    assert "items.usearch" not in written


def test_a_run_that_discloses_nothing_is_refused(problem: Problem, tmp_path: Path) -> None:
    run = run_in(tmp_path / "run", problem, np.zeros(len(problem.train), dtype=np.bool_), "ials")
    with pytest.raises(AssentError, match="no interaction is disclosed"):
        export(run, tmp_path / "export")
