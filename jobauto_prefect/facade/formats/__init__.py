"""The formats of responses: JSON, YAML, XML, CSV, and HTML pages for people."""

from jobauto_prefect.facade.formats.html.labels import field_label
from jobauto_prefect.facade.formats.json_yaml import stream_json
from jobauto_prefect.facade.formats.negotiation import (
    FORMATS,
    Format,
    negotiate,
    negotiate_error,
    parse_accept_language,
)
from jobauto_prefect.facade.formats.renderers import render
from jobauto_prefect.facade.formats.view import ListFilter, PageLink, View

__all__ = [
    "FORMATS",
    "Format",
    "ListFilter",
    "PageLink",
    "View",
    "field_label",
    "negotiate",
    "negotiate_error",
    "parse_accept_language",
    "render",
    "stream_json",
]
