"""Ways to choose what is disclosed, behind one interface."""

from collections.abc import Mapping
from typing import Any

from assent.methods.base import Choice, GameMethod, Method, influence_settings
from assent.methods.heuristics import All, Nothing, Occurrence, Random, Threshold
from assent.methods.ifrqe import IFRQE, IFRQEpp
from assent.methods.proactive import Proactive
from assent.methods.scratch import Scratch
from assent.methods.worth import WorthMethod
from assent.models import IALS
from assent.support.errors import AssentError

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        All, Nothing, Random, Threshold, Occurrence, WorthMethod, IFRQE, IFRQEpp, Proactive, Scratch
    )
}  # fmt: skip
"""Every method by name; a new one is a file and an entry here."""


def make_method(name: str, model: str = IALS.name, **settings: Any) -> Method:
    """Return the method called `name` with these settings.

    Settings of `influence` that are given as a mapping are added to those that suit `model`.
    """
    if name not in METHODS:
        raise AssentError(f"method {name}: unknown; accepted: {', '.join(METHODS)}")
    given = settings.get("influence")
    if isinstance(given, Mapping):
        settings["influence"] = influence_settings(model, given)
    return METHODS[name].model_validate(settings)


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings, with `changes` where both have one."""
    found = dict(values)
    for name, value in changes.items():
        there = found.get(name)
        if isinstance(there, Mapping) and isinstance(value, Mapping):
            found[name] = merged(there, value)
        else:
            found[name] = value
    return found


def method_settings(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `given` that belong to the method `name`.

    Those are all under its own name, such as {"ifrqe++": {"anchors": 5}}. Bare ones, such as {"anchors": 5},
    belong to every method that plays the game and has such a setting, and `reward` to every method that has
    one.
    """
    kind = METHODS[name]
    is_game = issubclass(kind, GameMethod)
    bare = {
        key: value
        for key, value in given.items()
        if key in kind.model_fields and (is_game or key == "reward")
    }
    own = given.get(name, {})
    if not isinstance(own, Mapping):
        raise AssentError(
            f"setting {name}: is a method, not a setting; accepted: settings of it, {name}.NAME"
        )
    return {**bare, **own}


__all__ = [
    "METHODS",
    "Choice",
    "GameMethod",
    "Method",
    "influence_settings",
    "make_method",
    "merged",
    "method_settings",
]
