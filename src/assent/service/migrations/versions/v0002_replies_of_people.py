"""Whose an answer is that is kept for a repeated request, so that it goes when they are erased."""

import json
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
REPLY = sa.table(
    "reply", sa.column("key_id"), sa.column("idempotency_key"), sa.column("body"), sa.column("person")
)
PERSON = sa.table("person", sa.column("user"), sa.column("pseudonym"))


def upgrade() -> None:
    """Add the column, and fill it; answers of people who were erased are deleted."""
    op.add_column("reply", sa.Column("person", sa.String(length=64), nullable=True))
    op.create_index("ix_reply_person", "reply", ["person"], unique=False)
    there = op.get_bind()
    kept = there.execute(sa.select(REPLY).where(REPLY.c.body.like("%dpv:hasDataSubject%"))).all()
    for reply in kept:
        mine = sa.and_(REPLY.c.key_id == reply.key_id, REPLY.c.idempotency_key == reply.idempotency_key)
        owner = sa.select(PERSON.c.user).where(PERSON.c.pseudonym == pseudonym_of(json.loads(reply.body)))
        user = there.scalar(owner)
        if user is None:
            there.execute(sa.delete(REPLY).where(mine))
        else:
            person = sha256(user.encode("utf-8", "surrogatepass")).hexdigest()
            there.execute(sa.update(REPLY).where(mine).values(person=person))


def pseudonym_of(body: Any) -> str:
    """Return whom the receipts of an answer are of: all of one person."""
    subject: str = body["wishes"][0]["receipt"]["dpv:hasRecordOfActivity"]["dpv:hasDataSubject"][
        "dct:identifier"
    ]
    return subject
