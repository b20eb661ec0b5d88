"""What goes over the wire of runs, models, receipts, keys and links."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints

from assent.service.security import SCOPES
from assent.service.wire import At, Moment, Wire, printable

# Runs and models


class RunIn(Wire):
    """Work to be done."""

    kind: Literal["train", "update"] = "train"


class RunOut(Wire):
    """A job."""

    id: int
    kind: str
    state: Literal["queued", "running", "done", "failed"]
    created: At
    started: At | None
    finished: At | None
    attempts: int
    progress: str | None
    error: str | None
    result: dict[str, Any] | None


class RunsOut(Wire):
    """A page of jobs, latest first."""

    runs: list[RunOut]
    next: str | None


class ModelOut(Wire):
    """A trained model."""

    id: int
    kind: str
    parent: int | None
    created: At
    published: At | None
    in_service: bool
    model_hash: str
    manifest_hash: str
    decisions_hash: str
    facts: dict[str, Any]


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

    name: Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(printable)]
    scopes: Annotated[
        list[Literal[SCOPES]],  # type: ignore[valid-type]  # a literal of all scopes
        Field(min_length=1, max_length=len(SCOPES)),
    ]
    expires: Moment | None = None


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
