"""From options and `--set` pairs to settings."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from assent.cli.console import notice
from assent.errors import AssentError
from assent.settings import Settings
from assent.value.settings import Source


def read_settings(
    model: str,
    anchors: int | None = None,
    overrides: list[str] | None = None,
    value: Source | None = None,
) -> Settings:
    """The settings from the options and from `--set` pairs like training.epochs=30."""
    named = {"model": model, "anchors": anchors, "value.source": value}
    options = {key: given for key, given in named.items() if given is not None}
    given = read_pairs(overrides or [], options)
    settings = checked(lambda: Settings.model_validate(given), model)
    tell_idle(settings, given)
    return settings


def read_pairs(texts: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings from `options` by their names and from pairs like training.epochs=30.

    A pair that contradicts an option is refused.
    """
    values: dict[str, Any] = {}
    for key, option in options.items():
        _put(values, key, option)
    for text in texts:
        key, equals, given = (part.strip() for part in text.partition("="))
        if not equals:
            raise AssentError(f"--set {text}: accepted: KEY=VALUE, for instance training.epochs=30")
        if key in options and given != str(options[key]):
            name = key.partition(".")[0]
            raise AssentError(f"--set {text}: contradicts --{name} {options[key]}; accepted: --{name} alone")
        _put(values, key, given)
    return values


def _put(values: dict[str, Any], key: str, given: Any) -> None:
    """Put a setting into nested ones."""
    *path, last = key.split(".")
    place: Any = values
    for part in path:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise AssentError(f"--set {key}: {part!r} has no settings of its own; see assent settings")
    place[last] = given


def checked(make: Callable[[], Settings], model: str) -> Settings:
    """The settings of `model` that `make` returns; what is wrong with them, in one line."""
    try:
        settings = make()
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "settings"
        listed = f"see assent settings --model {model}"
        if first["type"] == "extra_forbidden":
            raise AssentError(f"unknown setting {name}; {listed}") from None
        raise AssentError(f"setting {name}: {first['msg']}, got {first['input']!r}; {listed}") from None
    estimator, source = settings.influence.estimator, settings.value.source
    if "estimator" in settings.influence.model_fields_set and estimator != settings.linearisation.estimator:
        raise AssentError(
            f"influence.estimator={estimator}: contradicts value.source={source}; accepted: one of them"
        )
    return settings


def tell_idle(settings: Settings, given: Collection[str]) -> None:
    """Say which of the settings that were `given` the others leave nothing to say."""
    if idle := " and ".join(sorted(settings.idle.intersection(given))):
        notice(f"no effect where values are pooled over folds: {idle}; see value.source=influence")
