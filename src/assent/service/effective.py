"""What is in force for an interaction: the most specific wish, then what the platform brought, then `unsaid`.

A wish of the item comes before one of a category, and that before one of everything; of an item's categories,
the one that was said last counts. This is said twice, and tests compare both: to the database, for
interactions that are stored (`Effective`), and in Python, for wishes that are only supposed (`deciding`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, case, func, literal, select
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


@dataclass(frozen=True)
class Effective:
    """What is in force for interactions, as columns of a query.

    The columns belong to `select(...).select_from(Interaction)` with `joined` applied.
    """

    settings: ServiceSettings

    def joined(self, asked: Asked) -> Asked:
        """Return a query on interactions with the wish that decides on each, if there is one."""
        spoken = aliased(Wish)
        mine = (
            select(spoken.id)
            .where(spoken.person_id == Interaction.person_id, spoken.in_force)
            .correlate(Interaction)
        )
        item = (
            select(Item.item).where(Item.id == Interaction.item_id).correlate(Interaction).scalar_subquery()
        )
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

    @property
    def unwillingness(self) -> ColumnElement[float]:
        """What is in force."""
        return func.coalesce(Wish.unwillingness, Interaction.unwillingness, self.settings.unsaid)

    @property
    def source(self) -> ColumnElement[str]:
        """Who said so, as in `interactions.Row.source`."""
        unsaid = case((Interaction.unwillingness.is_(None), literal("unsaid")), else_=literal("platform"))
        return func.coalesce(Wish.scope, unsaid)
