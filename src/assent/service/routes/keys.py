"""/v1/keys and /v1/links: who may come in.

Their answers hold secrets, which are never stored. So a repeated request is done again, whatever its
Idempotency-Key.
"""

import time
from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Path

from assent.service import security
from assent.service.access import Caller, KeyedRoute, KeyFor
from assent.service.problems import described, operation_id
from assent.service.schemas import PersonIn
from assent.service.schemas_operation import KeyIn, KeyOut, KeysOut, LinkOut, NewKeyOut
from assent.service.wire import moment

router = APIRouter(
    prefix="/v1",
    tags=["keys and links"],
    route_class=KeyedRoute,
    responses=described(400, 401, 403, 404, 409, 413, 422, 429, 503),
    generate_unique_id_function=operation_id,
)
Linking = Annotated[Caller, KeyFor("links")]
Admin = Annotated[Caller, KeyFor("admin")]
KeyId = Annotated[str, Path(pattern="^[0-9a-f]{12}$", description="The public part of a key.")]
MOST_LINKS = {"most": 20, "seconds": 600}
"""Of one person."""


@router.post("/links", status_code=201)
def create_link(caller: Linking, body: PersonIn) -> LinkOut:
    """Return a link that lets a person in once, for some minutes. Give it to that person alone.

    It is made for whoever is named: also somebody of whom nothing is known may see that.
    """
    with caller.service.database.writing() as session:
        security.count_attempt(session, caller.service.secret, f"link {body.user}", **MOST_LINKS)
        expires = moment(time.time() + security.LINK_SECONDS)
        url = security.create_link(
            session, body.user, caller.service.settings, by=caller.by, key_id=caller.holder.key_id
        )
    return LinkOut(url=url, expires=expires)


@router.get("/keys")
def list_keys(caller: Admin) -> KeysOut:
    """List all keys, without their secrets."""
    with caller.service.database.reading() as session:
        return KeysOut(
            keys=[
                KeyOut(
                    id=key.id,
                    name=key.name,
                    scopes=key.scopes.split(),
                    created=moment(key.created),
                    expires=moment(key.expires),
                    revoked=moment(key.revoked),
                    last_used=moment(key.last_used),
                )
                for key in security.list_keys(session)
            ]
        )


@router.post("/keys", status_code=201)
def create_key(caller: Admin, body: KeyIn) -> NewKeyOut:
    """Make a key, for no more than this key is for. Its text is shown once."""
    _check_all(caller, body.scopes)
    expires = None if body.expires is None else body.expires.timestamp()
    with caller.service.database.writing() as session:
        key = security.create_key(session, body.name, body.scopes, expires=expires, by=caller.by)
    return NewKeyOut(id=security.public_part(key), key=key)


@router.post("/keys/{key}/rotate", status_code=201)
def rotate_key(caller: Admin, key: KeyId) -> NewKeyOut:
    """Make a key of the same name and scopes, of which this key has all; the old one ends in an hour."""
    with caller.service.database.writing() as session:
        _check_all(caller, security.find_key(session, key).scopes.split())
        new = security.rotate_key(session, key, by=caller.by)
    return NewKeyOut(id=security.public_part(new), key=new)


def _check_all(caller: Caller, scopes: Iterable[str]) -> None:
    """Refuse to give what the key does not have: whoever manages keys could read everything otherwise."""
    for scope in scopes:
        caller.holder.check(scope)


@router.delete("/keys/{key}", status_code=204)
def revoke_key(caller: Admin, key: KeyId) -> None:
    """End a key, here at once and in other processes within two seconds.

    Links that it asked for end at once, and so do visits that it, or one of its links, opened.
    """
    with caller.service.database.writing() as session:
        security.revoke_key(session, key, by=caller.by)
    caller.service.keys.clear()
