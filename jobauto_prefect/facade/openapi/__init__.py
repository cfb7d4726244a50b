"""The contract as an OpenAPI document, and as a page."""

from jobauto_prefect.facade.openapi.document import document

__all__ = ["document"]
