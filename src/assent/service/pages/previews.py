"""Previews: what choices would change of somebody's recommendations, before they are stored."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from fastapi import APIRouter
from fastapi.responses import Response

from assent.service.access import Door, VisitOf, text_of, texts_of
from assent.service.pages import render
from assent.service.pages.forms import changes_of, names_of, part_of, said_of, user_of
from assent.service.pages.render import address, draw, go, sent
from assent.service.pages.shown import recommendation_shown
from assent.service.security import PERSON, Visitor
from assent.service.texts import Texts
from assent.service.wishes import Said, Scope

router = APIRouter(prefix="/me", include_in_schema=False)
Person = Annotated[Door, VisitOf(PERSON)]
SHOWN: Final = 10
"""Recommendations in a list."""


@router.post("/preview")
def preview(door: Person) -> Response:
    """What one choice would change, before it is stored."""
    visitor, form = door.check(), door.posted
    said = said_of(text_of(form, "scope"), text_of(form, "target"), text_of(form, "choice"))
    action, back = {
        "item": ("/me/entry", address(door.request, "/me/entry", item=said.target)),
        "category": ("/me/category", address(door.request, "/me/category", category=said.target)),
        "everything": ("/me/everything", address(door.request, "/me")),
    }[said.scope]
    hidden = [("scope", said.scope), ("target", said.target), ("choice", sent(said.unwillingness))]
    return _preview(door, visitor, [said], action, back, hidden)


@router.post("/entries/preview")
def preview_entries(door: Person) -> Response:
    """What the choices of a page that changed would change, before they are stored."""
    visitor, form = door.check(), door.posted
    here = {name: value for name, value in part_of(form).items() if value}
    back = address(door.request, "/me/entries", **here)
    return _preview_of_list(door, visitor, "item", "/me/entries", back, here)


@router.post("/categories/preview")
def preview_categories(door: Person) -> Response:
    """What the choices for categories that changed would change, before they are stored."""
    back = address(door.request, "/me/categories")
    return _preview_of_list(door, door.check(), "category", "/me/categories", back, {})


def _preview_of_list(
    door: Door, visitor: Visitor, scope: Scope, action: str, back: str, here: Mapping[str, str]
) -> Response:
    """Return what the choices of a list that changed would change. `here` is which part of the list it is."""
    form = door.posted
    changes = changes_of(form, scope)
    if not changes:
        return go(door.request, action, **here, said="same")
    were = dict(zip(texts_of(form, scope), texts_of(form, "was"), strict=True))
    hidden = list(here.items())
    for each in changes:
        hidden += [(scope, each.target), ("was", were[each.target]), ("choice", sent(each.unwillingness))]
    return _preview(door, visitor, changes, action, back, hidden)


def _preview(
    door: Door,
    visitor: Visitor,
    said: Sequence[Said],
    action: str,
    back: str,
    hidden: Sequence[tuple[str, str]],
) -> Response:
    """Return the page of both lists, with a form of `hidden` fields that stores what is said."""
    texts = render.texts_of(door.request)
    with door.reading() as (session, _):
        names = names_of(door, session, visitor, said)
        found = door.service.server.preview(session, user_of(visitor), said, SHOWN)
    gone = {each.item: "gone" for each in found.gone}
    new = {each.item: "new" for each in found.new}
    if gone or new:
        summary = texts("preview.differ", gone=len(gone), all=len(found.now.items))
    else:
        moved = [each.item for each in found.now.items] != [each.item for each in found.then.items]
        same = "preview.untold" if found.untold else "preview.same"
        summary = texts("preview.order" if moved else same)
    return draw(
        door.request,
        "preview.html",
        visitor=visitor,
        supposed=[_supposed(texts, each, name) for each, name in zip(said, names, strict=True)],
        summary=summary,
        untold=texts.counted("preview.entries", found.untold) if found.untold else None,
        now=[recommendation_shown(texts, each) for each in found.now.items],
        then=[recommendation_shown(texts, each) for each in found.then.items],
        gone=gone,
        new=new,
        hidden=hidden,
        action=action,
        save=texts("preview.save" if len(said) == 1 else "preview.save.all"),
        back=back,
    )


def _supposed(texts: Texts, said: Said, name: str) -> str:
    what = {
        "everything": texts("preview.everything"),
        "category": texts("preview.category", target=said.target),
    }.get(said.scope, f"“{name}”")
    if said.unwillingness is None:
        return texts("preview.supposed.none", what=what)
    return texts("preview.supposed", choice=texts.choice(said.unwillingness), what=what)
