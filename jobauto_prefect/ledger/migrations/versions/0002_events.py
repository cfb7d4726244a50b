"""Values of events, and what becomes of them"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TEMPLATE_ACTIONS = ("success", "fail", "action_secrets")
DELIVERED_ONCE = ["event_id", "rule_id", "element"]


def upgrade() -> None:
    # The defaults are for the rows there are.
    op.add_column(
        "event_rule", sa.Column("fan_out", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    op.add_column("job", sa.Column("eventrule_id", sa.Integer()))
    op.add_column("job", sa.Column("input_files", sa.JSON(), nullable=False, server_default="{}"))
    with op.batch_alter_table("delivery") as delivery:
        delivery.add_column(sa.Column("element", sa.Integer(), nullable=False, server_default="0"))
        delivery.drop_constraint("uq_delivery_event_id_rule_id", type_="unique")
        delivery.create_unique_constraint("uq_delivery_event_id_rule_id_element", DELIVERED_ONCE)
    for name in TEMPLATE_ACTIONS:
        op.add_column(
            "runtemplate", sa.Column(name, sa.JSON(), nullable=False, server_default="{}")
        )
    _create_owed_action()


def _create_owed_action() -> None:
    count = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "owed_action",
        sa.Column("id", count, nullable=False),
        sa.Column("event_id", count, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("secret", sa.Text()),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("taken_until", sa.DateTime(timezone=True)),
        sa.Column("job_id", count),
        sa.Column("error", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("done_at", sa.DateTime(timezone=True)),
        sa.ForeignKeyConstraint(
            ["event_id"],
            ["event.id"],
            name=op.f("fk_owed_action_event_id_event"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_owed_action")),
        sa.UniqueConstraint(
            "event_id", "kind", "target", name=op.f("uq_owed_action_event_id_kind_target")
        ),
    )
    owed = sa.text("state = 'owed'")
    op.create_index(
        "ix_owed_action_due",
        "owed_action",
        ["due_at"],
        sqlite_where=owed,
        postgresql_where=owed,
    )


def downgrade() -> None:
    op.drop_table("owed_action")
    for name in TEMPLATE_ACTIONS:
        op.drop_column("runtemplate", name)
    with op.batch_alter_table("delivery") as delivery:
        delivery.drop_constraint("uq_delivery_event_id_rule_id_element", type_="unique")
        delivery.create_unique_constraint("uq_delivery_event_id_rule_id", ["event_id", "rule_id"])
        delivery.drop_column("element")
    op.drop_column("job", "input_files")
    op.drop_column("job", "eventrule_id")
    op.drop_column("event_rule", "fan_out")
