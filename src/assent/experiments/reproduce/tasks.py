"""What a cell measures: a record, computed at a workbench, under a key that says all it depends on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from assent.experiments.store import Key, choice_key, unit_key
from assent.experiments.units import Models, Wanted
from assent.game.objective import Objective
from assent.methods import Method, make_method
from assent.report.data import Way
from assent.settings import Settings
from assent.workbench import Workbench


@dataclass(frozen=True)
class Desk:
    """Where a unit's cells are computed, one after the other."""

    bench: Workbench
    models: Models
    cells: Path
    """The folder of all cells, for what has to outlive the unit."""


class Task(Protocol):
    """One kind of measurement."""

    @property
    def alone(self) -> bool:
        """Whether it shares nothing with others and is better done beside them."""

    def key(self, fingerprint: str, settings: Settings, seed: int) -> Key:
        """All that determines the record."""

    def run(self, desk: Desk) -> dict[str, Any]:
        """The record: flat, as JSON."""


@dataclass(frozen=True)
class Measured:
    """A method at a price, or within a budget: chosen, trained on, tested.

    Record and key are those of `assent compare`, or of `assent frontier`.
    """

    way: Way
    price: float
    point: float | None = None
    """The budget, as a share of All's violation."""

    @property
    def alone(self) -> bool:
        """A method that trains a model for everything it tries is work of its own."""
        return method_of(self.way).retrains

    def key(self, fingerprint: str, settings: Settings, seed: int) -> Key:
        """The method's, with price or budget."""
        return self._wanted.key(fingerprint, settings, seed)

    def run(self, desk: Desk) -> dict[str, Any]:
        """Choose, train, test."""
        return desk.models.measure(self._wanted)

    @property
    def _wanted(self) -> Wanted:
        return Wanted(method_of(self.way), self.price, self.point)


@dataclass(frozen=True)
class Certified:
    """How far a decision of IFRQE++ can be trusted, and what selfishness costs, as predicted."""

    way: Way
    price: float
    alone: ClassVar[bool] = False

    def key(self, fingerprint: str, settings: Settings, seed: int) -> Key:
        """The decision's."""
        about = choice_key(fingerprint, settings, seed, method_of(self.way))
        return {"kind": "certificate", **about, "price": self.price}

    def run(self, desk: Desk) -> dict[str, Any]:
        """The certificate's figures."""
        certificate = method_of(self.way).at_price(desk.bench, self.price).certificate
        return {name: value for name, value in certificate.items() if not isinstance(value, list)}


def method_of(way: Way) -> Method:
    """The method of a name and an objective."""
    return make_method(way[0], Objective(way[1])) if way[1] else make_method(way[0])


def settings_key(kind: str, fingerprint: str, settings: Settings, seed: int, **more: object) -> Key:
    """The key of what depends on models and values but on no game."""
    ignored = {"proactive", "scratch", "anchors", "adaptive", "rounds", "strategy", "table"}
    read = settings.model_dump(mode="json", exclude=ignored)
    return unit_key(fingerprint, settings, seed) | {"settings": read, "kind": kind} | more
