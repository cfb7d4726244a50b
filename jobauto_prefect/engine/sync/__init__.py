"""Prefect's objects as the records say: applied, compared, restored where somebody changed them."""
