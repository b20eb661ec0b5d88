"""The options that say how: the base model, the methods and their settings, metrics, workers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import ValidationError

from assent.cli.command import option
from assent.cli.console import notice
from assent.game.estimates import Objective
from assent.influence.inverse import Estimator
from assent.lab.executor import SERIAL, Executor, Processes
from assent.methods import METHODS, Method, make_method, merged, method_settings
from assent.models import IALS, MODELS, Recommender, model_class
from assent.runs.compare import parse_methods
from assent.support.errors import AssentError
from assent.support.runtime import cores
from assent.training import Settings, Tune
from assent.worth.estimate import Source

EXECUTORS = "serial, processes, ray, or ray://HOST:PORT"
BASE = ("model_settings", "training")
"""Settings of the base model; the others belong to methods."""
T = TypeVar("T")

_how = partial(option, "How")

Model = Annotated[
    str,
    _how(f"The recommender: {', '.join(MODELS)}, or module:Class for one of your own.", show_default=True),
]
TuneOption = Annotated[
    Tune | None,
    _how("How settings that you did not give are searched for, on validation rows. Default: quick."),
]
Anchors = Annotated[int | None, _how("T, the anchors of ifrqe++. Default: 3.", min=1)]
Value = Annotated[Source | None, _how("Where worth comes from, for the method worth. Default: combined.")]
EstimatorOption = Annotated[
    Estimator | None,
    _how("What stands for the inverse Hessian in influence, for worth, ifrqe and ifrqe++."),
]
Set = Annotated[
    list[str] | None,
    _how(
        "Any other setting, e.g. training.epochs=30 or worth.folds=5; assent settings lists them.",
        "--set",
        metavar="KEY=VALUE",
    ),
]
K = Annotated[
    str,
    _how("Lengths of the lists that metrics are taken of, e.g. 5,10,20.", "--k", show_default=True),
]
StoreOption = Annotated[
    Path | None,
    _how("A folder that keeps trainings for later runs. It knows withheld interactions: guard it."),
]
Jobs = Annotated[int | None, _how("Processes at once. Default: the cores.", min=1)]
On = Annotated[
    str | None,
    _how(
        "What runs the work: serial, processes, ray (an instance of Ray on this machine), or ray://HOST:PORT "
        "(a cluster that this machine has joined). Default: processes.",
        "--executor",
    ),
]
Methods = Annotated[
    str | None,
    _how(
        "Which methods: name or name:objective, separated by commas. "
        "Default: random, threshold, occurrence and worth."
    ),
]


@dataclass(frozen=True)
class WorkOptions:
    """Where work is done."""

    jobs: Jobs = None
    on: On = None

    @contextmanager
    def executor(self, usual: str = "processes") -> Iterator[Executor]:
        """Yield what runs the work, `usual` if nobody asked; worker processes end afterwards."""
        on = self.on or usual
        if on.startswith("ray"):
            with self._ray(on) as ray:
                yield ray
            return
        if on not in ("serial", "processes"):
            raise AssentError(f"--executor {on}: accepted: {EXECUTORS}")
        count = 1 if on == "serial" else self.jobs or cores()
        if on == "serial" and self.jobs not in (None, 1):
            raise AssentError(f"--jobs {self.jobs}: --executor serial has one; accepted: --jobs 1, or none")
        if count == 1:
            yield SERIAL
            return
        with Processes(count) as processes:
            yield processes

    def _ray(self, on: str) -> AbstractContextManager[Executor]:
        kind, separator, address = on.partition("://")
        host, _, port = address.rpartition(":")
        if kind != "ray" or (separator and not (host and port.isdecimal())):
            raise AssentError(f"--executor {on}: accepted: {EXECUTORS}")
        if address and self.jobs is not None:
            raise AssentError(
                f"--jobs {self.jobs}: the cluster at {address} has its own number; leave it out"
            )
        from assent.lab.cluster import Ray

        return Ray(address or None, self.jobs, notice)


@dataclass(frozen=True)
class HowOptions:
    """The base model, and settings of methods."""

    model: Model = IALS.name
    tune: TuneOption = None
    anchors: Anchors = None
    value: Value = None
    estimator: EstimatorOption = None
    set_: Set = None
    k: K = "5"

    def read(self, **defaults: Any) -> "Asked":
        """Return the settings; `defaults` are those of methods that nobody asked for otherwise."""
        options = {
            "tune": ("tune", self.tune),
            "ifrqe++.anchors": ("anchors", self.anchors),
            "worth.source": ("value", self.value),
            "influence.estimator": ("estimator", self.estimator),
        }
        return read_asked(self.model, self.set_, options, defaults)

    @property
    def ks(self) -> tuple[int, ...]:
        """The lengths of lists."""
        try:
            found = tuple(int(part) for part in self.k.split(","))
        except ValueError:
            found = ()
        if not found or min(found) < 1 or len(set(found)) < len(found):
            raise AssentError(f"--k {self.k}: accepted: different numbers from 1 on, for instance 5,10,20")
        return found


@dataclass(frozen=True)
class Asked:
    """The settings that were asked for."""

    settings: Settings
    """Of the base model."""
    given: Mapping[str, Any]
    """Of methods, nested."""
    defaults: Mapping[str, Any]
    """The same, for what was not asked for."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The options that were given, by the setting that they stand for."""

    def method(self, name: str, objective: Objective | None = None) -> Method:
        """Return a method with those of the settings that are its own."""
        if name not in METHODS:
            raise AssentError(f"--method {name}: unknown; accepted: {', '.join(METHODS)}")
        settings = self._of(name)
        if objective is not None and "objective" in METHODS[name].model_fields:
            settings["objective"] = objective
        return checked(lambda: make_method(name, self.settings.model, **settings), self.settings.model)

    def methods(self, text: str | None, option: str = "--methods") -> list[Method]:
        """Return the methods of a list, given to `option`, each with its own settings."""
        settings = {name: self._of(name) for name in METHODS}
        try:
            return checked(
                lambda: parse_methods(text, model=self.settings.model, settings=settings), self.settings.model
            )
        except AssentError as error:
            raise AssentError(str(error).replace("methods ", f"{option} ", 1)) from None

    def check(self, methods: Sequence[Method]) -> None:
        """Refuse settings that none of the methods has."""
        chosen = dict.fromkeys(method.name for method in methods)
        for head, value in self.given.items():
            able = [name for name in METHODS if method_settings(name, {head: value})]
            key = _first_key(head, value)
            if not able:
                raise AssentError(f"unknown setting {key}; see assent settings --model {self.settings.model}")
            if not chosen.keys() & set(able):
                called = f"--{self.options[key]}" if key in self.options else f"setting {key}"
                raise AssentError(
                    f"{called}: not of {', '.join(chosen) or 'these'}, but of {', '.join(able)}"
                )

    def _of(self, name: str) -> dict[str, Any]:
        own, usual = method_settings(name, self.given), method_settings(name, self.defaults)
        return merged(usual, own)


def read_asked(
    model: str,
    texts: Sequence[str] | None,
    options: Mapping[str, tuple[str, Any]] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Asked:
    """Return the settings of options and of pairs like training.epochs=30.

    `options` are by the setting that they stand for: the name of the option and what was given to it.
    """
    given = read_pairs(texts or [], {"model": ("model", model), **(options or {})})
    base = {part: given.pop(part) for part in ("model", "tune", *BASE) if part in given}
    settings = checked(lambda: Settings.model_validate(base), model)
    _refuse_idle(model, base.get("training", {}))
    named = {key: name for key, (name, value) in (options or {}).items() if value is not None}
    return Asked(settings, given, defaults or {}, named)


def _refuse_idle(model: str, training: Mapping[str, Any]) -> None:
    """Refuse settings of Adam and its samples for a model that brings its own solver."""
    idle = [name for name in ("learning_rate", "batch_size", "negatives") if name in training]
    if idle and model_class(model).step is not Recommender.step:
        raise AssentError(
            f"setting training.{idle[0]}: {model} has its own solver, which knows no such thing"
        )


def read_pairs(texts: Sequence[str], options: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
    """Return nested settings; a pair that contradicts an option is refused."""
    values: dict[str, Any] = {}
    for key, (_, value) in options.items():
        if value is not None:
            _put(values, key, value)
    for text in texts:
        key, equals, given = (part.strip() for part in text.partition("="))
        if not equals:
            raise AssentError(f"--set {text}: accepted: KEY=VALUE, for instance training.epochs=30")
        name, value = next((options[each] for each in _spelt(key) if each in options), ("", None))
        if value is not None and given != str(value):
            raise AssentError(f"--set {text}: contradicts --{name} {value}; accepted: --{name} alone")
        _put(values, key, given)
    return values


def _spelt(key: str) -> list[str]:
    """Return a setting as it may be spelt: anchors is short for ifrqe++.anchors."""
    return [key, *(f"{name}.{key}" for name in METHODS)]


def _first_key(head: str, value: Any) -> str:
    """Return the whole name of a setting, or of the first of several."""
    while isinstance(value, Mapping) and value:
        part, value = next(iter(value.items()))
        head = f"{head}.{part}"
    return head


def _put(values: dict[str, Any], key: str, given: Any) -> None:
    *path, last = key.split(".")
    place: Any = values
    for part in path:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise AssentError(f"--set {key}: {part!r} has no settings of its own; see assent settings")
    place[last] = given


def checked(make: Callable[[], T], model: str) -> T:
    """Return what `make` makes; settings that are wrong become one line."""
    try:
        return make()
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "settings"
        listed = f"see assent settings --model {model}"
        if first["type"] == "extra_forbidden":
            raise AssentError(f"unknown setting {name}; {listed}") from None
        raise AssentError(f"setting {name}: {first['msg']}, got {first['input']!r}; {listed}") from None
