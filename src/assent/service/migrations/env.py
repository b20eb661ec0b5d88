"""What Alembic runs migrations in: the connection and the transaction of whoever asks for them."""

from alembic import context

from assent.service.tables import Table

context.configure(connection=context.config.attributes["connection"], target_metadata=Table.metadata)
context.run_migrations()
