"""How answers look: JSON, YAML, XML, CSV, and pages for people."""

from jobauto_prefect.facade.rendering.answer import render
from jobauto_prefect.facade.rendering.data import stream_json
from jobauto_prefect.facade.rendering.formats import (
    FORMATS,
    Format,
    negotiate,
    negotiate_error,
)
from jobauto_prefect.facade.rendering.kinds import KINDS, Kind
from jobauto_prefect.facade.rendering.labels import label
from jobauto_prefect.facade.rendering.languages import asked_languages
from jobauto_prefect.facade.rendering.page import CONTENT_SECURITY_POLICY, render_page
from jobauto_prefect.facade.rendering.view import Filter, Link, View

__all__ = [
    "CONTENT_SECURITY_POLICY",
    "FORMATS",
    "KINDS",
    "Filter",
    "Format",
    "Kind",
    "Link",
    "View",
    "asked_languages",
    "label",
    "negotiate",
    "negotiate_error",
    "render",
    "render_page",
    "stream_json",
]
