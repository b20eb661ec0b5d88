"""The recommenders by name, and the contract for own ones."""

import importlib
import inspect
import sys
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path

from assent.models.cdae import CDAE, CDAESettings
from assent.models.checks import checked_class
from assent.models.contract import Draws, Evidence, Initialisation, ModelSettings, Recommender, Sizes
from assent.models.din import DIN, DINSettings
from assent.models.ials import IALS, IALSSettings
from assent.models.lightgcn import LightGCN, LightGCNSettings
from assent.models.mf import MF, MFSettings
from assent.models.neumf import NeuMF, NeuMFSettings
from assent.support.errors import AssentError

MODELS: dict[str, type[Recommender]] = {model.name: model for model in (IALS, MF, NeuMF, LightGCN, DIN, CDAE)}
"""assent's recommenders by name; a new one is a file and an entry here."""


def model_class(name: str) -> type[Recommender]:
    """Return the recommender class called `name`: one of `MODELS`, or an own one as `package.module:Class`.

    An own one is looked for among the installed packages, then in the current directory.
    """
    if name in MODELS:
        return MODELS[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        accepted = f"{', '.join(MODELS)}, or package.module:Class for an own recommender"
        raise AssentError(f"model {name}: unknown; accepted: {accepted}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        found = attrgetter(attribute)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        accepted = "package.module:Class of an installed package or of the current directory"
        raise AssentError(f"model {name}: {error}; accepted: {accepted}") from None
    except Exception as error:
        raise AssentError(f"model {name}: importing it raised {type(error).__name__}: {error}") from error
    return checked_class(found, name)


def model_name(kind: type[Recommender]) -> str:
    """Return the name by which `model_class` finds `kind`."""
    return kind.name if MODELS.get(kind.name) is kind else f"{kind.__module__}:{kind.__qualname__}"


def code_of(name: str) -> str:
    """Return a hash of an own recommender's file, which can change while assent's version does not.

    It is empty for assent's own models and for a class without a file.
    """
    if name in MODELS:
        return ""
    try:
        code = Path(inspect.getfile(model_class(name))).read_bytes()
    except (OSError, TypeError):
        return ""
    return blake2b(code, digest_size=16).hexdigest()


__all__ = [
    "CDAE",
    "DIN",
    "IALS",
    "MF",
    "MODELS",
    "CDAESettings",
    "DINSettings",
    "Draws",
    "Evidence",
    "IALSSettings",
    "Initialisation",
    "LightGCN",
    "LightGCNSettings",
    "MFSettings",
    "ModelSettings",
    "NeuMF",
    "NeuMFSettings",
    "Recommender",
    "Sizes",
    "code_of",
    "model_class",
    "model_name",
]
