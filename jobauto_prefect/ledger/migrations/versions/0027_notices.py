"""Notices: what companies and run templates say of them, and what is to be told to whom"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

ANNOUNCED = """
CREATE TRIGGER notice_announced AFTER INSERT ON notice
FOR EACH STATEMENT EXECUTE FUNCTION announce('notices')
"""


def upgrade() -> None:
    for table in ("company", "runtemplate"):
        for column in ("notices", "notice_secrets"):
            op.add_column(table, sa.Column(column, sa.JSON(), nullable=False, server_default="{}"))
    _create_notice()
    if op.get_bind().dialect.name == "postgresql":
        op.execute(ANNOUNCED)


def _create_notice() -> None:
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    instant = sa.DateTime(timezone=True)
    op.create_table(
        "notice",
        sa.Column("id", number, nullable=False),
        sa.Column("occasion", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("secret", sa.Text()),
        sa.Column("company_id", sa.Integer(), nullable=False),
        sa.Column("runtemplate_id", sa.Integer(), nullable=False),
        sa.Column("task_id", number),
        sa.Column("job_id", number),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("due_at", instant, nullable=False),
        sa.Column("taken_until", instant),
        sa.Column("batch", sa.Uuid()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("created_at", instant, nullable=False),
        sa.Column("sent_at", instant),
        sa.ForeignKeyConstraint(
            ["company_id"], ["company.id"], name=op.f("fk_notice_company_id_company")
        ),
        sa.ForeignKeyConstraint(
            ["runtemplate_id"],
            ["runtemplate.id"],
            name=op.f("fk_notice_runtemplate_id_runtemplate"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notice")),
    )
    owed = sa.text("state = 'owed'")
    op.create_index(
        "ix_notice_due", "notice", ["due_at"], sqlite_where=owed, postgresql_where=owed
    )
    op.create_index("ix_notice_target", "notice", ["target", "state", "sent_at"])
    op.create_index("ix_notice_runtemplate_id", "notice", ["runtemplate_id", "id"])
    for column in ("task_id", "job_id", "created_at"):
        op.create_index(op.f(f"ix_notice_{column}"), "notice", [column])


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
