"""The facade for ASGI servers: `uvicorn --factory api.main:application`."""

from jobauto_prefect.facade.main import application

__all__ = ["application"]
