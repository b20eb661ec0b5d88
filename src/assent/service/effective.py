"""What is in force for an interaction: the most specific wish, then what the platform brought, then `unsaid`.

A wish of the item comes before one of a category, and that before one of everything; of an item's categories,
the one that was said last counts. Where the platform changed an item's categories, no less than before that
counts, unless what decides was said later (`Interaction.kept`). This is said twice, and tests compare both:
to the database, for interactions that are stored (`Effective`), and in Python, for wishes that are only
supposed (`deciding`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, func, literal, select
from sqlalchemy.orm import aliased

from assent.service.settings import ServiceSettings
from assent.service.tables import Interaction, Item, ItemCategory, Wish
from assent.service.wishes import Standing

Asked = Select[*tuple[Any, ...]]


def deciding(in_force: Iterable[Standing], item: str, categories: Sequence[str]) -> Standing | None:
    """Return the wish in force that decides on a person's interaction with an item; None if there is none."""
    about = {"item": (item,), "category": tuple(categories), "everything": ("",)}
    speaking = [each for each in in_force if each.target in about[each.scope]]
    return min(speaking, key=lambda each: (list(about).index(each.scope), -each.wish), default=None)


def joined(asked: Asked) -> Asked:
    """Return a query on interactions with the wish that decides on each, if there is one."""
    spoken = aliased(Wish)
    mine = (
        select(spoken.id)
        .where(spoken.person_id == Interaction.person_id, spoken.in_force)
        .correlate(Interaction)
    )
    item = select(Item.item).where(Item.id == Interaction.item_id).correlate(Interaction).scalar_subquery()
    of_category = mine.join(ItemCategory, ItemCategory.category == spoken.target)
    deciding = func.coalesce(
        mine.where(spoken.scope == "item", spoken.target == item).scalar_subquery(),
        of_category.where(spoken.scope == "category", ItemCategory.item_id == Interaction.item_id)
        .order_by(spoken.id.desc())
        .limit(1)
        .scalar_subquery(),
        mine.where(spoken.scope == "everything", spoken.target == "").scalar_subquery(),
    )
    return asked.outerjoin(Wish, Wish.id == deciding)


# Columns of a query that is `joined`; `unsaid` counts for what nobody said anything about.


def _usual(unsaid: float) -> ColumnElement[float]:
    return func.coalesce(Wish.unwillingness, Interaction.unwillingness, unsaid)


def is_kept(unsaid: float) -> ColumnElement[bool]:
    """Whether what was in force before the item's categories changed still is."""
    is_older = func.coalesce(Wish.id, -1) <= Interaction.kept_upto
    return and_(func.coalesce(Interaction.kept, 0.0) > _usual(unsaid), is_older)


def unwillingness_of(unsaid: float) -> ColumnElement[float]:
    """What is in force."""
    return case((is_kept(unsaid), Interaction.kept), else_=_usual(unsaid))


def target_of(unsaid: float) -> ColumnElement[str | None]:
    """The category that it was said of."""
    of_category = case((Wish.scope == "category", Wish.target))
    return case((is_kept(unsaid), Interaction.kept_category), else_=of_category)


@dataclass(frozen=True)
class Effective:
    """What is in force for interactions, as columns of a query.

    The columns belong to `select(...).select_from(Interaction)` with `joined` applied.
    """

    settings: ServiceSettings

    def joined(self, asked: Asked) -> Asked:
        """Return a query on interactions with the wish that decides on each, if there is one."""
        return joined(asked)

    @property
    def unwillingness(self) -> ColumnElement[float]:
        """What is in force."""
        return unwillingness_of(self.settings.unsaid)

    @property
    def source(self) -> ColumnElement[str]:
        """Who said so, as in `entries.Row.source`."""
        brought = case((Interaction.unwillingness.is_(None), literal("unsaid")), else_=literal("platform"))
        usual = func.coalesce(Wish.scope, brought)
        return case((is_kept(self.settings.unsaid), literal("kept")), else_=usual)

    @property
    def target(self) -> ColumnElement[str | None]:
        """The category that it was said of, where it was one."""
        return target_of(self.settings.unsaid)

    @property
    def said(self) -> ColumnElement[float | None]:
        """When the wish was made, where one decides."""
        return case((is_kept(self.settings.unsaid), None), else_=Wish.requested)


@dataclass(frozen=True)
class Brought:
    """What the platform brought of an interaction, and what is kept of it."""

    unwillingness: float | None
    categories: tuple[str, ...]
    kept: float | None
    kept_upto: int | None

    def unwillingness_under(self, in_force: Iterable[Standing], item: str, unsaid: float) -> float:
        """Return what would be in force if these wishes were."""
        wish = deciding(in_force, item, self.categories)
        brought = unsaid if self.unwillingness is None else self.unwillingness
        usual = brought if wish is None else wish.unwillingness
        if self.kept is None or self.kept_upto is None or (wish is not None and wish.wish > self.kept_upto):
            return usual
        return max(usual, self.kept)
