"""What is kept of an interaction whose item changed categories; the key that asked for a link."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns. Links that were made before belong to no key."""
    op.add_column("interaction", sa.Column("kept", sa.Double(), nullable=True))
    op.add_column("interaction", sa.Column("kept_upto", sa.BigInteger(), nullable=True))
    op.add_column("interaction", sa.Column("kept_category", sa.Text(), nullable=True))
    with op.batch_alter_table("link") as link:
        link.add_column(sa.Column("key_id", sa.String(length=32), nullable=True))
        link.create_foreign_key("fk_link_key_id", "key", ["key_id"], ["id"])
