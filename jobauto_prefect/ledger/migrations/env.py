"""Alembic's entry point: runs the migrations on the given connection."""

from alembic import context

from jobauto_prefect.ledger import records

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=records.App.metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
