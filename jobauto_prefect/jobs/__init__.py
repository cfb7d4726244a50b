"""A job's life: claim, launch, report, outcome, retry, loss, windows, actions.

No Prefect and no FastAPI: `facade/` has the routes to it, `engine/` its Prefect side.
"""
