"""The tables of the first release, and the triggers that keep the ledger append-only."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
LEDGER = ("leaf", "seal")
REFUSED = "the ledger is append-only"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "attempt",
        sa.Column("bucket", sa.String(length=80), nullable=False),
        sa.Column("window", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("bucket", "window", name="pk_attempt"),
    )
    op.create_table(
        "item",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_item"),
        sa.UniqueConstraint("item", name="uq_item_item"),
    )
    op.create_table(
        "job",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("payload", JSON, nullable=False),
        sa.Column("merge", sa.Text(), nullable=True),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("run_after", sa.Double(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("most_attempts", sa.Integer(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.Double(), nullable=True),
        sa.Column("started", sa.Double(), nullable=True),
        sa.Column("finished", sa.Double(), nullable=True),
        sa.Column("progress", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("result", JSON, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_job"),
    )
    op.create_index("ix_job_state", "job", ["state", "run_after", "id"], unique=False)
    op.create_index(
        "uq_job_queued",
        "job",
        ["merge"],
        unique=True,
        sqlite_where=sa.text("state = 'queued'"),
        postgresql_where=sa.text("state = 'queued'"),
    )
    op.create_table(
        "key",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=True),
        sa.Column("revoked", sa.Double(), nullable=True),
        sa.Column("last_used", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_key"),
    )
    op.create_table(
        "leaf",
        sa.Column("number", NUMBER, autoincrement=False, nullable=False),
        sa.Column("at", sa.String(length=27), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_leaf"),
    )
    op.create_table(
        "link",
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.Column("used", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("token_hash", name="pk_link"),
    )
    op.create_index("ix_link_person", "link", ["person"], unique=False)
    op.create_table(
        "meta",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_meta"),
    )
    op.create_table(
        "person",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("pseudonym", sa.String(length=36), nullable=False),
        sa.Column("added", sa.Double(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_person"),
        sa.UniqueConstraint("pseudonym", name="uq_person_pseudonym"),
        sa.UniqueConstraint("user", name="uq_person_user"),
    )
    op.create_table(
        "reply",
        sa.Column("key_id", sa.String(length=80), nullable=False),
        sa.Column("idempotency_key", sa.String(length=255), nullable=False),
        sa.Column("request_hash", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key_id", "idempotency_key", name="pk_reply"),
    )
    op.create_table(
        "seal",
        sa.Column("number", NUMBER, autoincrement=False, nullable=False),
        sa.Column("first", NUMBER, nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("at", sa.String(length=27), nullable=False),
        sa.Column("root", sa.String(length=64), nullable=False),
        sa.Column("head", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_seal"),
        sa.UniqueConstraint("first", name="uq_seal_first"),
        sa.UniqueConstraint("head", name="uq_seal_head"),
    )
    op.create_table(
        "interaction",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("person_id", NUMBER, nullable=False),
        sa.Column("item_id", NUMBER, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("unwillingness", sa.Double(), nullable=True),
        sa.Column("added", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["item_id"], ["item.id"], name="fk_interaction_item_id"),
        sa.ForeignKeyConstraint(
            ["person_id"], ["person.id"], name="fk_interaction_person_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_interaction"),
        sa.UniqueConstraint("person_id", "item_id", name="uq_interaction_person_id_item_id"),
    )
    op.create_index("ix_interaction_item_id", "interaction", ["item_id"], unique=False)
    op.create_index("ix_interaction_person_at", "interaction", ["person_id", "at", "id"], unique=False)
    op.create_table(
        "item_category",
        sa.Column("item_id", NUMBER, nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["item_id"], ["item.id"], name="fk_item_category_item_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("item_id", "place", name="pk_item_category"),
    )
    op.create_index("ix_item_category_category", "item_category", ["category"], unique=False)
    op.create_table(
        "model",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("job_id", NUMBER, nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("parent_id", NUMBER, nullable=True),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("manifest_hash", sa.String(length=64), nullable=False),
        sa.Column("model_hash", sa.String(length=64), nullable=False),
        sa.Column("decisions_hash", sa.String(length=64), nullable=False),
        sa.Column("upto", sa.BigInteger(), nullable=False),
        sa.Column("trained_upto", sa.BigInteger(), nullable=False),
        sa.Column("facts", JSON, nullable=False),
        sa.Column("pruned", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_model_job_id"),
        sa.ForeignKeyConstraint(["parent_id"], ["model.id"], name="fk_model_parent_id"),
        sa.PrimaryKeyConstraint("id", name="pk_model"),
        sa.UniqueConstraint("folder", name="uq_model_folder"),
        sa.UniqueConstraint("job_id", name="uq_model_job_id"),
    )
    op.create_table(
        "visit",
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("person", sa.Text(), nullable=True),
        sa.Column("key_id", sa.String(length=32), nullable=True),
        sa.Column("csrf", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("seen", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["key.id"], name="fk_visit_key_id"),
        sa.PrimaryKeyConstraint("token_hash", name="pk_visit"),
    )
    op.create_index("ix_visit_person", "visit", ["person"], unique=False)
    op.create_table(
        "decision",
        sa.Column("model_id", NUMBER, nullable=False),
        sa.Column("person_id", NUMBER, nullable=False),
        sa.Column("item_id", NUMBER, nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("unwillingness", sa.Double(), nullable=False),
        sa.Column("reason", sa.String(length=12), nullable=True),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("cost", sa.Double(), nullable=True),
        sa.Column("price", sa.Double(), nullable=True),
        sa.Column("worth_owner", sa.Double(), nullable=True),
        sa.Column("worth_everybody", sa.Double(), nullable=True),
        sa.Column("together", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["item_id"], ["item.id"], name="fk_decision_item_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["model_id"], ["model.id"], name="fk_decision_model_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["person_id"], ["person.id"], name="fk_decision_person_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("model_id", "person_id", "item_id", name="pk_decision"),
    )
    op.create_index("ix_decision_person_id", "decision", ["person_id"], unique=False)
    op.create_table(
        "publication",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("model_id", NUMBER, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["model.id"], name="fk_publication_model_id"),
        sa.PrimaryKeyConstraint("id", name="pk_publication"),
    )
    op.create_table(
        "wish",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("person_id", NUMBER, nullable=False),
        sa.Column("scope", sa.String(length=10), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("unwillingness", sa.Double(), nullable=True),
        sa.Column("withdrawal", sa.Boolean(), nullable=False),
        sa.Column("before", sa.Double(), nullable=True),
        sa.Column("in_force", sa.Boolean(), nullable=False),
        sa.Column("requested", sa.Double(), nullable=False),
        sa.Column("decided", sa.Double(), nullable=True),
        sa.Column("trained", sa.Double(), nullable=True),
        sa.Column("served", sa.Double(), nullable=True),
        sa.Column("model_id", NUMBER, nullable=True),
        sa.ForeignKeyConstraint(["model_id"], ["model.id"], name="fk_wish_model_id"),
        sa.ForeignKeyConstraint(["person_id"], ["person.id"], name="fk_wish_person_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_wish"),
    )
    op.create_index(
        "ix_wish_open",
        "wish",
        ["id"],
        unique=False,
        sqlite_where=sa.text("served IS NULL"),
        postgresql_where=sa.text("served IS NULL"),
    )
    op.create_index("ix_wish_person_id", "wish", ["person_id", "id"], unique=False)
    op.create_index(
        "uq_wish_in_force",
        "wish",
        ["person_id", "scope", "target"],
        unique=True,
        sqlite_where=sa.text("in_force"),
        postgresql_where=sa.text("in_force"),
    )
    op.create_table(
        "receipt",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("leaf", NUMBER, nullable=False),
        sa.Column("person_id", NUMBER, nullable=False),
        sa.Column("wish_id", NUMBER, nullable=True),
        sa.Column("state", sa.String(length=12), nullable=False),
        sa.Column("salt", sa.String(length=64), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["person_id"], ["person.id"], name="fk_receipt_person_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["wish_id"], ["wish.id"], name="fk_receipt_wish_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_receipt"),
        sa.UniqueConstraint("leaf", name="uq_receipt_leaf"),
    )
    op.create_index("ix_receipt_person_leaf", "receipt", ["person_id", "leaf"], unique=False)
    op.create_index("ix_receipt_wish_id", "receipt", ["wish_id"], unique=False)
    if op.get_bind().dialect.name == "sqlite":
        _guard_sqlite()
    else:
        _guard_postgresql()


def _guard_sqlite() -> None:
    for table in LEDGER:
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END"
            )
        # INSERT OR REPLACE would delete a row without asking the trigger for that.
        op.execute(
            f"CREATE TRIGGER {table}_in_order BEFORE INSERT ON {table} "
            f"WHEN NEW.number <> (SELECT coalesce(max(number) + 1, 0) FROM {table}) "
            f"BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END"
        )


def _guard_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION assent_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{REFUSED}'; END $$"
    )
    for table in LEDGER:
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION assent_append_only()"
        )
