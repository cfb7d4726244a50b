"""Audit entries are sealed, and nothing replaces one"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

# REPLACE deletes the row that is there without the trigger of deletions.
SQLITE_GUARDS = [
    """
    CREATE TRIGGER audit_entry_no_replace BEFORE INSERT ON audit_entry
    WHEN EXISTS (SELECT 1 FROM audit_entry WHERE id = NEW.id)
    BEGIN SELECT RAISE(ABORT, 'audit entries are never replaced'); END
    """,
    """
    CREATE TRIGGER audit_seal_no_replace BEFORE INSERT ON audit_seal
    WHEN EXISTS (SELECT 1 FROM audit_seal WHERE id = NEW.id)
    BEGIN SELECT RAISE(ABORT, 'audit seals are never replaced'); END
    """,
    """
    CREATE TRIGGER audit_seal_no_update BEFORE UPDATE ON audit_seal
    BEGIN SELECT RAISE(ABORT, 'audit seals are never changed'); END
    """,
    """
    CREATE TRIGGER audit_seal_no_delete BEFORE DELETE ON audit_seal
    BEGIN SELECT RAISE(ABORT, 'audit seals are never deleted'); END
    """,
]
POSTGRESQL_GUARDS = [
    """
    CREATE TRIGGER audit_seal_no_change BEFORE UPDATE OR DELETE ON audit_seal
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change()
    """,
    """
    CREATE TRIGGER audit_seal_no_truncate BEFORE TRUNCATE ON audit_seal
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()
    """,
]


def upgrade() -> None:
    op.create_table(
        "audit_seal",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("first_id", ID, nullable=False),
        sa.Column("last_id", ID, nullable=False),
        sa.Column("gaps", sa.JSON(), nullable=False),
        sa.Column("previous", sa.String(), nullable=False),
        sa.Column("hmac", sa.String(), nullable=False),
        sa.Column("sealed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_seal")),
    )
    postgresql = op.get_bind().dialect.name == "postgresql"
    for statement in POSTGRESQL_GUARDS if postgresql else SQLITE_GUARDS:
        op.execute(statement)


def downgrade() -> None:
    raise NotImplementedError("the audit trail is never dropped; restore a backup instead")
