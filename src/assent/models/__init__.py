"""The recommenders, by the name that the command line knows them by."""

from assent.errors import AssentError
from assent.models.base import ModelSettings, Recommender, Sizes
from assent.models.mf import MF, MFSettings

MODELS: dict[str, type[Recommender]] = {model.name: model for model in (MF,)}
"""Every recommender by name; a new one is a file and an entry here."""


def model_class(name: str) -> type[Recommender]:
    """The recommender called `name`."""
    try:
        return MODELS[name]
    except KeyError:
        raise AssentError(f"--model {name}: unknown; accepted: {', '.join(MODELS)}") from None


__all__ = ["MF", "MODELS", "MFSettings", "ModelSettings", "Recommender", "Sizes", "model_class"]
