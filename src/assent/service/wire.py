"""What goes over the wire is made of this. Texts have bounds; numbers are numbers, and nothing is guessed."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Self, overload

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

from assent.service.interactions import CONTROL

_INNER = r"[^\u0000-\u001f\u007f]"
_EDGE = r"[^\u0000-\u0020\u007f\s]"
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d")
PRINTABLE = {"pattern": f"^{_EDGE}({_INNER}*{_EDGE})?$"}
"""How the API's description says what `printable` checks, with words for those who get it wrong."""


def printable(text: str) -> str:
    """Return a text; refuse control characters, and spaces at an end."""
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
    AfterValidator(printable),
    Field(description="The platform's id of a person.", examples=["ann"], json_schema_extra=PRINTABLE),
]
ItemId = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200),
    AfterValidator(printable),
    Field(description="The platform's id of an item.", examples=["f31"], json_schema_extra=PRINTABLE),
]
Category = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200),
    AfterValidator(printable),
    Field(examples=["Crime"], json_schema_extra=PRINTABLE),
]
Title = Annotated[
    str,
    StringConstraints(min_length=1, max_length=500),
    AfterValidator(printable),
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
Moment = Annotated[AwareDatetime, BeforeValidator(_written), AfterValidator(_moment)]
Identifier = Annotated[int, Field(ge=1, le=2**53)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Wire(BaseModel):
    """What all have in common: unknown fields are refused, so that a mistyped one is noticed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def of(cls, found: object) -> Self:
        """Return what was found as it is sent: its attributes with the names of the fields."""
        return cls.model_validate(found, from_attributes=True)


@overload
def moment(seconds: float) -> datetime: ...
@overload
def moment(seconds: None) -> None: ...
@overload
def moment(seconds: float | None) -> datetime | None: ...
def moment(seconds: float | None) -> datetime | None:
    """Return a moment as a time in UTC; None stays None."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _sent(value: Any) -> Any:
    return moment(value) if isinstance(value, float) else value


At = Annotated[datetime, BeforeValidator(_sent)]
"""A moment that is sent: a time, also made of the seconds that the database keeps."""
