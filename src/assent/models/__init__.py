"""The recommenders, by the name that the command line knows them by."""

import importlib

from assent.errors import AssentError
from assent.models.base import Evidence, ModelSettings, Recommender, Sizes
from assent.models.cdae import CDAE, CDAESettings
from assent.models.din import DIN, DINSettings
from assent.models.lightgcn import LightGCN, LightGCNSettings
from assent.models.mf import MF, MFSettings
from assent.models.neumf import NeuMF, NeuMFSettings

MODELS: dict[str, type[Recommender]] = {model.name: model for model in (MF, NeuMF, LightGCN, DIN, CDAE)}
"""Every recommender by name; a new one is a file and an entry here."""


def model_class(name: str) -> type[Recommender]:
    """The recommender called `name`: one of assent's own, or `package.module:Class` for anybody's."""
    if name in MODELS:
        return MODELS[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        accepted = f"{', '.join(MODELS)}, or package.module:Class for a recommender of your own"
        raise AssentError(f"model {name}: unknown; accepted: {accepted}")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise AssentError(f"model {name}: {error}; accepted: an importable package.module:Class") from None
    if not (isinstance(found, type) and issubclass(found, Recommender)):
        raise AssentError(f"model {name}: not a subclass of assent.Recommender")
    return found


def model_name(kind: type[Recommender]) -> str:
    """The name by which `model_class` finds `kind`."""
    return kind.name if MODELS.get(kind.name) is kind else f"{kind.__module__}:{kind.__qualname__}"


__all__ = [
    "CDAE",
    "DIN",
    "MF",
    "MODELS",
    "CDAESettings",
    "DINSettings",
    "Evidence",
    "LightGCN",
    "LightGCNSettings",
    "MFSettings",
    "ModelSettings",
    "NeuMF",
    "NeuMFSettings",
    "Recommender",
    "Sizes",
    "model_class",
    "model_name",
]
