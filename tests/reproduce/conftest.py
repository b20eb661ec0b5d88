"""A plan so small that all items take seconds, and a data set for it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assent.data.simulate import simulate
from assent.reproduce import ITEMS, Plan, Reproduction, Scale, build_page, reproduce

OVERRIDES: dict[str, Any] = {
    "training": {"epochs": 2},
    "model_settings": {"dimension": 4},
    "proactive": {"rounds": 2, "warm_epochs": 1},
    "scratch": {"selections": 2, "rounds": 1},
}
RANGES: dict[str, tuple[float, ...]] = {
    "learning_rate": (0.01, 0.05), "batch_size": (64, 128), "dimension": (2, 4),
    "drop": (0.1, 0.2), "epochs": (1, 2), "anchors": (1, 2), "price": (0.1, 1),
    "rounds": (1, 2), "samples": (2, 3), "lissa_steps": (1, 2),
}  # fmt: skip
"""Of the search: its models train in a moment."""


@pytest.fixture(scope="session")
def plan() -> Plan:
    return Plan(
        scale=Scale.QUICK,
        repeats=2,
        datasets=("simulation", "diginetica", "steam"),
        models=("mf",),
        users=40,
        negatives=9,
        anchors={"simulation": 2, "diginetica": 2},
        prices=(0.5, 1.0),
        numbers_of_anchors=(1, 2),
        selections=2,
        etas=(0.1, 0.5),
        points=(0.5,),
        lds_selections=3,
        lds_seeds=1,
        trials=2,
        ranges=RANGES,
        overrides=OVERRIDES,
    )


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a made-up diginetica; there is no steam."""
    folder = tmp_path_factory.mktemp("data")
    log = simulate(preference="learnable", users=45, items=200, seed=3)
    rows = log.table.select("user", "item", "time").rows()
    place = folder / "diginetica"
    place.mkdir()
    lines = [f"{user}\t{item}\t{time:g}" for user, item, time in rows]
    text = "\n".join(["user_id:token\titem_id:token\ttimestamp:float", *lines])
    (place / "diginetica.inter").write_text(text)
    return folder


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="session")
def found(plan: Plan, data: Path, out: Path) -> Reproduction:
    """All items, run once."""
    return reproduce(list(ITEMS.values()), plan, out, data=data)


@pytest.fixture(scope="session")
def page(found: Reproduction) -> str:
    """The page of all that, with one chart of each item: drawing takes longest."""
    few = [replace(each, charts=each.charts[:1]) for each in found.chapters]
    return build_page(replace(found, chapters=few))
