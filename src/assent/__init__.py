"""assent: recommendation that asks before it uses.

The names of `assent.api` are available here. They are loaded when one of them is first used, so that
`assent --help` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assent.api import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Return a name of `assent.api`."""
    if name == "api" or name.startswith("_"):
        raise AttributeError(f"module 'assent' has no attribute {name!r}")
    return getattr(import_module("assent.api"), name)


def __dir__() -> list[str]:
    return [*globals(), *import_module("assent.api").__all__]
