"""What goes over the wire of interactions, wishes, decisions and recommendations."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from assent.service.entries import Row
from assent.service.wire import (
    At,
    Category,
    ItemId,
    Moment,
    Title,
    Unwillingness,
    UserId,
    Wire,
    moment,
    printable,
)

MOST_ROWS = 10_000
"""Of one bulk request."""
MOST_WISHES = 1_000


# Interactions


class InteractionIn(Wire):
    """A person had an item."""

    user: UserId
    item: ItemId
    time: Annotated[Moment, Field(description="With an offset, such as 2026-03-01T12:00:00Z.")]
    title: Title | None = None
    categories: Annotated[list[Category], Field(max_length=20)] | None = None
    unwillingness: Unwillingness | None = Field(
        None, description="What the platform knows of the owner's consent. A wish of theirs comes first."
    )


class InteractionsIn(Wire):
    """Several interactions, of several people."""

    interactions: Annotated[list[InteractionIn], Field(min_length=1, max_length=MOST_ROWS)]


class AddedOut(Wire):
    """How many interactions were new."""

    added: int
    known: int = Field(description="Were there already. Their time stays as it is.")
    consents: int = Field(description="Known ones whose unwillingness is another now, as it was brought.")


class InteractionIdIn(Wire):
    """An interaction to be deleted."""

    user: UserId
    item: ItemId


class DeletionIn(Wire):
    """Several interactions to be deleted, of several people."""

    interactions: Annotated[list[InteractionIdIn], Field(min_length=1, max_length=MOST_ROWS)]


class DeletedOut(Wire):
    """How many interactions were deleted."""

    deleted: int
    unknown: int = Field(description="Were not there.")


class SourceOut(Wire):
    """Who said how an interaction may be used."""

    source: Literal["item", "category", "everything", "platform", "unsaid", "kept"]
    category: str | None
    said: datetime | None
    explained: str


class InteractionOut(Wire):
    """An interaction, what its owner says of it, and what became of it in the model in service."""

    item: str
    title: str | None
    categories: list[str]
    time: datetime
    unwillingness: float = Field(description="In force now.")
    because: SourceOut
    state: Literal["used", "withheld", "never", "closed", "undecided"]


class InteractionsOut(Wire):
    """A page of interactions, latest first."""

    interactions: list[InteractionOut]
    next: str | None


# Wishes


class WishIn(Wire):
    """What a person says of an item, of a category or of everything."""

    scope: Literal["item", "category", "everything"]
    target: Annotated[str, StringConstraints(max_length=200), AfterValidator(printable)] = Field(
        "", description="The item's id or the category; empty for everything."
    )
    unwillingness: Unwillingness | None = Field(description="null takes back what was said of the target.")


class WishesIn(Wire):
    """What one person says: all of it is stored, or nothing."""

    user: UserId
    wishes: Annotated[list[WishIn], Field(min_length=1, max_length=MOST_WISHES)] = Field(
        description="At most one of each target."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len({(each.scope, each.target) for each in self.wishes}) < len(self.wishes):
            raise ValueError("wishes: a target comes twice: accepted: once")
        return self


class PersonIn(Wire):
    """A person."""

    user: UserId


class RecordedOut(Wire):
    """A wish that is durably stored, and its receipt."""

    wish: int
    receipt: dict[str, Any]


class RecordedAllOut(Wire):
    """Wishes that are durably stored, in the order in which they were said."""

    wishes: list[RecordedOut]


class StandingOut(Wire):
    """A wish in force."""

    wish: int
    scope: Literal["item", "category", "everything"]
    target: str
    unwillingness: float
    said: At
    withdrawal: bool


class StandingsOut(Wire):
    """A person's wishes in force: everything first, then categories, then items."""

    wishes: list[StandingOut]


class EffectiveOut(Wire):
    """What is in force for one interaction, and why."""

    user: str
    item: str
    unwillingness: float
    because: SourceOut


class PastOut(Wire):
    """A wish, and when it reached which state."""

    wish: int
    scope: Literal["item", "category", "everything"]
    target: str
    unwillingness: float | None
    before: float | None
    withdrawal: bool
    in_force: bool
    ended: At | None = Field(
        description="When something else was said of the target, or everything was withdrawn."
    )
    requested: At
    decided: At | None
    trained: At | None
    served: At | None
    receipts: dict[str, str]


class HistoryOut(Wire):
    """A page of all that a person said, latest first."""

    wishes: list[PastOut]
    next: str | None


# Decisions and recommendations


class DecisionOut(Wire):
    """What the model in service did with an interaction."""

    item: str
    title: str | None
    state: Literal["used", "withheld", "never", "closed", "undecided"]
    unwillingness: float | None = Field(description="When it was decided.")
    reason: str | None
    explained: str


class DecisionsOut(Wire):
    """A page of decisions, those on the latest interactions first."""

    model: int | None
    decisions: list[DecisionOut]
    next: str | None


class FiguresOut(Wire):
    """The figures that decided on an interaction; null where it was not looked at."""

    value: float | None
    cost: float | None
    price: float | None = Field(description="What one unit of unwillingness cost in that model.")
    break_even: float | None = Field(description="The price up to which its use would pay; null: any.")
    worth_owner: float | None
    worth_everybody: float | None
    together: int | None


class ExplanationOut(FiguresOut, DecisionOut):
    """Why it was decided so, with the figures."""


class BecauseOut(Wire):
    """Something disclosed that speaks for a recommendation."""

    item: str
    title: str | None
    share: float


class RecommendationOut(Wire):
    """One recommended item."""

    rank: int
    item: str
    title: str | None
    score: float
    because: list[BecauseOut]


class RecommendationsOut(Wire):
    """A list of recommendations."""

    model: int | None
    basis: Literal["own", "general", "none"]
    items: list[RecommendationOut]


class PreviewIn(Wire):
    """What a person might say."""

    user: UserId
    wish: WishIn
    k: Annotated[int, Field(ge=1, le=100)] = 10


class PreviewOut(Wire):
    """The list now, and as it would be."""

    now: RecommendationsOut
    then: RecommendationsOut
    untold: int = Field(
        description="Interactions that could be used then, of which the model in service knows nothing: "
        "`then` is without them, and the next model will tell."
    )


def source_of(row: Row, explained: str) -> SourceOut:
    """Return who said how an interaction may be used."""
    return SourceOut(
        source=row.source,
        category=row.source_target,
        said=moment(row.said),
        explained=explained,
    )
