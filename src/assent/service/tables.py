"""The tables of the service. Moments are seconds since 1970 in UTC; people and items have the platform's ids.

- what is known: Person, Item, ItemCategory, Interaction
- all that people said, where `in_force` marks what counts now: Wish
- the ledger, its events, their seals, and what only their owners hold: Leaf, Seal, Receipt
- what workers do, what they made, and what is in service: Job, Model, Decision, Publication
- who may come in: Key, Link, Visit, Reply, Attempt
- facts about this database: Meta
"""

from typing import Annotated, Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

Json = JSON().with_variant(JSONB(), "postgresql")
Number = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite counts rows by themselves only in a column of the type INTEGER."""

Id = Annotated[int, mapped_column(Number, primary_key=True)]
Moment = Annotated[float, mapped_column(Double)]
Digest = Annotated[str, mapped_column(String(64))]


class Table(DeclarativeBase):
    """What all tables have in common."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class Meta(Table):
    """A fact about this database, such as the id of its ledger."""

    __tablename__ = "meta"
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    value: Mapped[str] = mapped_column(Text)


class Person(Table):
    """Somebody with interactions or wishes."""

    __tablename__ = "person"
    id: Mapped[Id]
    user: Mapped[str] = mapped_column(Text, unique=True)
    """The platform's id."""
    pseudonym: Mapped[str] = mapped_column(String(36), unique=True)
    """A random UUID, for receipts."""
    added: Mapped[Moment]
    version: Mapped[int] = mapped_column(BigInteger, default=0)
    """Counts changes of the person's interactions and wishes: what was made of an older one is stale."""


class Item(Table):
    """Something that people interact with."""

    __tablename__ = "item"
    id: Mapped[Id]
    item: Mapped[str] = mapped_column(Text, unique=True)
    """The platform's id."""
    title: Mapped[str | None] = mapped_column(Text)


class ItemCategory(Table):
    """One category of an item."""

    __tablename__ = "item_category"
    item_id: Mapped[int] = mapped_column(ForeignKey("item.id", ondelete="CASCADE"), primary_key=True)
    place: Mapped[int] = mapped_column(Integer, primary_key=True)
    """The order in which the platform named them, from 0."""
    category: Mapped[str] = mapped_column(Text, index=True)


class Interaction(Table):
    """A person had an item."""

    __tablename__ = "interaction"
    __table_args__ = (
        UniqueConstraint("person_id", "item_id"),
        Index("ix_interaction_person_at", "person_id", "at", "id"),
    )
    id: Mapped[Id]
    person_id: Mapped[int] = mapped_column(ForeignKey("person.id", ondelete="CASCADE"))
    item_id: Mapped[int] = mapped_column(ForeignKey("item.id"), index=True)
    at: Mapped[Moment]
    """When they had it."""
    unwillingness: Mapped[float | None] = mapped_column(Double)
    """What the platform brought of its owner's consent; null if nothing."""
    kept: Mapped[float | None] = mapped_column(Double)
    """What was in force when the platform changed the item's categories: no less counts since (`items`)."""
    kept_upto: Mapped[int | None] = mapped_column(BigInteger)
    """The ledger's last leaf by then: what is said later comes before it."""
    kept_category: Mapped[str | None] = mapped_column(Text)
    """The category that it was said of, if it was one."""
    added: Mapped[Moment]


class Wish(Table):
    """Something that a person said. Rows are kept; what is no longer in force is history."""

    __tablename__ = "wish"
    __table_args__ = (
        Index(
            "uq_wish_in_force",
            "person_id",
            "scope",
            "target",
            unique=True,
            sqlite_where=text("in_force"),
            postgresql_where=text("in_force"),
        ),
        Index("ix_wish_person_id", "person_id", "id"),
        Index(
            "ix_wish_open", "id", sqlite_where=text("served IS NULL"), postgresql_where=text("served IS NULL")
        ),
    )
    id: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=False)
    """The number of the ledger's leaf that says it was requested: rises in the order of commits."""
    person_id: Mapped[int] = mapped_column(ForeignKey("person.id", ondelete="CASCADE"))
    scope: Mapped[str] = mapped_column(String(10))
    """`item`, `category` or `everything`."""
    target: Mapped[str] = mapped_column(Text)
    """The item's id, the category's name, or nothing."""
    unwillingness: Mapped[float | None] = mapped_column(Double)
    """From 0 to 1; null takes back what was said of the target."""
    withdrawal: Mapped[bool] = mapped_column(default=False)
    """Everything is never used, and nothing that was said before counts."""
    before: Mapped[float | None] = mapped_column(Double)
    """What was in force for the target when this was said."""
    in_force: Mapped[bool]
    requested: Mapped[Moment]
    decided: Mapped[float | None] = mapped_column(Double)
    trained: Mapped[float | None] = mapped_column(Double)
    served: Mapped[float | None] = mapped_column(Double)
    model_id: Mapped[int | None] = mapped_column(ForeignKey("model.id"))
    """The first model that was trained as this asks."""


class Leaf(Table):
    """One event, without personal data. Append-only."""

    __tablename__ = "leaf"
    number: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=False)
    """From 0 on without gaps."""
    at: Mapped[str] = mapped_column(String(27))
    """UTC, to the microsecond."""
    event: Mapped[str] = mapped_column(Text)
    digest: Mapped[Digest]
    """The salted hash of a receipt; of an event that has none, of nothing."""
    facts: Mapped[str] = mapped_column(Text)
    """Canonical JSON about the event, that anybody may read."""


class Seal(Table):
    """A batch of leaves: the root of their Merkle tree, chained to the seal before. Append-only."""

    __tablename__ = "seal"
    number: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=False)
    first: Mapped[int] = mapped_column(Number, unique=True)
    """The number of its first leaf."""
    count: Mapped[int] = mapped_column(Integer)
    at: Mapped[str] = mapped_column(String(27))
    root: Mapped[Digest]
    head: Mapped[Digest] = mapped_column(String(64), unique=True)


class Receipt(Table):
    """What links a leaf to a person: its salt and content. Goes when its owner is erased."""

    __tablename__ = "receipt"
    __table_args__ = (Index("ix_receipt_person_leaf", "person_id", "leaf"),)
    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    """A random UUID."""
    leaf: Mapped[int] = mapped_column(Number, unique=True)
    person_id: Mapped[int] = mapped_column(ForeignKey("person.id", ondelete="CASCADE"))
    wish_id: Mapped[int | None] = mapped_column(ForeignKey("wish.id", ondelete="CASCADE"), index=True)
    state: Mapped[str] = mapped_column(String(12))
    """`requested`, `decided`, `trained` or `served`."""
    salt: Mapped[Digest]
    content: Mapped[str] = mapped_column(Text)
    """Canonical JSON: the consent record whose salted hash the leaf has."""


class Job(Table):
    """Work for a worker."""

    __tablename__ = "job"
    __table_args__ = (
        Index("ix_job_state", "state", "run_after", "id"),
        Index(
            "uq_job_queued",
            "merge",
            unique=True,
            sqlite_where=text("state = 'queued'"),
            postgresql_where=text("state = 'queued'"),
        ),
    )
    id: Mapped[Id]
    kind: Mapped[str] = mapped_column(String(16))
    payload: Mapped[dict[str, Any]] = mapped_column(Json)
    merge: Mapped[str | None] = mapped_column(Text)
    """Of queued jobs with the same text here there is one: asking again finds it."""
    state: Mapped[str] = mapped_column(String(8), default="queued")
    """`queued`, `running`, `done` or `failed`."""
    created: Mapped[Moment]
    run_after: Mapped[Moment]
    attempts: Mapped[int] = mapped_column(Integer, default=0)
    most_attempts: Mapped[int] = mapped_column(Integer)
    token: Mapped[int] = mapped_column(BigInteger, default=0)
    """Rises whenever a worker takes the job: results of an earlier holder are refused."""
    worker: Mapped[str | None] = mapped_column(Text)
    lease_until: Mapped[float | None] = mapped_column(Double)
    started: Mapped[float | None] = mapped_column(Double)
    finished: Mapped[float | None] = mapped_column(Double)
    progress: Mapped[str | None] = mapped_column(Text)
    error: Mapped[str | None] = mapped_column(Text)
    result: Mapped[dict[str, Any] | None] = mapped_column(Json)


class Model(Table):
    """A trained model: a whole run folder on disk."""

    __tablename__ = "model"
    id: Mapped[Id]
    job_id: Mapped[int | None] = mapped_column(ForeignKey("job.id"), unique=True)
    created: Mapped[Moment]
    kind: Mapped[str] = mapped_column(String(16))
    """`train`: all was measured, decided, trained. `update`: values, and settings or items' vectors, are of
    `parent_id`."""
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("model.id"))
    folder: Mapped[str] = mapped_column(Text, unique=True)
    """Its name within the service's folder of runs."""
    manifest_hash: Mapped[Digest]
    model_hash: Mapped[Digest]
    decisions_hash: Mapped[Digest]
    upto: Mapped[int] = mapped_column(BigInteger)
    """The ledger's last leaf when the log was read: wishes up to here are decided on."""
    trained_upto: Mapped[int] = mapped_column(BigInteger)
    """The same when all vectors were trained: wishes up to here are honoured by every one of them."""
    facts: Mapped[dict[str, Any]] = mapped_column(Json)
    """Figures for operators: counts, violation, quality, operating point, frontier."""
    pruned: Mapped[float | None] = mapped_column(Double)
    """When its run folder and its decisions were deleted."""


class Decision(Table):
    """What a model's run decided on one interaction."""

    __tablename__ = "decision"
    model_id: Mapped[int] = mapped_column(ForeignKey("model.id", ondelete="CASCADE"), primary_key=True)
    person_id: Mapped[int] = mapped_column(
        ForeignKey("person.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    item_id: Mapped[int] = mapped_column(ForeignKey("item.id", ondelete="CASCADE"), primary_key=True)
    state: Mapped[str] = mapped_column(String(8))
    """`used`, `withheld`, `never` or `closed`."""
    unwillingness: Mapped[float] = mapped_column(Double)
    """When it was decided."""
    reason: Mapped[str | None] = mapped_column(String(12))
    """One of `assent.game.reasons.Reason`; null for never and closed."""
    value: Mapped[float | None] = mapped_column(Double)
    cost: Mapped[float | None] = mapped_column(Double)
    price: Mapped[float | None] = mapped_column(Double)
    """Its break-even price; what one unit of unwillingness cost is in the facts of the model."""
    worth_owner: Mapped[float | None] = mapped_column(Double)
    worth_everybody: Mapped[float | None] = mapped_column(Double)
    together: Mapped[int | None] = mapped_column(Integer)


class Publication(Table):
    """A model went into service; the last one is in service."""

    __tablename__ = "publication"
    id: Mapped[Id]
    model_id: Mapped[int] = mapped_column(ForeignKey("model.id"))
    at: Mapped[Moment]
    by: Mapped[str] = mapped_column(Text)
    """The name of the key, or `worker`."""


class Key(Table):
    """A platform's key."""

    __tablename__ = "key"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    """Its public part."""
    name: Mapped[str] = mapped_column(Text)
    scopes: Mapped[str] = mapped_column(Text)
    """Separated by spaces."""
    secret_hash: Mapped[Digest]
    created: Mapped[Moment]
    expires: Mapped[float | None] = mapped_column(Double)
    revoked: Mapped[float | None] = mapped_column(Double)
    last_used: Mapped[float | None] = mapped_column(Double)


class Link(Table):
    """A one-time personal link."""

    __tablename__ = "link"
    token_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    person: Mapped[str] = mapped_column(Text, index=True)
    key_id: Mapped[str | None] = mapped_column(ForeignKey("key.id"))
    """Who asked for it. It, and the visit that it opens, end when this key is revoked."""
    created: Mapped[Moment]
    expires: Mapped[Moment]
    used: Mapped[float | None] = mapped_column(Double)


class Visit(Table):
    """A session in a browser, of a person or an operator."""

    __tablename__ = "visit"
    token_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    kind: Mapped[str] = mapped_column(String(8))
    """`person` or `operator`."""
    person: Mapped[str | None] = mapped_column(Text, index=True)
    key_id: Mapped[str | None] = mapped_column(ForeignKey("key.id"))
    csrf: Mapped[str] = mapped_column(Text)
    created: Mapped[Moment]
    seen: Mapped[Moment]
    expires: Mapped[Moment]


class Reply(Table):
    """The answer to a request with an idempotency key, to be given again."""

    __tablename__ = "reply"
    key_id: Mapped[str] = mapped_column(String(80), primary_key=True)
    """Whose request: a key's id, or a visit's."""
    idempotency_key: Mapped[str] = mapped_column(String(255), primary_key=True)
    request_hash: Mapped[Digest]
    status: Mapped[int | None] = mapped_column(Integer)
    """Null while the request is under way."""
    body: Mapped[str | None] = mapped_column(Text)
    person: Mapped[str | None] = mapped_column(String(64), index=True)
    """A hash of the platform's id of whom the answer is about: it goes when they are erased."""
    created: Mapped[Moment]


class Attempt(Table):
    """How often something limited was tried in a window of time."""

    __tablename__ = "attempt"
    bucket: Mapped[str] = mapped_column(String(80), primary_key=True)
    """A hash of who tried what."""
    window: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    count: Mapped[int] = mapped_column(Integer)
