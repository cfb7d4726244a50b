"""What administrators have approved of applications and run templates

Nobody noted who chose what there is. Executors and work pools stay as they are. Settings of
executors, and Helm in definitions of companies, reach further: an administrator has to save them.
"""

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

ISOLATING = frozenset({"Docker", "Podman", "Kubernetes"})


def upgrade() -> None:
    for table in ("app", "runtemplate"):
        # The default is for the rows there are.
        op.add_column(table, sa.Column("approved", sa.JSON(), nullable=False, server_default="{}"))
    connection = op.get_bind()
    app = sa.table(
        "app",
        sa.column("id", sa.Integer),
        sa.column("company_id", sa.Integer),
        sa.column("document", sa.JSON),
        sa.column("approved", sa.JSON),
    )
    for row in connection.execute(sa.select(app.c.id, app.c.company_id, app.c.document)).all():
        helm = row.document.get("kubernetes", {}).get("helm") if row.company_id is None else None
        approved = {
            "digest": digest(row.document),
            "image": bool(row.document.get("ociimage")),
            "helm": helm,
        }
        connection.execute(sa.update(app).where(app.c.id == row.id).values(approved=approved))
    template = sa.table(
        "runtemplate",
        *(sa.column(name, sa.Integer) for name in ("id", "app_id", "company_id")),
        *(sa.column(name, sa.String) for name in ("executor", "pool")),
        *(sa.column(name, sa.JSON) for name in ("executors", "approved")),
    )
    chosen = sa.select(*(column for column in template.c if column.name != "approved"))
    for row in connection.execute(chosen).all():
        approved = {
            "app_id": row.app_id,
            "company_id": row.company_id,
            "executors": [n for n in (row.executor, *row.executors) if n not in ISOLATING],
            "settings": {},
            "pool": row.pool,
        }
        connection.execute(
            sa.update(template).where(template.c.id == row.id).values(approved=approved)
        )


def digest(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
