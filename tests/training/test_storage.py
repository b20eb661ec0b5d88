import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from assent.models import MF, Draws, MFSettings, Sizes
from assent.support.errors import AssentError
from assent.training import Trained
from assent.training.stored import FORMAT, load, save, tensors_of, trained_from

IDS = {"user_ids": ["", "Zoë", 'o\'Hara, "Ann"', "日本\n☂"], "item_ids": ["1", "10", "2", "Grüße", "𝄞"]}


def some_model(seed: int = 0, dimension: int = 3) -> Trained:
    model = MF(Sizes(users=4, items=5, rows=9, negatives=2), MFSettings(dimension=dimension, strength=0.3))
    model.initialise(Draws.numbered(model.sizes, seed))
    model.finish()
    return Trained(
        model, np.array(IDS["user_ids"]), np.array(IDS["item_ids"]), seed=seed, epochs=7, monitor=0.25
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A saved model, alone in its folder."""
    save(some_model(), tmp_path / "model")
    return tmp_path / "model"


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


def test_a_model_comes_back_as_it_was(path: Path) -> None:
    before, after = some_model(), load(path)
    everybody = torch.arange(5)
    assert torch.equal(after.scores_of_all(everybody), before.scores_of_all(everybody))
    everything = torch.arange(6).expand(5, -1)
    for ours, theirs in zip(
        after.model(everybody, everything), before.model(everybody, everything), strict=True
    ):
        assert torch.equal(ours, theirs)
    assert after.user_ids.tolist() == IDS["user_ids"]
    assert after.item_ids.tolist() == IDS["item_ids"]
    assert (after.seed, after.epochs, after.monitor) == (0, 7, 0.25)
    assert after.model.sizes == before.model.sizes
    assert after.model.settings == before.model.settings


def test_a_model_comes_back_from_its_tensors_and_description() -> None:
    before = some_model()
    tensors, description = tensors_of(before)
    after = trained_from(tensors, json.loads(json.dumps(description)))
    everybody = torch.arange(5)
    assert torch.equal(after.scores_of_all(everybody), before.scores_of_all(everybody))
    assert (after.seed, after.epochs, after.monitor, after.seconds) == (0, 7, 0.25, 0)
    again, described = tensors_of(after)
    assert described == description
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[name], value) for name, value in tensors.items())


@pytest.mark.parametrize("wrong", [{"model": "svd"}, {"sizes": {"users": 4}}, {"settings": {"dimension": 4}}])
def test_tensors_with_a_description_of_another_model_are_refused(wrong: dict[str, Any]) -> None:
    tensors, description = tensors_of(some_model())
    with pytest.raises(AssentError) as caught:
        trained_from(tensors, description | wrong)
    assert "\n" not in str(caught.value)


def test_a_model_of_nobody_comes_back(tmp_path: Path) -> None:
    model = MF(Sizes(0, 0, 0, 1), MFSettings(dimension=2))
    nobody = np.array([], dtype=np.str_)
    save(Trained(model, nobody, nobody, seed=0, epochs=0, monitor=None), tmp_path / "model")
    after = load(tmp_path / "model")
    assert (after.user_ids.tolist(), after.item_ids.tolist(), after.monitor) == ([], [], None)
    assert after.user_ids.dtype.kind == "U"
    assert after.scores_of_all(torch.tensor([0])).tolist() == [[0]]


def test_equal_models_are_equal_files(path: Path, tmp_path: Path) -> None:
    first = contents(path)
    assert first.keys() == {"model.safetensors", "model.json"}
    save(load(path), path)
    assert contents(path) == first
    save(some_model(seed=1), path)
    assert contents(path) != first


def rewrite(path: Path, **changed: Any) -> None:
    about = path.with_suffix(".json")
    about.write_text(json.dumps(json.loads(about.read_text(encoding="utf-8")) | changed), encoding="utf-8")


def test_another_format_is_refused_with_its_version(path: Path) -> None:
    rewrite(path, format=FORMAT + 1, assent="9.9.9")
    with pytest.raises(
        AssentError,
        match=rf"model\.json: format {FORMAT + 1} \(written by assent 9\.9\.9\).*reads format {FORMAT}",
    ):
        load(path)


@pytest.mark.parametrize("content", ["[]", "{}", '{"weights": [1, 2]}', '"text"', "null", "1"])
def test_the_json_of_another_program_is_refused(path: Path, content: str) -> None:
    path.with_suffix(".json").write_text(content)
    with pytest.raises(AssentError, match=r"model\.json: format None"):
        load(path)


def test_a_missing_or_damaged_description_is_named(path: Path) -> None:
    about = path.with_suffix(".json")
    about.write_text(about.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    with pytest.raises(AssentError, match=r"model\.json: not valid JSON"):
        load(path)
    about.unlink()
    with pytest.raises(AssentError, match=r"model\.json: no such file"):
        load(path)


@pytest.mark.parametrize(
    "changed",
    [
        {"sizes": {"users": 4}},
        {"sizes": None},
        {"settings": {"dimension": -1}},
        {"settings": {"colour": "red"}},
        {"settings": {"dimension": 4}},
        {"sizes": {"users": 3, "items": 5, "rows": 9, "negatives": 2}},
    ],
    ids=str,
)
def test_a_description_that_does_not_fit_is_refused(path: Path, changed: dict[str, Any]) -> None:
    rewrite(path, **changed)
    with pytest.raises(AssentError, match=r"model\.\w+: .*assent") as caught:
        load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["model", "settings", "sizes", "user_ids", "item_ids", "seed", "epochs"])
def test_a_description_that_lacks_something_is_refused(path: Path, key: str) -> None:
    about = path.with_suffix(".json")
    description = json.loads(about.read_text(encoding="utf-8"))
    del description[key]
    about.write_text(json.dumps(description))
    with pytest.raises(AssentError, match=rf"model\.\w+: .*{key}"):
        load(path)


def test_a_model_that_this_version_does_not_have_is_refused_with_its_file(path: Path) -> None:
    rewrite(path, model="svd")
    with pytest.raises(AssentError, match=r"model\.\w+: .*svd"):
        load(path)


def test_missing_parameters_are_named(path: Path) -> None:
    path.with_suffix(".safetensors").unlink()
    with pytest.raises(AssentError, match=r"model\.safetensors"):
        load(path)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.99])
def test_truncated_parameters_are_named(path: Path, share: float) -> None:
    file = path.with_suffix(".safetensors")
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(
        AssentError, match=r"model\.safetensors: not the parameters that model.json describes"
    ):
        load(path)


def test_the_parameters_of_another_model_are_refused(path: Path, tmp_path: Path) -> None:
    save(some_model(dimension=8), tmp_path / "other")
    (tmp_path / "other.safetensors").replace(path.with_suffix(".safetensors"))
    with pytest.raises(
        AssentError, match=r"model\.safetensors: not the parameters that model.json describes"
    ):
        load(path)


def half_written(file: Path, content: object) -> None:
    file.write_text("half a mod")
    raise OSError(28, "No space left on device")


def test_a_write_that_fails_half_way_leaves_the_old_model(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(path)
    monkeypatch.setattr(Path, "write_bytes", half_written)
    with pytest.raises(OSError, match="No space left"):
        save(some_model(seed=1), path)
    assert contents(path) == before
    load(path)


def test_a_first_write_that_fails_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "write_bytes", half_written)
    with pytest.raises(OSError, match="No space left"):
        save(some_model(), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_model_without_its_description_is_not_taken_for_whole(tmp_path: Path) -> None:
    in_the_way = tmp_path / "model.json"
    in_the_way.mkdir()
    with pytest.raises(OSError, match="directory"):
        save(some_model(), tmp_path / "model")
    in_the_way.rmdir()
    assert (tmp_path / "model.safetensors").exists()
    with pytest.raises(AssentError, match=r"model\.json: no such file"):
        load(tmp_path / "model")
