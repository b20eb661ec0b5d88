"""What every command has: options that belong together as one parameter, checks, and figures in a file."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from assent.cli.console import notice
from assent.support.errors import AssentError
from assent.support.files import refuse_to_overwrite, write_json

_OUTPUT = "Output"
Command = Callable[..., None]


def option(panel: str, text: str, *names: str, show_default: bool = False, **how: Any) -> Any:
    """Return an option of a panel of the help; its text is markdown, but a star is a star."""
    literally = text.replace("*", r"\*")
    return typer.Option(*names, help=literally, rich_help_panel=panel, show_default=show_default, **how)


def spread(command: Command) -> Command:
    """Return the command with a parameter for each field of the dataclasses among its parameters.

    Options that many commands have are thus written down once. All parameters are given by keyword.
    """
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
        with _interruptible():
            command(**given, **together)

    called.__annotations__ = {each.name: each.annotation for each in parameters}
    in_any_order = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters]
    called.__signature__ = Signature(in_any_order)  # type: ignore[attr-defined]
    return called


@contextmanager
def _interruptible() -> Iterator[None]:
    """Say what to do after Ctrl-C, which compiled code turns into an error of its own."""
    try:
        yield
    except (KeyboardInterrupt, SystemError) as error:
        if not isinstance(error.__cause__ or error, KeyboardInterrupt):
            raise
        notice("interrupted; a command with --out goes on where it was when you repeat it")
        raise KeyboardInterrupt from None


def between(low: float, high: float) -> Callable[[typer.CallbackParam, float | None], float | None]:
    """A check of an option's number, in one line: from `low` to `high`."""

    def check(param: typer.CallbackParam, value: float | None) -> float | None:
        if value is not None and not low <= value <= high:
            share = f" ({value:g} % is {value / 100:g})" if high == 1 < value <= 100 else ""
            raise AssentError(
                f"{param.opts[0]} {value:g}: accepted: a number from {low:g} to {high:g}{share}"
            )
        return value

    return check


LogJson = Annotated[
    bool,
    typer.Option(
        "--log-json",
        help="Write progress, notices and errors to stderr as lines of JSON, without ids.",
        rich_help_panel=_OUTPUT,
    ),
]
"""`main` looks for it, before anything else is read."""


@dataclass(frozen=True)
class OutputOptions:
    """Whether figures are written to a file too, what they may replace, and how stderr is written."""

    json: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the figures there too.", rich_help_panel=_OUTPUT),
    ] = None
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace what is there.", rich_help_panel=_OUTPUT)
    ] = False
    log_json: LogJson = False

    def check(self) -> None:
        """Refuse an existing file before the work begins."""
        if self.json is not None:
            refuse_to_overwrite(self.json, replace=self.replace)

    def write(self, records: Sequence[Mapping[str, Any]], *, private: bool = False) -> None:
        """Write the records if a file was given: flat ones, lists joined by `|`.

        What people did is `private`: the file is for this user alone.
        """
        if self.json is not None:
            flat = [{key: _flat(value) for key, value in each.items()} for each in records]
            write_json(self.json, flat, private=private)
            notice(f"Records: {self.json}")


def _flat(value: Any) -> Any:
    return "|".join(map(str, value)) if isinstance(value, list) else value
