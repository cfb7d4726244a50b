"""Whole months of the audit trail may leave it, once an archive has them"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

SQLITE_GUARDS = [
    "DROP TRIGGER audit_entry_no_delete",
    """
    CREATE TRIGGER audit_entry_no_delete BEFORE DELETE ON audit_entry
    WHEN NOT EXISTS (SELECT 1 FROM audit_archive WHERE OLD.id BETWEEN first_id AND last_id)
    BEGIN SELECT RAISE(ABORT, 'audit entries are never deleted'); END
    """,
    "DROP TRIGGER audit_seal_no_delete",
    """
    CREATE TRIGGER audit_seal_no_delete BEFORE DELETE ON audit_seal
    WHEN NOT EXISTS (SELECT 1 FROM audit_archive WHERE OLD.id BETWEEN first_seal AND last_seal)
    BEGIN SELECT RAISE(ABORT, 'audit seals are never deleted'); END
    """,
    """
    CREATE TRIGGER audit_archive_no_replace BEFORE INSERT ON audit_archive
    WHEN EXISTS (SELECT 1 FROM audit_archive WHERE id = NEW.id)
    BEGIN SELECT RAISE(ABORT, 'audit archives are never replaced'); END
    """,
    """
    CREATE TRIGGER audit_archive_no_update BEFORE UPDATE ON audit_archive
    BEGIN SELECT RAISE(ABORT, 'audit archives are never changed'); END
    """,
    """
    CREATE TRIGGER audit_archive_no_delete BEFORE DELETE ON audit_archive
    BEGIN SELECT RAISE(ABORT, 'audit archives are never deleted'); END
    """,
]
POSTGRESQL_GUARDS = [
    """
    CREATE FUNCTION refuse_audit_loss() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NOT pg_has_role(
            session_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'MEMBER'
        ) THEN
            RAISE EXCEPTION 'audit entries leave only by the owner of the database';
        END IF;
        IF TG_TABLE_NAME = 'audit_entry' THEN
            PERFORM FROM audit_archive WHERE OLD.id BETWEEN first_id AND last_id;
        ELSE
            PERFORM FROM audit_archive WHERE OLD.id BETWEEN first_seal AND last_seal;
        END IF;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'audit entries are never changed, deleted or truncated';
        END IF;
        RETURN OLD;
    END $$
    """,
    "DROP TRIGGER audit_entry_no_change ON audit_entry",
    """
    CREATE TRIGGER audit_entry_no_change BEFORE UPDATE ON audit_entry
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change()
    """,
    """
    CREATE TRIGGER audit_entry_no_loss BEFORE DELETE ON audit_entry
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_loss()
    """,
    "DROP TRIGGER audit_seal_no_change ON audit_seal",
    """
    CREATE TRIGGER audit_seal_no_change BEFORE UPDATE ON audit_seal
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change()
    """,
    """
    CREATE TRIGGER audit_seal_no_loss BEFORE DELETE ON audit_seal
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_loss()
    """,
    """
    CREATE TRIGGER audit_archive_no_change BEFORE UPDATE OR DELETE ON audit_archive
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change()
    """,
    """
    CREATE TRIGGER audit_archive_no_truncate BEFORE TRUNCATE ON audit_archive
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()
    """,
]


def upgrade() -> None:
    op.create_table(
        "audit_archive",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("month", sa.String(), nullable=False),
        *(
            sa.Column(name, ID, nullable=False)
            for name in ("first_seal", "last_seal", "first_id", "last_id", "entries")
        ),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("digest", "seal", "hmac")),
        sa.Column("archived_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_archive")),
    )
    postgresql = op.get_bind().dialect.name == "postgresql"
    for statement in POSTGRESQL_GUARDS if postgresql else SQLITE_GUARDS:
        op.execute(statement)


def downgrade() -> None:
    raise NotImplementedError("the audit trail is never dropped; restore a backup instead")
