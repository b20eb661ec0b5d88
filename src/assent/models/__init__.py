"""The recommenders, by the name that the command line knows them by."""

import importlib
import inspect
import sys
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path

from assent.models.cdae import CDAE, CDAESettings
from assent.models.contract import Evidence, ModelSettings, Recommender, Sizes, checked_class
from assent.models.din import DIN, DINSettings
from assent.models.lightgcn import LightGCN, LightGCNSettings
from assent.models.mf import MF, MFSettings
from assent.models.neumf import NeuMF, NeuMFSettings
from assent.support.errors import AssentError

MODELS: dict[str, type[Recommender]] = {model.name: model for model in (MF, NeuMF, LightGCN, DIN, CDAE)}
"""Every recommender by name; a new one is a file and an entry here."""


def model_class(name: str) -> type[Recommender]:
    """The recommender called `name`: one of assent's own, or `package.module:Class` for anybody's.

    The latter is looked for in the current directory too, after everything that is installed.
    """
    if name in MODELS:
        return MODELS[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        accepted = f"{', '.join(MODELS)}, or package.module:Class for a recommender of your own"
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
    """The name by which `model_class` finds `kind`."""
    return kind.name if MODELS.get(kind.name) is kind else f"{kind.__module__}:{kind.__qualname__}"


def code_of(name: str) -> str:
    """A hash of the file of somebody's own recommender, which changes without a version of assent.

    Empty for those of assent, and for one that was typed in and has no file.
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
    "code_of",
    "model_class",
    "model_name",
]
