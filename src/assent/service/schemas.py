"""What goes over the wire. Every text and list has a bound; numbers are numbers, and nothing is guessed."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self, overload

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from assent.service.entries import Row
from assent.service.interactions import CONTROL
from assent.service.jobs import JobView
from assent.service.models import ModelView
from assent.service.security import SCOPES
from assent.service.wishes import Past, Standing

MOST_ROWS = 10_000
"""Of one bulk request."""
MOST_WISHES = 1_000


_INNER = r"[^\u0000-\u001f\u007f]"
_EDGE = r"[^\u0000-\u0020\u007f\s]"
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d")
PRINTABLE = {"pattern": f"^{_EDGE}({_INNER}*{_EDGE})?$"}
"""How the API's description says what `_printable` checks, with words for those who get it wrong."""


def _printable(text: str) -> str:
    if CONTROL.search(text):
        raise ValueError("control characters: accepted: printable text")
    if text != text.strip():
        raise ValueError("spaces at an end: accepted: text without")
    return text


def _number(value: float) -> float:
    if isinstance(value, bool):
        raise ValueError("true and false are no numbers: accepted: a number from 0 to 1")
    return value


def _written(value: object) -> object:
    if not isinstance(value, str) or not _MOMENT.match(value):
        raise ValueError("accepted: a time with an offset, such as 2026-03-01T12:00:00Z")
    return value


def _moment(value: datetime) -> datetime:
    if not 0 <= value.timestamp() <= 4_102_444_800:
        raise ValueError("accepted: a time from 1970 to 2100")
    return value


UserId = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200),
    AfterValidator(_printable),
    Field(description="The platform's id of a person.", examples=["ann"], json_schema_extra=PRINTABLE),
]
ItemId = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200),
    AfterValidator(_printable),
    Field(description="The platform's id of an item.", examples=["f31"], json_schema_extra=PRINTABLE),
]
Category = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200),
    AfterValidator(_printable),
    Field(examples=["Crime"], json_schema_extra=PRINTABLE),
]
Title = Annotated[
    str,
    StringConstraints(min_length=1, max_length=500),
    AfterValidator(_printable),
    Field(examples=["Heat"], json_schema_extra=PRINTABLE),
]
Unwillingness = Annotated[
    float,
    Field(ge=0, le=1, strict=True, allow_inf_nan=False, description="0: use it freely … 1: never use it."),
    AfterValidator(_number),
]
Cursor = Annotated[
    str | None,
    Field(max_length=200, description="`next` of the page before."),
]
Limit = Annotated[int, Field(ge=1, le=200)]
Identifier = Annotated[int, Field(ge=1, le=2**53)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Wire(BaseModel):
    """What all have in common: unknown fields are refused, so that a mistyped one is noticed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# Interactions


class InteractionIn(Wire):
    """A person had an item."""

    user: UserId
    item: ItemId
    time: Annotated[
        AwareDatetime,
        BeforeValidator(_written),
        AfterValidator(_moment),
        Field(description="With an offset, such as 2026-03-01T12:00:00Z."),
    ]
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
    target: Annotated[str, StringConstraints(max_length=200), AfterValidator(_printable)] = Field(
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
    said: datetime
    withdrawal: bool

    @staticmethod
    def of(wish: Standing) -> "StandingOut":
        """Return a wish in force as it is sent."""
        return StandingOut(
            wish=wish.wish,
            scope=wish.scope,
            target=wish.target,
            unwillingness=wish.unwillingness,
            said=moment(wish.said),
            withdrawal=wish.withdrawal,
        )


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
    ended: datetime | None = Field(
        description="When something else was said of the target, or everything was withdrawn."
    )
    requested: datetime
    decided: datetime | None
    trained: datetime | None
    served: datetime | None
    receipts: dict[str, str]

    @staticmethod
    def of(wish: Past) -> "PastOut":
        """Return a wish of the history as it is sent."""
        return PastOut(
            wish=wish.wish,
            scope=wish.scope,
            target=wish.target,
            unwillingness=wish.unwillingness,
            before=wish.before,
            withdrawal=wish.withdrawal,
            in_force=wish.in_force,
            ended=moment(wish.ended),
            requested=moment(wish.requested),
            decided=moment(wish.decided),
            trained=moment(wish.trained),
            served=moment(wish.served),
            receipts=wish.receipts,
        )


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


class ExplanationOut(DecisionOut):
    """Why it was decided so, with the figures."""

    value: float | None
    cost: float | None
    price: float | None = Field(description="What one unit of unwillingness cost in that model.")
    break_even: float | None = Field(description="The price up to which its use would pay; null: any.")
    worth_owner: float | None
    worth_everybody: float | None
    together: int | None


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


# Runs and models


class RunIn(Wire):
    """Work to be done."""

    kind: Literal["train", "update"] = "train"


class RunOut(Wire):
    """A job."""

    id: int
    kind: str
    state: Literal["queued", "running", "done", "failed"]
    created: datetime
    started: datetime | None
    finished: datetime | None
    attempts: int
    progress: str | None
    error: str | None
    result: dict[str, Any] | None

    @staticmethod
    def of(job: JobView) -> "RunOut":
        """Return a job as it is sent."""
        return RunOut(
            id=job.id,
            kind=job.kind,
            state=job.state,
            created=moment(job.created),
            started=moment(job.started),
            finished=moment(job.finished),
            attempts=job.attempts,
            progress=job.progress,
            error=job.error,
            result=job.result,
        )


class RunsOut(Wire):
    """A page of jobs, latest first."""

    runs: list[RunOut]
    next: str | None


class ModelOut(Wire):
    """A trained model."""

    id: int
    kind: str
    parent: int | None
    created: datetime
    published: datetime | None
    in_service: bool
    model_hash: str
    manifest_hash: str
    decisions_hash: str
    facts: dict[str, Any]

    @staticmethod
    def of(model: ModelView) -> "ModelOut":
        """Return a model as it is sent."""
        return ModelOut(
            id=model.id,
            kind=model.kind,
            parent=model.parent,
            created=moment(model.created),
            published=moment(model.published),
            in_service=model.in_service,
            model_hash=model.model_hash,
            manifest_hash=model.manifest_hash,
            decisions_hash=model.decisions_hash,
            facts=model.facts,
        )


class ModelsOut(Wire):
    """A page of models, latest first."""

    models: list[ModelOut]
    next: str | None


# Receipts


class ReceiptsOut(Wire):
    """A page of receipts, latest first."""

    receipts: list[dict[str, Any]]
    next: str | None


class VerifiedOut(Wire):
    """Whether a receipt is what was written."""

    verified: bool
    findings: list[str]


class HeadOut(Wire):
    """A seal of the ledger."""

    number: int
    first: int
    count: int
    at: str
    root: str
    head: str


class HeadsOut(Wire):
    """A page of seals, latest first."""

    heads: list[HeadOut]
    next: str | None


# Keys and links


class LinkOut(Wire):
    """A one-time personal link."""

    url: str
    expires: datetime


class KeyIn(Wire):
    """A key to be made."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(_printable)]
    scopes: Annotated[
        list[Literal[SCOPES]],  # type: ignore[valid-type]  # a literal of all scopes
        Field(min_length=1, max_length=len(SCOPES)),
    ]
    expires: Annotated[AwareDatetime, BeforeValidator(_written), AfterValidator(_moment)] | None = None


class KeyOut(Wire):
    """A key, without its secret."""

    id: str
    name: str
    scopes: list[str]
    created: datetime
    expires: datetime | None
    revoked: datetime | None
    last_used: datetime | None


class KeysOut(Wire):
    """All keys, newest first."""

    keys: list[KeyOut]


class NewKeyOut(Wire):
    """A new key. It is shown once."""

    id: str
    key: str


class HealthOut(Wire):
    """Whether the service answers."""

    status: Literal["ok", "not ready"]


@overload
def moment(seconds: float) -> datetime: ...
@overload
def moment(seconds: None) -> None: ...
@overload
def moment(seconds: float | None) -> datetime | None: ...
def moment(seconds: float | None) -> datetime | None:
    """Return a moment as a time in UTC; None stays None."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def source_of(row: Row, explained: str) -> SourceOut:
    """Return who said how an interaction may be used."""
    return SourceOut(
        source=row.source,
        category=row.source_target,
        said=moment(row.said),
        explained=explained,
    )
