"""Options that belong together, as one parameter of a command.

Typer reads the parameters of a function. A command that takes a dataclass gets a parameter for each of its
fields in place of it, so that what many commands ask for is written down once.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any

Command = Callable[..., None]


def spread(command: Command) -> Command:
    """The command with every dataclass among its parameters spread out; all are given by keyword."""
    parameters: list[Parameter] = []
    groups: dict[str, type[Any]] = {}
    for each in signature(command).parameters.values():
        if isinstance(each.annotation, type) and is_dataclass(each.annotation):
            groups[each.name] = each.annotation
            parameters += signature(each.annotation).parameters.values()
        else:
            parameters.append(each)

    @wraps(command)
    def called(**given: Any) -> None:
        together = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **together)

    called.__annotations__ = {each.name: each.annotation for each in parameters}
    in_any_order = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters]
    called.__signature__ = Signature(in_any_order)  # type: ignore[attr-defined]
    return called
