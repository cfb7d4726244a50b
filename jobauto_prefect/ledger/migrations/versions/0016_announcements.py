"""PostgreSQL announces what others in the installation wait for"""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

ANNOUNCE = """
CREATE FUNCTION announce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('jobauto', TG_ARGV[0]);
    RETURN NULL;
END $$
"""
ROWS = """
CREATE TRIGGER wish_announced AFTER INSERT ON wish
FOR EACH ROW WHEN (NEW.taken_until IS NULL) EXECUTE FUNCTION announce('outbox')
"""
WINDOWS = """
CREATE TRIGGER runtemplate_announced AFTER INSERT OR UPDATE OF next_schedule ON runtemplate
FOR EACH ROW WHEN (NEW.next_schedule IS NOT NULL) EXECUTE FUNCTION announce('windows')
"""
TABLES = {"event": "events", "owed_action": "actions"}
RIGHTS = ("token", '"user"', "user_role", "company_user")


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute(ANNOUNCE)
    op.execute(ROWS)
    op.execute(WINDOWS)
    for table, said in TABLES.items():
        op.execute(
            f"CREATE TRIGGER {table}_announced AFTER INSERT ON {table}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION announce('{said}')"
        )
    for table in RIGHTS:
        name = table.strip('"')
        op.execute(
            f"CREATE TRIGGER {name}_announced AFTER INSERT OR UPDATE OR DELETE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION announce('rights')"
        )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
