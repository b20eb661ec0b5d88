"""Who may come in: platform keys, one-time personal links, visits (sessions in a browser), limits.

Secrets have 256 random bits and only their SHA-256 is stored, so that a copy of the database lets nobody in.
A slow password hash would add nothing: there is nothing to guess. Secrets are compared in constant time.
"""

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from sqlalchemy import CursorResult, bindparam, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from assent.service import ledger
from assent.service.database import ConflictError, NotFoundError, Query
from assent.service.settings import ServiceSettings
from assent.service.tables import Attempt, Key, Link, Reply, Visit
from assent.support.errors import AssentError
from assent.support.files import locked, read_own, write_bytes

SCOPES: Final = (
    "interactions",
    "wishes",
    "decisions",
    "recommendations",
    "models",
    "receipts",
    "links",
    "metrics",
    "admin",
)
"""What a key may be for. `admin` manages keys, of no other scopes than its own, and opens the operator's
pages; it allows nothing else."""

PERSON: Final = "person"
OPERATOR: Final = "operator"

LINK_SECONDS: Final = 15 * 60
IDLE_SECONDS: Final = 30 * 60
VISIT_SECONDS: Final = 12 * 3600
LONGEST_NAME: Final = 100
"""Most characters of a key's name."""
OVERLAP_SECONDS: Final = 3600
"""How long a rotated key goes on beside its successor."""
REPLY_SECONDS: Final = 24 * 3600
SECRET: Final = "secret"
"""The file of the service's secret, in its folder."""
_SECRET_BYTES: Final = 32
_SEEN_SECONDS: Final = 60
"""How often the last use of a key or visit is noted at most."""
_KEY = re.compile(r"assent_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_NO_HASH: Final = "0" * 64


class RefusedError(AssentError):
    """No key, visit or link, or one that does not count (any more): whoever asks is nobody."""

    def __init__(self, message: str, cause: str | None = None) -> None:
        super().__init__(message)
        self.cause = cause
        """Which text a page has for it."""


class NotAllowedError(AssentError):
    """Whoever asks is known, and may not do this."""

    def __init__(self, message: str, cause: str | None = None) -> None:
        super().__init__(message)
        self.cause = cause
        """Which text a page has for it."""


class TooManyError(AssentError):
    """More attempts than are allowed in a while."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True)
class KeyHolder:
    """A platform that showed a key."""

    key_id: str
    name: str
    scopes: frozenset[str]
    is_stale: bool
    """Whether its last use was noted long ago."""

    def check(self, scope: str) -> None:
        """Refuse what the key is not for."""
        if scope not in self.scopes:
            raise NotAllowedError(
                f"this key is not for {scope}: accepted: a key with the scope {scope}", "scope"
            )


@dataclass(frozen=True)
class Visitor:
    """A person or an operator in a browser."""

    kind: str
    person: str | None
    key_id: str | None
    csrf: str
    token_hash: str
    is_stale: bool
    """Whether its last use was noted long ago."""


def hashed(secret: str) -> str:
    """Return what is stored of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def service_secret(data: Path) -> bytes:
    """Return the secret of a service, from its folder; it is made when it is first asked for.

    What is counted or compared, and could be guessed, is stored under it: a copy of the database without the
    folder does not tell it.
    """
    file = data / SECRET
    with locked(data / f"{SECRET}.lock", wait=True):
        if not file.exists():
            write_bytes(file, secrets.token_bytes(_SECRET_BYTES), private=True)
    if len(found := read_own(file)) != _SECRET_BYTES:
        raise AssentError(f"{file}: not whole; accepted: the file as it was, or none")
    return found


def keyed(secret: bytes, text: str) -> str:
    """Return what is stored of a text that could be guessed."""
    return hmac.new(secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def same(one: str, other: str) -> bool:
    """Whether two secrets are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


# Keys


def create_key(
    session: Session,
    name: str,
    scopes: Sequence[str],
    *,
    expires: float | None = None,
    by: str = "command line",
) -> str:
    """Store a new key and return its text, which is shown once and not kept. `by` goes to the audit log."""
    if wrong := sorted(set(scopes) - set(SCOPES)):
        raise AssentError(f"scopes={wrong[0]!r}: accepted: {', '.join(SCOPES)}")
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise AssentError(f"name {name!r}: accepted: a printable text of 1 to {LONGEST_NAME} characters")
    if expires is not None and not expires > time.time():
        raise AssentError("expires: accepted: a time that is still to come")
    if not scopes:
        raise AssentError(f"scopes: a key is for something: accepted: {', '.join(SCOPES)}")
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    session.add(
        Key(
            id=key_id,
            name=name,
            scopes=" ".join(sorted(set(scopes))),
            secret_hash=hashed(secret),
            created=time.time(),
            expires=expires,
        )
    )
    session.flush()
    ledger.note(session, "key created", key=key_id, scopes=sorted(set(scopes)), by=by)
    return f"assent_{key_id}_{secret}"


def public_part(key: str) -> str:
    """Return the id in a key's text."""
    return key.split("_")[1]


def check_key(session: Session, text: str) -> KeyHolder:
    """Return who shows the key `text`; refuse what is unknown, expired or revoked."""
    parts, now = _KEY.fullmatch(text), time.time()
    key = session.get(Key, parts[1]) if parts else None
    # An unknown id takes as long as a wrong secret.
    fits = same(hashed(parts[2] if parts else text), key.secret_hash if key else _NO_HASH)
    if key is None or not fits or not _in_force(key, now):
        raise RefusedError("this key is unknown, expired or revoked: accepted: a key of this service", "key")
    is_stale = key.last_used is None or key.last_used < now - _SEEN_SECONDS
    return KeyHolder(key.id, key.name, frozenset(key.scopes.split()), is_stale)


def note_use(session: Session, holder: KeyHolder) -> None:
    """Note that a key was used now."""
    session.execute(update(Key).where(Key.id == holder.key_id).values(last_used=time.time()))


def _in_force(key: Key, now: float) -> bool:
    return key.revoked is None and (key.expires is None or key.expires > now)


def list_keys(session: Session) -> list[Key]:
    """Return all keys, the newest first."""
    return list(session.scalars(select(Key).order_by(Key.created.desc(), Key.id)))


def find_key(session: Session, key_id: str) -> Key:
    """Return the key with this public part, also one that is no longer in force."""
    key = session.get(Key, key_id)
    if key is None:
        raise NotFoundError("there is no such key")
    return key


def rotate_key(
    session: Session, key_id: str, *, overlap: float = OVERLAP_SECONDS, by: str = "command line"
) -> str:
    """Return the text of a new key of the same name and scopes; the old one ends after `overlap` seconds."""
    key, now = find_key(session, key_id), time.time()
    if not _in_force(key, now):
        raise ConflictError("this key is expired or revoked: accepted: a key in force")
    key.expires = min(key.expires or now + overlap, now + overlap)
    ledger.note(session, "key rotated", key=key_id, by=by)
    return create_key(session, key.name, key.scopes.split(), by=by)


def revoke_key(session: Session, key_id: str, *, by: str = "command line") -> None:
    """End a key, the links that it asked for, and all visits that it or they opened, of people too.

    A revoked key stays revoked.
    """
    key = find_key(session, key_id)
    if key.revoked is None:
        key.revoked = time.time()
        ledger.note(session, "key revoked", key=key_id, by=by)
        session.flush()
    # Links first: whoever uses one at this moment is waited for, and their visit ends with the others.
    for table in (Link, Visit):
        session.execute(delete(table).where(table.key_id == key_id))


# Links


@dataclass(frozen=True)
class Guest:
    """Whom a link lets in."""

    person: str
    key_id: str | None
    """Whose key asked for the link."""


def create_link(
    session: Session, user: str, settings: ServiceSettings, *, by: str, key_id: str | None = None
) -> str:
    """Return the address of a new one-time link for a person. `by` goes to the audit log.

    `key_id` is the key that asks: to revoke it ends the link, and the visit that it opens.
    """
    now, secret = time.time(), secrets.token_urlsafe(32)
    expires = now + LINK_SECONDS
    session.add(Link(token_hash=hashed(secret), person=user, key_id=key_id, created=now, expires=expires))
    ledger.note(session, "link created", by=by)
    return f"{settings.public_url.rstrip('/')}/enter?link={secret}"


def use_link(session: Session, secret: str) -> Guest:
    """Use up a link and return whose it was. Of several that try at once, one succeeds."""
    now = time.time()
    mine = (Link.token_hash == hashed(secret), Link.used.is_(None), Link.expires > now)
    used = cast("CursorResult[None]", session.execute(update(Link).where(*mine).values(used=now)))
    whose = select(Link.person, Link.key_id, Key.revoked).outerjoin(Key, Key.id == Link.key_id)
    found = session.execute(whose.where(Link.token_hash == hashed(secret))).one_or_none()
    # A process may go on with a key for a moment after it was revoked.
    if not _TOKEN.fullmatch(secret) or used.rowcount != 1 or found is None or found.revoked is not None:
        raise RefusedError(
            "this link is unknown, used or too old: accepted: a new link from the platform", "link"
        )
    return Guest(found.person, found.key_id)


# Visits

_VISIT: Final = Query(
    select(Visit.kind, Visit.person, Visit.key_id, Visit.csrf, Visit.seen, Visit.expires).where(
        Visit.token_hash == bindparam("token_hash")
    )
)


def start_visit(session: Session, *, person: str | None = None, key_id: str | None = None) -> str:
    """Begin the visit of a person, or of the operator, and return the cookie's secret.

    `key_id` is the key that let them in, or that asked for the person's link.
    """
    now, secret = time.time(), secrets.token_urlsafe(32)
    session.add(
        Visit(
            token_hash=hashed(secret),
            kind=OPERATOR if person is None else PERSON,
            person=person,
            key_id=key_id,
            csrf=secrets.token_urlsafe(32),
            created=now,
            seen=now,
            expires=now + VISIT_SECONDS,
        )
    )
    return secret


def find_visit(session: Session, secret: str) -> Visitor | None:
    """Return who holds the cookie's secret; None if there is no such visit, or it ended."""
    if not _TOKEN.fullmatch(secret):
        return None
    now, token_hash = time.time(), hashed(secret)
    found = _VISIT.rows(session, token_hash=token_hash)
    if not found:
        return None
    [(kind, person, key_id, csrf, seen, expires)] = found
    if expires < now or seen < now - IDLE_SECONDS:
        return None
    if kind == OPERATOR and key_id is not None:
        key = session.get(Key, key_id)
        if key is None or not _in_force(key, now):
            return None
    return Visitor(kind, person, key_id, csrf, token_hash, is_stale=seen < now - _SEEN_SECONDS)


def note_visit(session: Session, visitor: Visitor) -> None:
    """Note that a visit goes on."""
    session.execute(update(Visit).where(Visit.token_hash == visitor.token_hash).values(seen=time.time()))


def end_visit(session: Session, visitor: Visitor) -> None:
    """End a visit at once, in all processes."""
    session.execute(delete(Visit).where(Visit.token_hash == visitor.token_hash))


# Limits


def count_attempt(session: Session, secret: bytes, who: str, *, most: int, seconds: int) -> None:
    """Count an attempt of `who` (what is tried, and by whom); refuse more than `most` in `seconds`.

    The count is in the database, so that it holds over all web processes. `who` is stored under the secret of
    the service.
    """
    window = _window(seconds)
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    row = insert(Attempt).values(bucket=keyed(secret, f"{seconds} {who}"), window=window, count=1)
    counted = session.execute(
        row.on_conflict_do_update(
            index_elements=[Attempt.bucket, Attempt.window], set_={"count": Attempt.count + 1}
        ).returning(Attempt.count)
    ).scalar_one()
    if counted > most:
        wait = max(1, window - int(time.time()))
        raise TooManyError("too many attempts: accepted: fewer of them", wait)


def _window(seconds: int) -> int:
    """When the present window of `seconds` ends."""
    return (int(time.time()) // seconds + 1) * seconds


def tidy(session: Session) -> None:
    """Delete links, visits, replies and counts that are over."""
    now = time.time()
    session.execute(delete(Link).where(Link.expires < now - VISIT_SECONDS))
    session.execute(delete(Visit).where(or_(Visit.expires < now, Visit.seen < now - IDLE_SECONDS)))
    session.execute(delete(Reply).where(Reply.created < now - REPLY_SECONDS))
    session.execute(delete(Attempt).where(Attempt.window < now))
