"""All items from end to end on tiny settings: figures, files, the page, and what is not done twice."""

import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import polars as pl
import pytest

from assent.cli import reproduce_command
from assent.data.problem import Problem
from assent.evaluation.evaluate import validation_losses
from assent.lab import Lab, Store
from assent.lab.anchors import InfluenceAt, random_anchors
from assent.lab.store import Found
from assent.methods import influence_settings, make_method
from assent.models.losses import Loss
from assent.reproduce import ITEMS, Plan, Profile, Reproduction, build_page, paper, reproduce
from assent.reproduce.item import Block, Cell, Chapter
from assent.reproduce.plan import NULLS, OURS, Where, problem_of
from assent.reproduce.plan import DataSource as Source
from assent.reproduce.run import CELLS, Cells
from assent.results.records import name as way_name
from assent.results.words import percent
from assent.runs.compare import compare
from assent.runs.measure import Cell as MethodCell
from assent.support.errors import AssentError
from assent.support.files import read_json
from assent.support.progress import Advance
from assent.support.runtime import code_state
from tests.conftest import Assent
from tests.small import Recorded, rehashed, trained_in

IN_PROFILE = [name for name, item in ITEMS.items() if Profile.ASSENT in item.profiles]
TIMES = ("seconds", "seconds_error", "seconds_p")


def chapter(found: Reproduction, name: str) -> Chapter:
    return next(each for each in found.chapters if each.item.name == name)


def missing(cells: Cells, name: str, plan: Plan) -> list[Cell]:
    """Those of an item's cells that are not there."""
    return [cell for cell in ITEMS[name].cells(plan) if not cells.found([cell])]


def timeless(chapters: Sequence[Chapter]) -> list[Any]:
    return [
        [{key: value for key, value in record.items() if key not in TIMES} for record in each.records]
        for each in chapters
    ]


def test_every_item_has_something_to_show(found: Reproduction) -> None:
    assert [each.item.name for each in found.chapters] == IN_PROFILE
    for each in found.chapters:
        assert len(each.records) == each.wanted
        assert each.table.rows
        means = [amount.mean for row in each.table.rows for amount in row.amounts.values()]
        assert any(mean is not None for mean in means)
        assert bool(each.beside) != bool(each.item.not_comparable)
    assert found.seconds > 0


def test_the_overall_table_is_what_compare_finds(found: Reproduction, plan: Plan, data: Path) -> None:
    table = chapter(found, "overall").table
    methods = [plan.method(way, "mf", "diginetica") for way in (("threshold", ""), OURS)]
    rewards = {"Threshold": [], "IFRQE++ (nash)": [], "Nothing": []}  # type: dict[str, list[float]]
    for seed in range(plan.repeats):
        records = compare(
            problem_of(plan.source("diginetica"), seed, Where(data)),
            [(plan.settings("mf", "diginetica"), methods)],
            prices=[1.0],
            seeds=[seed],
        )
        for name, method in zip(rewards, ("threshold", "ifrqe++", "nothing"), strict=True):
            rewards[name] += [each["reward_mean"] for each in records if each["method"] == method]
    for name, values in rewards.items():
        row = table.row(dataset="diginetica", model="mf", method_name=name)
        assert row is not None
        assert row.runs == 2
        amount = row.amounts["reward_mean"]
        assert amount.mean == pytest.approx(np.mean(values))
        assert amount.error == pytest.approx(np.std(values, ddof=1) / np.sqrt(2))


def test_how_long_proactive_takes_is_said_beside_what_the_paper_says(found: Reproduction) -> None:
    overall = chapter(found, "overall")
    ratios = []
    for row in overall.table.rows:
        place = {key: row.labels[key] for key in ("dataset", "model")}
        ours = overall.table.row(**place, method_name="IFRQE++ (nash)")
        theirs = row.amounts["seconds"].mean
        if row.labels["method_name"] == "Proactive (nash)" and ours and theirs:
            seconds = ours.amounts["seconds"].mean
            assert seconds
            ratios.append(theirs / seconds)
    assert len(ratios) > 1
    expected = f"takes {min(ratios):.1f} to {max(ratios):.1f} times as long as IFRQE++"
    assert any(expected in sentence for sentence in overall.said)


def test_the_papers_claims_are_held_against_its_own_table(found: Reproduction) -> None:
    (said,) = (each for each in chapter(found, "overall").said if "Its own Table 1" in each)
    rows = paper.numbers()["overall"]
    base, ours = (
        np.array([[rows[model][method][data]["f1"][0] for data in rows[model][method]] for model in rows])
        for method in ("Base", "IFRQE++")
    )
    assert f"gives {percent(float((ours / base - 1).mean()), 1)} for F1" in said
    assert f"{percent(0.207, 1)}, {percent(0.239, 1)}, {percent(0.211, 1)} and {percent(0.259, 1)}" in said


def test_repeats_draw_other_unwillingness_of_real_data_alone(plan: Plan, data: Path) -> None:
    first, second = (
        problem_of(plan.source("diginetica"), seed, Where(data)).unwillingness for seed in (0, 1)
    )
    assert not np.array_equal(first, second)
    first, second = (
        problem_of(plan.source("simulation"), seed, Where(data)).unwillingness for seed in (0, 1)
    )
    assert np.array_equal(first, second)


def test_fewer_users_are_neighbours(data: Path) -> None:
    everybody = problem_of(Source("diginetica", negatives=9), 0, Where(data))
    few = problem_of(Source("diginetica", users=10, negatives=9), 0, Where(data))
    assert (everybody.n_users, few.n_users) == (45, 10)
    assert set(few.user_ids) < set(everybody.user_ids)

    def occurrences(problem: Problem) -> float:
        return (len(problem.train) + len(problem.valid) + len(problem.test)) / problem.n_items

    by_lot = 10 / 45 * occurrences(everybody)
    assert occurrences(few) > 1.2 * max(by_lot, 1)


@pytest.mark.usefixtures("found")
def test_items_share_their_cells(plan: Plan, data: Path, out: Path) -> None:
    available = replace(plan, datasets=("simulation", "diginetica"))
    cells = Cells(Store(out / CELLS), Where(data))
    for name in ("overall", "price"):
        assert missing(cells, name, available) == []
    keys = {
        name: {json.dumps(cell.key(cells.lab(cell)), sort_keys=True) for cell in ITEMS[name].cells(available)}
        for name in ("overall", "more-metrics", "price", "anchors", "scratch")
    }
    assert keys["overall"] == keys["more-metrics"]
    assert keys["overall"] <= keys["price"]
    assert keys["anchors"] & keys["overall"]
    assert keys["scratch"] & keys["overall"]


class Planned(Recorded):
    """Computes nothing."""

    def map(self, work: Any, items: Sequence[Any], shared: Any, tell: Any) -> list[Any]:
        self.lists.append(list(items))
        return [([], False)] * len(items)


def test_cells_are_dealt_out_after_what_they_share(plan: Plan, data: Path, tmp_path: Path) -> None:
    """A worker for each cell, so that a model that trains for long does not stay with one of them."""
    few, executor = replace(plan, datasets=("simulation",), repeats=1), Planned()
    cells = ITEMS["overall"].cells(few)
    Cells(Store(tmp_path), Where(data)).compute(cells, executor=executor)
    first, then = ([group.tasks for group in each] for each in executor.lists if each)
    assert all(len(tasks) == 1 for tasks in (*first, *then))
    methods = {id(cell): cell.task.method for cell in cells if isinstance(cell.task, MethodCell)}
    assert [cell for [cell] in then] == cells
    shared = [cell.task for [cell] in first]
    anchors = max(getattr(method, "n_anchors", 0) for method in methods.values())
    assert {type(task) for task in shared} == {InfluenceAt}
    assert len(shared) == anchors * len(few.models)


def test_a_cell_that_fails_is_told_and_the_others_go_on(plan: Plan, data: Path, tmp_path: Path) -> None:
    few, item = replace(plan, datasets=("simulation",), repeats=1), ITEMS["overall"]
    cells = item.cells(few)
    broken = [cell for cell in cells if cell.labels["method_name"].startswith("IFRQE")]
    found = reproduce([replace(item, blocks=_breaking)], few, tmp_path, data=data)
    said = {
        "ifrqe": "out of luck",
        "ifrqe++": "ZeroDivisionError: nobody foresaw it (test_",
    }
    assert len(found.failed) == len(broken) == 4
    for sentence, cell in zip(found.failed, broken, strict=True):
        name = cell.labels["method_name"]
        why = said[name.split()[0].lower()]
        assert sentence.startswith(f"simulation, {name}, mf, repeat 1: {why}")
    (only,) = found.chapters
    assert len(only.records) == len(cells) - len(broken)
    page = unescape(build_page(found))
    assert "What went wrong" in page
    assert all(sentence in page for sentence in found.failed)
    again = reproduce([item], few, tmp_path, data=data)
    assert again.failed == []
    assert len(again.chapters[0].records) == len(cells)
    assert "What went wrong" not in build_page(again)


@dataclass(frozen=True)
class Breaking(MethodCell):
    """Cannot be computed."""

    def key(self, lab: Lab) -> dict[str, Any]:
        return {**super().key(lab), "kind": "broken"}

    def run(self, lab: Lab) -> Found:
        if self.method.name == "ifrqe":
            raise AssentError("out of luck")
        raise ZeroDivisionError("nobody foresaw it")


def _breaking(plan: Plan, model: str, dataset: str) -> list[Block]:
    """The overall comparison without luck for IFRQE."""
    return [
        [
            (Breaking(task.method, task.price) if task.method.name.startswith("ifrqe") else task, labels)
            for task, labels in block
            if isinstance(task, MethodCell)
        ]
        for block in ITEMS["overall"].blocks(plan, model, dataset)
    ]


def test_a_file_system_that_fails_ends_it(plan: Plan, data: Path, tmp_path: Path) -> None:
    (tmp_path / CELLS).write_text("a file where a folder should be")
    few = replace(plan, datasets=("simulation",), repeats=1)
    with pytest.raises(OSError, match=CELLS):
        reproduce([ITEMS["sparsity"]], few, tmp_path, data=data)


def test_every_estimate_has_its_own_source_whatever_the_user_asks_for(
    found: Reproduction, plan: Plan, data: Path, tmp_path: Path
) -> None:
    few = replace(plan, datasets=("simulation",), repeats=1)
    other_source = replace(few, overrides={**plan.overrides, "source": "structure"})
    (other,) = reproduce([ITEMS["reliability"]], other_source, tmp_path, data=data).chapters
    usual = {(each["dataset"], each["seed"], each["estimate"], each["loss"]): each["correlation"]
             for each in chapter(found, "reliability").records}  # fmt: skip
    assert len(other.records) == other.wanted
    for each in other.records:
        assert each["correlation"] == usual["simulation", 0, each["estimate"], each["loss"]]


@pytest.mark.parametrize("step", [2, 3, 5, 1000])
def test_items_make_do_with_some_of_their_records(step: int, found: Reproduction) -> None:
    for each in found.chapters:
        some = each.item.chapter(found.plan, each.records[::step], each.wanted)
        assert some.table
        build_page(replace(found, chapters=[replace(some, charts=())]))


def test_which_state_of_the_code_computed_the_records_is_told(plan: Plan, data: Path, tmp_path: Path) -> None:
    few = replace(plan, datasets=("simulation",), repeats=1)

    def said(found: Reproduction) -> str:
        return unescape(build_page(replace(found, chapters=())))

    one = reproduce([ITEMS["sparsity"]], few, tmp_path, data=data)
    state, number = code_state(), one.chapters[0].wanted
    assert one.states == {state: number}
    assert f"Computed by state {state} ({number} cells) of assent's source" in said(one)
    assert one.stale == ""
    for file in (tmp_path / CELLS).glob("*.json"):
        file.write_text(rehashed(read_json(file) | {"code": "earlier"}))
    old = reproduce([ITEMS["sparsity"]], few, tmp_path, data=data)
    assert f"{number} of {number} cells come from another state of assent's source than" in old.stale
    assert old.stale in said(old)
    both = reproduce([ITEMS["sparsity"], ITEMS["willingness"]], few, tmp_path, data=data)
    assert both.states.keys() == {state, "earlier"}
    assert f"{number} of {sum(both.states.values())} cells come from another state" in said(both)
    assert timeless(both.chapters[:1]) == timeless(one.chapters)


def test_nothing_is_computed_twice(found: Reproduction, plan: Plan, data: Path, out: Path) -> None:
    before = trained_in(Store(out / CELLS))
    again = reproduce(list(ITEMS.values()), plan, out, data=data)
    assert timeless(again.chapters) == timeless(found.chapters)
    assert again.seconds == found.seconds
    assert trained_in(Store(out / CELLS)) == before


def test_a_changed_setting_computes_what_it_touches(
    found: Reproduction, plan: Plan, data: Path, out: Path
) -> None:
    available = replace(plan, datasets=found.plan.datasets)
    cells = Cells(Store(out / CELLS), Where(data))
    more = replace(available, anchors={"simulation": 3, "diginetica": 3})
    touched = missing(cells, "overall", more)
    assert {cell.labels["method_name"] for cell in touched} == {"IFRQE++ (nash)", *map(way_name, NULLS)}
    longer = replace(available, overrides={**plan.overrides, "training": {"epochs": 3}})
    assert len(missing(cells, "overall", longer)) == 2 * 2 * 9


def test_without_computing_it_shows_what_is_there(plan: Plan, data: Path, tmp_path: Path) -> None:
    found = reproduce([ITEMS["overall"]], plan, tmp_path, data=data, compute=False)
    assert found.chapters == []
    assert found.missing[1:] == ["overall: none of its 36 cells is there."]


def test_an_item_without_cells_is_told(plan: Plan, data: Path, tmp_path: Path) -> None:
    other = replace(plan, datasets=("simulation",), models=("din",))
    found = reproduce([ITEMS["price"]], other, tmp_path, data=data)
    assert found.chapters == []
    assert found.missing == ["price: has none of the models and data sets that are asked for and there."]


def test_a_missing_data_set_is_told_and_the_rest_goes_on(found: Reproduction) -> None:
    (sentence,) = found.missing
    assert sentence.startswith("steam: not in")
    assert found.plan.datasets == ("simulation", "diginetica")
    assert sentence in unescape(build_page(replace(found, chapters=())))


def test_the_approximation_is_that_of_the_anchors(found: Reproduction, plan: Plan, data: Path) -> None:
    records = chapter(found, "approximation").records
    record = next(each for each in records if (each["dataset"], each["seed"]) == ("diginetica", 1))
    problem = problem_of(plan.source("diginetica"), 1, Where(data))
    lab = Lab(problem, plan.settings("mf", "diginetica"), 1, Store.temporary())
    (anchor,) = lab.train(random_anchors(lab, 1, rate=0.9))
    kept = validation_losses(problem, anchor, Loss.BCE).sum() / problem.valid_samples().sum()
    assert record["unchanged"] == pytest.approx(kept)
    assert record["real"] == pytest.approx(record["ifrqe"], rel=0.2)
    assert record["real"] != record["ifrqe"]


def test_items_of_ours_value_as_assent_does_by_default(plan: Plan) -> None:
    way = ("worth", "welfare")
    for model in ("mf", "lightgcn"):
        ours = plan.method_of_ours(way, model)
        assert ours == make_method("worth", model, objective="welfare", reward="mean")
        assert plan.method(way, model, "diginetica").model_dump()["influence"]["loss"] is Loss.BCE
    asked = replace(plan, overrides={"influence": {"loss": "bce"}, "source": "structure"})
    assert asked.method_of_ours(way, "mf").model_dump()["influence"]["loss"] is Loss.BCE
    assert asked.method_of_ours(way, "mf").model_dump()["source"] == "structure"
    assert influence_settings("mf").loss is Loss.PAIRWISE


def test_more_anchors_take_longer(found: Reproduction) -> None:
    trainings = {each["anchors"]: each["trainings"] for each in chapter(found, "anchors").records}
    assert trainings == {1: 2, 2: 3}


@pytest.fixture
def whole(found: Reproduction, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all cells of the tiny plan, which is the quick one here."""
    monkeypatch.setattr(reproduce_command, "quick", lambda *_: replace(found.plan, sizes={}))
    return copytree(out, tmp_path / "whole")


def test_all_as_it_is_typed_writes_every_table_and_figure_in_every_format(
    plan: Plan, data: Path, whole: Path, assent: Assent
) -> None:
    asked = ["--models", "mf", "--datasets", ",".join(plan.datasets), "--data-dir", data, "--jobs", 1]
    code, text, _ = assent("reproduce", "all", *asked, "--out", whole)
    assert code == 0
    assert "overall: IFRQE++ (nash) is at or above All in" in text
    for name in IN_PROFILE:
        files = list((whole / name).iterdir())
        assert all(file.stat().st_size > 50 for file in files)
        drawn = {".svg", ".png"} if name != "search" else set()
        assert {file.suffix for file in files} == {".csv", ".parquet", ".md", ".tex"} | drawn
        assert f'<section id="{name}"' in (whole / "index.html").read_text()
    frame = pl.read_parquet(whole / "overall" / "overall.parquet")
    assert frame.height == 2 * 9
    assert pl.read_csv(whole / "overall" / "overall.csv").columns == frame.columns
    latex = (whole / "overall" / "overall.tex").read_text()
    assert latex.count(r"\\") == 1 + 2 + 2 * 9
    with (whole / "overall" / "beside-the-paper.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 2 * 6 * 3  # of the model that was asked for
    ours = next(line for line in lines if line["model"] == "MF" and line["method"] == "Threshold")
    assert (ours["figure"], ours["paper"]) == ("F1@5 %", "1.7")
    assert float(ours["difference"]) == pytest.approx(float(ours["ours"]) - 1.7)
    assert "smaller version" in ours["not_comparable"]
    assert ours["runs"] == "2"


class Interrupting:
    """Progress that interrupts a search before its trial of a number is told to be done."""

    def __init__(self, trial: int) -> None:
        self.left = trial

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        yield self.advance if label == "trials" else lambda: None

    def advance(self) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_the_search_goes_on_where_it_was(plan: Plan, data: Path, tmp_path: Path) -> None:
    short = replace(plan, datasets=("simulation",), trials=3)
    whole = reproduce([ITEMS["search"]], short, tmp_path / "whole", data=data)
    (cell,), where = ITEMS["search"].cells(short), Where(data)
    cells = Cells(Store(tmp_path / "killed" / CELLS), where)
    with pytest.raises(KeyboardInterrupt):
        cell.run(replace(cells.lab(cell), progress=Interrupting(2)))
    assert list((tmp_path / "killed" / CELLS).glob("search-*.sqlite"))
    again = reproduce([ITEMS["search"]], short, tmp_path / "killed", data=data)
    assert timeless(again.chapters) == timeless(whole.chapters)
    (record,) = again.chapters[0].records
    assert record["best_dimension"] in (2, 4)
    assert {each.figure for each in again.chapters[0].beside} >= {"learning rate", "anchors"}
