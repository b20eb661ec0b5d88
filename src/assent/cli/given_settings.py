"""From options and `--set` pairs to settings."""

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
    options: dict[str, Any] = {"model": model} | ({} if anchors is None else {"anchors": anchors})
    values = dict(options)
    if value is not None:
        options["value.source"] = value
        values["value"] = {"source": value}
    for text in overrides or []:
        key, equals, given = text.partition("=")
        if not equals:
            raise AssentError(f"--set {text}: accepted: KEY=VALUE, for instance training.epochs=30")
        key, given = key.strip(), given.strip()
        if key in options and given != str(options[key]):
            name = key.partition(".")[0]
            raise AssentError(f"--set {text}: contradicts --{name} {options[key]}; accepted: --{name} alone")
        *path, last = key.split(".")
        place = values
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise AssentError(f"--set {text}: {part!r} has no settings of its own; see assent settings")
        place[last] = given
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "settings"
        raise AssentError(
            f"setting {name}: {first['msg']}, got {first['input']!r}; see assent settings --model {model}"
        ) from None
    estimator, source = settings.influence.estimator, settings.value.source
    if "estimator" in settings.influence.model_fields_set and estimator != settings.linearisation.estimator:
        raise AssentError(
            f"influence.estimator={estimator}: contradicts value.source={source}; accepted: one of them"
        )
    if idle := sorted(settings.idle & settings.model_fields_set):
        named = " and ".join(idle)
        notice(f"no effect where values are pooled over folds: {named}; see --value influence")
    return settings
