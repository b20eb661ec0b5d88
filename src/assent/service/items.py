"""What is known of items, as platforms bring it. A change of categories lets nobody's wish fall off.

Wishes on a category concern what is in it. Whoever brings other categories must not make an interaction more
usable than its owner said: what was in force is kept with the interaction (`effective` says how it counts)
until its owner says something newer that decides on it.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import delete as deleting
from sqlalchemy import exists, select, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session, aliased

from assent.service.database import given_rows, query
from assent.service.effective import is_kept, joined, target_of, unwillingness_of
from assent.service.ledger import take_turn
from assent.service.tables import Interaction, Item, ItemCategory, Wish


@dataclass(frozen=True)
class Changed:
    """Whom other categories concern."""

    people: set[int]
    """Who have one of the items."""
    interactions: int
    """For how many interactions something else is in force now."""


def add_items(
    session: Session, titles: Mapping[str, str | None], categories: Mapping[str, Sequence[str]]
) -> Changed:
    """Add items that are new, by their ids; given titles and categories replace those of known ones."""
    given = given_rows(session, {"item": "text", "title": "text"})
    rows = json.dumps([{"item": item, "title": title} for item, title in sorted(titles.items())])
    is_new = "NOT EXISTS (SELECT 1 FROM item WHERE item.item = given.item)"
    asked = f"SELECT given.item, given.title FROM {given} WHERE {is_new}"
    query(f"INSERT INTO item (item, title) {asked} ON CONFLICT DO NOTHING").run(session, rows=rows)
    if any(titles.values()):
        other = "item.item = given.item AND (item.title <> given.title OR item.title IS NULL)"
        asked = f"UPDATE item SET title = given.title FROM {given} WHERE {other} AND given.title IS NOT NULL"
        query(asked).run(session, rows=rows)
    return _set_categories(session, categories)


def _set_categories(session: Session, given: Mapping[str, Sequence[str]]) -> Changed:
    """Set the categories of items, and keep what was in force."""
    changed = _others(session, given)
    if not changed:
        return Changed(set(), 0)
    mine = select(Interaction.person_id).where(Interaction.item_id.in_(changed))
    if session.scalar(mine.limit(1)) is None:  # such as new items: nobody has said anything of them
        _replace(session, changed)
        return Changed(set(), 0)
    # Until the commit nobody says anything. Who had the turn may have changed categories meanwhile.
    upto = take_turn(session).leaf - 1
    changed = _others(session, given)
    before = _in_force(session, changed)
    _replace(session, changed)
    differing = _keep(session, before, _in_force(session, changed), upto)
    people = session.scalars(select(Interaction.person_id).where(Interaction.item_id.in_(changed)))
    return Changed(set(people), differing)


def _replace(session: Session, changed: Mapping[int, Sequence[str]]) -> None:
    session.execute(deleting(ItemCategory).where(ItemCategory.item_id.in_(changed)))
    new = [
        {"item_id": id, "place": place, "category": name}
        for id, names in changed.items()
        for place, name in enumerate(names)
    ]
    if new:
        of = sqlite if session.get_bind().dialect.name == "sqlite" else postgresql
        session.execute(of.insert(ItemCategory).on_conflict_do_nothing(), new)


def _others(session: Session, given: Mapping[str, Sequence[str]]) -> dict[int, Sequence[str]]:
    """Return the items that have other categories than given, by their numbers, with those given."""
    if not given:
        return {}
    wanted = text(f"SELECT given.item FROM {given_rows(session, {'item': 'text'})}").columns(Item.item)
    asked = (
        select(Item.id, Item.item, ItemCategory.category)
        .outerjoin(ItemCategory, ItemCategory.item_id == Item.id)
        .where(Item.item.in_(wanted))
        .order_by(Item.id, ItemCategory.place)
    )
    there: dict[tuple[int, str], list[str]] = defaultdict(list)
    rows = json.dumps([{"item": each} for each in given])
    for id, item, category in session.execute(asked, {"rows": rows}):
        there[id, item] += [] if category is None else [category]
    return {id: given[item] for (id, item), names in there.items() if names != list(given[item])}


@dataclass(frozen=True)
class _InForce:
    """What is in force for an interaction; 0 where nobody said anything."""

    unwillingness: float
    category: str | None
    """The category that it was said of."""
    is_kept: bool


def _in_force(session: Session, items: Mapping[int, object]) -> dict[int, _InForce]:
    """Return what is in force for interactions with these items, of people with wishes on categories."""
    of_category = aliased(Wish)
    is_concerned = exists().where(
        of_category.person_id == Interaction.person_id,
        of_category.in_force,
        of_category.scope == "category",
    )
    asked = select(Interaction.id, unwillingness_of(0.0), target_of(0.0), is_kept(0.0))
    asked = asked.select_from(Interaction).join(Item, Item.id == Interaction.item_id)
    asked = asked.where(Interaction.item_id.in_(items), is_concerned)
    return {id: _InForce(value, category, bool(kept))
            for id, value, category, kept in session.execute(joined(asked))}  # fmt: skip


def _keep(session: Session, before: Mapping[int, _InForce], after: Mapping[int, _InForce], upto: int) -> int:
    """Keep what was in force where less would be now; return for how many it is something else now.

    What was kept earlier, and was spoken of since, no longer counts.
    """
    less = [id for id, was in before.items() if after[id].unwillingness < was.unwillingness]
    over = {id for id, was in before.items() if not was.is_kept}.difference(less)
    if over:
        ended = update(Interaction).values(kept=None, kept_upto=None, kept_category=None)
        session.execute(ended.where(Interaction.id.in_(over), Interaction.kept.is_not(None)))
    if less:
        kinds = {"id": "bigint", "kept": "double precision", "category": "text"}
        asked = (
            "UPDATE interaction SET kept = given.kept, kept_upto = :upto, kept_category = given.category "
            f"FROM {given_rows(session, kinds)} WHERE interaction.id = given.id"
        )
        rows = [{"id": id, "kept": before[id].unwillingness, "category": before[id].category} for id in less]
        query(asked).run(session, rows=json.dumps(rows), upto=upto)
    return sum(after[id].unwillingness > was.unwillingness for id, was in before.items())
