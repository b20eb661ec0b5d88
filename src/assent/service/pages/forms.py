"""What people's forms say."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy.orm import Session
from starlette.datastructures import FormData

from assent.service import entries, interactions
from assent.service.access import Door, text_of, texts_of
from assent.service.database import NotFoundError
from assent.service.pages.render import NONE
from assent.service.security import Visitor
from assent.service.wishes import Said, Scope
from assent.support.errors import AssentError

LONGEST: Final = 100
"""Most characters of a choice, and of what is searched for."""


def user_of(visitor: Visitor) -> str:
    """Return whose visit it is, by the platform's id."""
    assert visitor.person is not None  # visits of people have one
    return visitor.person


def said_of(scope: str, target: str, choice: str) -> Said:
    """Return what a form says; only the three scopes and the choices that forms offer."""
    if scope not in ("item", "category", "everything"):
        raise AssentError("scope: accepted: item, category, everything")
    return Said(scope, "" if scope == "everything" else target, _value(choice))  # type: ignore[arg-type]


def _value(choice: str) -> float | None:
    if choice == NONE:
        return None
    try:
        value = float(choice[:LONGEST])
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise AssentError("choice: accepted: one of the five")
    return value


def changes_of(form: FormData, scope: Scope) -> list[Said]:
    """Return the choices of a list that are not what the page showed: others are left as they are by now."""
    targets, were, choices = (texts_of(form, name) for name in (scope, "was", "choice"))
    if not len(targets) == len(were) == len(choices):
        raise AssentError("the form is not whole: accepted: the form as it was shown")
    return [
        Said(scope, target, _value(choice))
        for target, was, choice in zip(targets, were, choices, strict=True)
        if choice != was
    ]


def part_of(form: FormData) -> dict[str, str]:
    """Return which part of the entries a form showed."""
    return {
        name: text_of(form, name)[: interactions.LONGEST]
        for name in ("search", "category", "state", "cursor")
    }


def names_of(door: Door, session: Session, visitor: Visitor, said: Sequence[Said]) -> list[str]:
    """Return the names of what is spoken of, as `name_of` does."""
    return [name_of(door, session, visitor, each) for each in said]


def name_of(door: Door, session: Session, visitor: Visitor, said: Said) -> str:
    """Return the name of what is spoken of; refuse what is not this person's, as if it did not exist."""
    if said.scope == "item":
        return title_of(door, session, visitor, said.target)
    if said.scope == "category":
        theirs = {each.category for each in entries.categories(session, user_of(visitor))}
        if said.target not in theirs:
            raise NotFoundError("category: there is none of this person")
    return said.target


def title_of(door: Door, session: Session, visitor: Visitor, item: str) -> str:
    """Return the title of an item that this person had; its id, if it has none."""
    row = entries.one(session, door.service.settings, user_of(visitor), item)
    return row.title or row.item
