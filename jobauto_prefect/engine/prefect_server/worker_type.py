"""What Prefect's UI shows of our type of work pool: name, description, logo."""

from typing import Any
from urllib.parse import quote

from jobauto_prefect.engine.work_pools import BASE_JOB_TEMPLATE, DESCRIPTION, POOL_TYPE

LOGO = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16' width='48' height='48'>"
    "<rect width='16' height='16' rx='4' fill='#0f766e'/>"
    "<path d='M5 4.2v7.6L11.8 8z' fill='white'/></svg>"
)

LOGO_URL = f"data:image/svg+xml,{quote(LOGO)}"
"""The logo itself as an address: nothing has to be fetched from anywhere."""

WORKER_TYPES = "aggregate-worker-metadata"
"""Prefect's list of the types of work pool, by the package that brings them."""

OURS: dict[str, Any] = {
    POOL_TYPE: {
        "type": POOL_TYPE,
        "display_name": "jobauto",
        "description": DESCRIPTION,
        "logo_url": LOGO_URL,
        "documentation_url": "",
        "install_command": "pip install jobauto-prefect",
        "is_beta": False,
        "default_base_job_configuration": BASE_JOB_TEMPLATE,
    }
}


def add_worker_type() -> None:
    """Add our type of work pool to those that the Prefect server of this process knows.

    A server takes the list from a registry on the internet and has no setting for additions, so
    the function that reads it is replaced by one that adds ours.
    """
    from prefect.server.api import collections

    published = collections.get_collection_view

    async def with_ours(view: str) -> dict[str, Any]:
        types = await published(view)
        return types | {"jobauto-prefect": OURS} if view == WORKER_TYPES else types

    collections.get_collection_view = with_ours
