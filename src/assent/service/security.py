"""Who may come in: platform keys, one-time personal links, visits (sessions in a browser), limits on attempts.

Secrets have 256 random bits and only their SHA-256 is stored, so that a copy of the database lets nobody in.
A slow password hash would add nothing: there is nothing to guess. Secrets are compared in constant time.
"""

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass
from typing import Final, cast

from sqlalchemy import CursorResult, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from assent.service.tables import Attempt, Key, Link, Reply, Visit
from assent.support.errors import AssentError

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
"""What a key may be for. `admin` manages keys and opens the operator's pages; it allows nothing else."""

PERSON: Final = "person"
OPERATOR: Final = "operator"

LINK_SECONDS: Final = 15 * 60
IDLE_SECONDS: Final = 30 * 60
VISIT_SECONDS: Final = 12 * 3600
OVERLAP_SECONDS: Final = 3600
"""How long a rotated key goes on beside its successor."""
REPLY_SECONDS: Final = 24 * 3600
_SEEN_SECONDS: Final = 60
"""How often the last use of a key or visit is noted at most."""
_KEY = re.compile(r"assent_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_NO_HASH: Final = "0" * 64


class Refused(AssentError):
    """No key, visit or link, or one that does not count (any more): whoever asks is nobody."""


class NotAllowed(AssentError):
    """Whoever asks is known, and may not do this."""


class TooMany(AssentError):
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

    def check(self, scope: str) -> None:
        """Refuse what the key is not for."""
        if scope not in self.scopes:
            raise NotAllowed(f"this key is not for {scope}: accepted: a key with the scope {scope}")


@dataclass(frozen=True)
class Visitor:
    """A person or an operator in a browser."""

    kind: str
    person: str | None
    key_id: str | None
    csrf: str
    token_hash: str


def hashed(secret: str) -> str:
    """Return what is stored of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def same(one: str, other: str) -> bool:
    """Whether two secrets are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


# Keys


def make_key(
    session: Session, name: str, scopes: frozenset[str], *, seconds: float | None = None
) -> tuple[Key, str]:
    """Store a new key and return it with its text, which is shown once and not kept."""
    if wrong := sorted(scopes - set(SCOPES)):
        raise AssentError(f"scopes={wrong[0]!r}: accepted: {', '.join(SCOPES)}")
    if not scopes:
        raise AssentError(f"scopes: a key is for something: accepted: {', '.join(SCOPES)}")
    now, secret = time.time(), secrets.token_urlsafe(32)
    key = Key(
        id=secrets.token_hex(6),
        name=name,
        scopes=" ".join(sorted(scopes)),
        secret_hash=hashed(secret),
        created=now,
        expires=None if seconds is None else now + seconds,
    )
    session.add(key)
    session.flush()
    return key, f"assent_{key.id}_{secret}"


def check_key(session: Session, text: str) -> KeyHolder:
    """Return who shows the key `text`; refuse what is unknown, expired or revoked."""
    parts, now = _KEY.fullmatch(text), time.time()
    key = session.get(Key, parts[1]) if parts else None
    # An unknown id takes as long as a wrong secret.
    fits = same(hashed(parts[2] if parts else text), key.secret_hash if key else _NO_HASH)
    if key is None or not fits or not _in_force(key, now):
        raise Refused("this key is unknown, expired or revoked: accepted: a key of this service")
    if key.last_used is None or key.last_used < now - _SEEN_SECONDS:
        key.last_used = now
    return KeyHolder(key.id, key.name, frozenset(key.scopes.split()))


def _in_force(key: Key, now: float) -> bool:
    return key.revoked is None and (key.expires is None or key.expires > now)


def list_keys(session: Session) -> list[Key]:
    """Return all keys, the newest first."""
    return list(session.scalars(select(Key).order_by(Key.created.desc(), Key.id)))


def find_key(session: Session, key_id: str) -> Key | None:
    """Return the key with this public part, also one that is no longer in force."""
    return session.get(Key, key_id)


def rotate_key(session: Session, key: Key, *, overlap: float = OVERLAP_SECONDS) -> tuple[Key, str]:
    """Store a key with the same name and scopes; the old one ends after `overlap` seconds."""
    now = time.time()
    if not _in_force(key, now):
        raise AssentError("this key is expired or revoked: accepted: a key in force")
    found = make_key(session, key.name, frozenset(key.scopes.split()))
    key.expires = min(key.expires or now + overlap, now + overlap)
    return found


def revoke_key(session: Session, key: Key) -> None:
    """End a key and the visits of operators that it let in. A revoked key stays revoked."""
    key.revoked = key.revoked or time.time()
    session.execute(delete(Visit).where(Visit.key_id == key.id))


# Links


def make_link(session: Session, person: str, *, seconds: float = LINK_SECONDS) -> tuple[str, float]:
    """Return the secret of a new one-time link for a person, and when it ends."""
    now, secret = time.time(), secrets.token_urlsafe(32)
    session.add(Link(token_hash=hashed(secret), person=person, created=now, expires=now + seconds))
    return secret, now + seconds


def use_link(session: Session, secret: str) -> str:
    """Use up a link and return whose it was. Of several that try at once, one succeeds."""
    now = time.time()
    mine = (Link.token_hash == hashed(secret), Link.used.is_(None), Link.expires > now)
    used = cast("CursorResult[None]", session.execute(update(Link).where(*mine).values(used=now)))
    if not _TOKEN.fullmatch(secret) or used.rowcount != 1:
        raise Refused("this link is unknown, used or too old: accepted: a new link from the platform")
    return session.scalars(select(Link.person).where(Link.token_hash == hashed(secret))).one()


# Visits


def start_visit(session: Session, *, person: str | None = None, key_id: str | None = None) -> str:
    """Begin the visit of a person, or of the operator with a key, and return the cookie's secret."""
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
    now = time.time()
    visit = session.get(Visit, hashed(secret))
    if visit is None or visit.expires < now or visit.seen < now - IDLE_SECONDS:
        return None
    if visit.key_id is not None:
        key = session.get(Key, visit.key_id)
        if key is None or not _in_force(key, now):
            return None
    if visit.seen < now - _SEEN_SECONDS:
        visit.seen = now
    return Visitor(visit.kind, visit.person, visit.key_id, visit.csrf, visit.token_hash)


def end_visit(session: Session, visitor: Visitor) -> None:
    """End a visit at once, in all processes."""
    session.execute(delete(Visit).where(Visit.token_hash == visitor.token_hash))


# Limits


def count_attempt(session: Session, who: str, *, most: int, seconds: int) -> None:
    """Count an attempt of `who` (what is tried, and by whom); refuse more than `most` in `seconds`.

    The count is in the database, so that it holds over all web processes. `who` is stored as a hash.
    """
    window = _window(seconds)
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    row = insert(Attempt).values(bucket=hashed(f"{seconds} {who}"), window=window, count=1)
    counted = session.execute(
        row.on_conflict_do_update(
            index_elements=[Attempt.bucket, Attempt.window], set_={"count": Attempt.count + 1}
        ).returning(Attempt.count)
    ).scalar_one()
    if counted > most:
        raise too_many(seconds)


def has_attempts(session: Session, who: str, *, most: int, seconds: int) -> bool:
    """Whether `who` has used up their attempts."""
    bucket, window = hashed(f"{seconds} {who}"), _window(seconds)
    found = session.scalar(select(Attempt.count).where(Attempt.bucket == bucket, Attempt.window == window))
    return (found or 0) >= most


def too_many(seconds: int) -> TooMany:
    """Return the refusal that says when the window of `seconds` is over."""
    return TooMany("too many attempts: accepted: fewer of them", max(1, _window(seconds) - int(time.time())))


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
