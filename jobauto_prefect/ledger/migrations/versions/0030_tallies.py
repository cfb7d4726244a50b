"""Jobs and audit entries are counted as they are written"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

FILL = [
    """
    INSERT INTO job_tally (company_id, state, number)
    SELECT company_id, state, count(*) FROM job WHERE retired_at IS NULL GROUP BY company_id, state
    """,
    """
    INSERT INTO audit_tally (entity_type, number)
    SELECT entity_type, count(*) FROM audit_entry GROUP BY entity_type
    """,
]
SQLITE_TRIGGERS = [
    """
    CREATE TRIGGER job_tally_insert AFTER INSERT ON job WHEN NEW.retired_at IS NULL
    BEGIN
        INSERT INTO job_tally (company_id, state, number) VALUES (NEW.company_id, NEW.state, 1);
    END
    """,
    """
    CREATE TRIGGER job_tally_delete AFTER DELETE ON job WHEN OLD.retired_at IS NULL
    BEGIN
        INSERT INTO job_tally (company_id, state, number) VALUES (OLD.company_id, OLD.state, -1);
    END
    """,
    """
    CREATE TRIGGER job_tally_update AFTER UPDATE OF company_id, state, retired_at ON job
    WHEN OLD.company_id != NEW.company_id OR OLD.state != NEW.state
        OR (OLD.retired_at IS NULL) != (NEW.retired_at IS NULL)
    BEGIN
        INSERT INTO job_tally (company_id, state, number)
        SELECT OLD.company_id, OLD.state, -1 WHERE OLD.retired_at IS NULL
        UNION ALL SELECT NEW.company_id, NEW.state, 1 WHERE NEW.retired_at IS NULL;
    END
    """,
    """
    CREATE TRIGGER audit_tally_insert AFTER INSERT ON audit_entry
    BEGIN INSERT INTO audit_tally (entity_type, number) VALUES (NEW.entity_type, 1); END
    """,
    """
    CREATE TRIGGER audit_tally_delete AFTER DELETE ON audit_entry
    BEGIN INSERT INTO audit_tally (entity_type, number) VALUES (OLD.entity_type, -1); END
    """,
]
POSTGRESQL_TRIGGERS = [
    """
    CREATE FUNCTION tally_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO job_tally (company_id, state, number)
        SELECT company_id, state, TG_ARGV[0]::integer * count(*) FROM changed
        WHERE retired_at IS NULL GROUP BY company_id, state;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER job_tally_insert AFTER INSERT ON job REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION tally_jobs('1')
    """,
    """
    CREATE TRIGGER job_tally_delete AFTER DELETE ON job REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION tally_jobs('-1')
    """,
    """
    CREATE FUNCTION tally_changed_job() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO job_tally (company_id, state, number)
        SELECT OLD.company_id, OLD.state, -1 WHERE OLD.retired_at IS NULL
        UNION ALL SELECT NEW.company_id, NEW.state, 1 WHERE NEW.retired_at IS NULL;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER job_tally_update AFTER UPDATE OF company_id, state, retired_at ON job
    FOR EACH ROW WHEN (OLD.company_id != NEW.company_id OR OLD.state != NEW.state
        OR (OLD.retired_at IS NULL) != (NEW.retired_at IS NULL))
    EXECUTE FUNCTION tally_changed_job()
    """,
    """
    CREATE FUNCTION tally_audit_entries() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO audit_tally (entity_type, number)
        SELECT entity_type, TG_ARGV[0]::integer * count(*) FROM changed GROUP BY entity_type;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER audit_tally_insert AFTER INSERT ON audit_entry
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION tally_audit_entries('1')
    """,
    """
    CREATE TRIGGER audit_tally_delete AFTER DELETE ON audit_entry
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION tally_audit_entries('-1')
    """,
]


def upgrade() -> None:
    company = sa.Column("company_id", sa.Integer(), nullable=False)
    state, entity_type = (
        sa.Column(name, sa.String(), nullable=False) for name in ("state", "entity_type")
    )
    for table, columns in (("job_tally", [company, state]), ("audit_tally", [entity_type])):
        op.create_table(
            table,
            sa.Column("id", ID, nullable=False),
            *columns,
            sa.Column("number", ID, nullable=False),
            sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
        )
    postgresql = op.get_bind().dialect.name == "postgresql"
    # With its trigger a table is locked against others who write, before its rows are counted.
    for statement in [*(POSTGRESQL_TRIGGERS if postgresql else SQLITE_TRIGGERS), *FILL]:
        op.execute(statement)


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
