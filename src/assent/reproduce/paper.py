"""The paper's own numbers (`paper.json` names its source), and what they are called there."""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

DATASETS: Mapping[str, str] = {
    "simulation": "simulation",
    "diginetica": "diginetica",
    "steam": "steam",
    "amazon-video-games": "amazon_video",
}
MODELS: Mapping[str, str] = {
    "mf": "MF",
    "neumf": "NeuMF",
    "lightgcn": "LightGCN",
    "din": "DIN",
    "cdae": "CDAE",
}


@cache
def numbers() -> Mapping[str, Any]:
    """Every number of the paper's tables."""
    file = resources.files("assent.reproduce").joinpath("paper.json")
    found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def look_up(*path: str) -> tuple[float, float | None] | None:
    """A number and its standard error, if the paper has them at this path of `numbers`."""
    place: Any = numbers()
    for name in path:
        if not isinstance(place, Mapping) or name not in place:
            return None
        place = place[name]
    if isinstance(place, list):
        return float(place[0]), float(place[1])
    return None if isinstance(place, Mapping) else (float(place), None)


def printed(*path: str) -> dict[str, float]:
    """The numbers of a row of a table without their errors; none where the paper has no such row."""
    place: Any = numbers()
    for name in path:
        place = place.get(name, {})
    found = {name: look_up(*path, name) for name in place}
    return {name: value[0] for name, value in found.items() if value is not None}


def decimals(number: float, most: int) -> int:
    """Of a number as the tables print it: two, or as many as it needs, but at most `most`."""
    return min(most, max(2, len(f"{number:.10g}".partition(".")[2])))


def sizes(dataset: str) -> tuple[int, int, int]:
    """Users, items and interactions of a data set."""
    users, items, interactions = numbers()["datasets"][DATASETS[dataset]]
    return users, items, interactions
