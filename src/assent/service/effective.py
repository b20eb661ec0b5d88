"""What is in force for an interaction: the most specific wish, then what the platform brought, then `unsaid`.

A wish of the item comes before one of a category, and that before one of everything; of an item's categories,
the one that was said last counts. Where the platform changed an item's categories, no less than before that
counts, unless what decides was said later (`Interaction.kept`). This is said twice, and tests compare both:
to the database, for interactions that are stored (`Effective`), and in Python, for wishes that are only
supposed (`deciding`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

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


_of_item, _of_category, _of_all = (aliased(Wish) for _ in range(3))


def joined(asked: Asked) -> Asked:
    """Return a query on interactions and their items with the wishes in force on each: up to three.

    Each join has a whole key of the index of wishes in force. So neither database reads other people's wishes
    for a page of somebody's interactions.
    """
    spoken = aliased(Wish)
    latest = (
        select(spoken.target)
        .join(ItemCategory, ItemCategory.category == spoken.target)
        .where(spoken.person_id == Interaction.person_id, spoken.in_force, spoken.scope == "category")
        .where(ItemCategory.item_id == Interaction.item_id)
        .order_by(spoken.id.desc())
        .limit(1)
        .correlate(Interaction)
        .scalar_subquery()
    )
    for wish, scope, target in (
        (_of_item, "item", Item.item),
        (_of_category, "category", latest),
        (_of_all, "everything", literal("")),
    ):
        mine = and_(wish.person_id == Interaction.person_id, wish.in_force)
        asked = asked.outerjoin(wish, and_(mine, wish.scope == scope, wish.target == target))
    return asked


# Columns of a query that is `joined`; `unsaid` counts for what nobody said anything about. The most specific
# wish decides. No wish in force lacks one of these.


_WISH: Final = func.coalesce(_of_item.id, _of_category.id, _of_all.id)
_MINDED: Final = func.coalesce(_of_item.unwillingness, _of_category.unwillingness, _of_all.unwillingness)
_REQUESTED: Final = func.coalesce(_of_item.requested, _of_category.requested, _of_all.requested)
_SCOPE: Final = func.coalesce(_of_item.scope, _of_category.scope, _of_all.scope)


def _usual(unsaid: float) -> ColumnElement[float]:
    return func.coalesce(_MINDED, Interaction.unwillingness, unsaid)


def is_kept(unsaid: float) -> ColumnElement[bool]:
    """Whether what was in force before the item's categories changed still is."""
    is_older = func.coalesce(_WISH, -1) <= Interaction.kept_upto
    return and_(func.coalesce(Interaction.kept, 0.0) > _usual(unsaid), is_older)


def unwillingness_of(unsaid: float) -> ColumnElement[float]:
    """What is in force."""
    return case((is_kept(unsaid), Interaction.kept), else_=_usual(unsaid))


def target_of(unsaid: float) -> ColumnElement[str | None]:
    """The category that it was said of."""
    of_category = case((_of_item.id.is_(None), _of_category.target))
    return case((is_kept(unsaid), Interaction.kept_category), else_=of_category)


@dataclass(frozen=True)
class Effective:
    """What is in force for interactions, as columns of a query.

    The columns belong to `select(...)` from `Interaction` and `Item` with `joined` applied.
    """

    settings: ServiceSettings

    def joined(self, asked: Asked) -> Asked:
        """Return a query on interactions and their items with the wishes in force on each."""
        return joined(asked)

    @property
    def unwillingness(self) -> ColumnElement[float]:
        """What is in force."""
        return unwillingness_of(self.settings.unsaid)

    @property
    def source(self) -> ColumnElement[str]:
        """Who said so, as in `entries.Row.source`."""
        brought = case((Interaction.unwillingness.is_(None), literal("unsaid")), else_=literal("platform"))
        usual = func.coalesce(_SCOPE, brought)
        return case((is_kept(self.settings.unsaid), literal("kept")), else_=usual)

    @property
    def target(self) -> ColumnElement[str | None]:
        """The category that it was said of, where it was one."""
        return target_of(self.settings.unsaid)

    @property
    def said(self) -> ColumnElement[float | None]:
        """When the wish was made, where one decides."""
        return case((is_kept(self.settings.unsaid), None), else_=_REQUESTED)


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
