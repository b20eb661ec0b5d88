"""/v1/receipts, /v1/ledger, /v1/export: what was said and honoured, and the proof of it."""

from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from assent.service import ledger, people
from assent.service.access import Caller, KeyFor, Service
from assent.service.routes.repeat import api_router
from assent.service.schemas_operation import HeadOut, HeadsOut, ReceiptsOut, VerifiedOut
from assent.service.wire import Cursor, Identifier, Limit, UserId
from assent.support.errors import AssentError
from assent.support.files import parse_json

router = api_router("receipts")
_PART: Final = 64 * 1024
_RECEIPT = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
Platform = Annotated[Caller, KeyFor("receipts")]


@router.get("/receipts")
def list_some(
    caller: Platform,
    user: Annotated[UserId, Query()],
    cursor: Annotated[Cursor, Query()] = None,
    limit: Annotated[Limit, Query()] = 50,
) -> ReceiptsOut:
    """List a person's receipts, latest first."""
    with caller.service.database.reading() as session:
        found, after = ledger.receipts_of(session, user, cursor=cursor, limit=limit)
    return ReceiptsOut(receipts=found, next=after)


@router.get("/receipts/{receipt}")
def get_one(caller: Platform, receipt: UUID) -> dict[str, Any]:
    """Return a receipt."""
    with caller.service.database.reading() as session:
        return ledger.receipt(session, str(receipt))


@router.post("/receipts/verify", openapi_extra={"requestBody": _RECEIPT})
async def verify(caller: Platform, request: Request) -> VerifiedOut:
    """Check a receipt: whether it is what was written, and whether the ledger has it."""
    body = await request.body()
    return await run_in_threadpool(_verified, caller.service, body)


def _verified(service: Service, body: bytes) -> VerifiedOut:
    try:
        found = parse_json("body", body)  # strictly: what is hashed has one meaning
    except AssentError as error:
        raise HTTPException(400, str(error)[:500]) from None
    with service.database.reading() as session:
        findings = ledger.verify_receipt(session, found)
    return VerifiedOut(verified=not findings, findings=[str(each)[:500] for each in findings[:100]])


@router.get("/ledger/heads")
def list_heads(
    caller: Platform,
    before: Annotated[
        Identifier | None, Query(alias="cursor", description="`next` of the page before.")
    ] = None,
    limit: Annotated[Limit, Query()] = 50,
) -> HeadsOut:
    """List the seals of the ledger, latest first. Keep a head elsewhere to notice later changes."""
    with caller.service.database.reading() as session:
        found, after = ledger.heads(session, cursor=before, limit=limit)
    heads = [
        HeadOut(
            number=each.number,
            first=each.first,
            count=each.count,
            at=each.at,
            root=each.root,
            head=each.head,
        )
        for each in found
    ]
    return HeadsOut(heads=heads, next=None if after is None else str(after))


@router.get(
    "/ledger",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
def whole_ledger(caller: Platform) -> StreamingResponse:
    """Return the whole ledger as lines of JSON, for `assent verify`. It has no personal data."""
    return ledger_response(caller.service)


def ledger_response(service: Service) -> StreamingResponse:
    """Return a response with the ledger of this moment.

    It is written to a file first, which has no name and goes with the response: whoever reads slowly holds no
    connection of the database.
    """
    file = TemporaryFile()  # noqa: SIM115  (the response closes it)
    with service.database.snapshot() as session:
        file.writelines(f"{line}\n".encode() for line in ledger.export_lines(session))
    headers = {
        "Content-Disposition": 'attachment; filename="ledger.jsonl"',
        "Content-Length": str(file.tell()),
    }
    file.seek(0)

    def parts() -> Iterator[bytes]:
        with file:
            while part := file.read(_PART):
                yield part

    return StreamingResponse(parts(), media_type="application/x-ndjson", headers=headers)


@router.get("/export")
def export(caller: Platform, user: Annotated[UserId, Query()]) -> people.ExportOut:
    """Return all that is known of a person."""
    settings = caller.service.settings
    with caller.service.database.snapshot() as session:
        return people.export(session, settings, user)
