"""Prefect's objects, kept as the records say: applied, compared, restored if changed there."""
