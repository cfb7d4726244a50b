"""What people change in Prefect, as the audit trail names it: the kinds of the table's routes."""

CHANGED_KINDS = (
    "admin", "artifact", "automation", "block document", "block schema", "block type",
    "concurrency limit", "deployment", "flow", "flow run", "saved searche", "task run", "variable",
    "work pool", "work queue",
)  # fmt: skip
