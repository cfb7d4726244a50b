"""The facade as this process's environment and settings files say."""

from fastapi import FastAPI

from jobauto_prefect.facade.app import create_app
from jobauto_prefect.ledger.store import open_ledger
from jobauto_prefect.settings import load_settings


def application() -> FastAPI:
    """For ASGI servers: `uvicorn --factory api.main:application`.

    Raises:
        NotReady: the installation lacks its key or its tables.
        LedgerUnavailable: the database does not answer.
    """
    settings = load_settings()
    return create_app(settings, open_ledger(settings))
