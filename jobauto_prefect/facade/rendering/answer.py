"""One function for all formats."""

from collections.abc import Callable, Mapping

from jobauto_prefect.facade.rendering.data import render_json, render_yaml
from jobauto_prefect.facade.rendering.formats import FORMATS
from jobauto_prefect.facade.rendering.page import render_html
from jobauto_prefect.facade.rendering.sheet import render_csv
from jobauto_prefect.facade.rendering.tree import render_xml
from jobauto_prefect.facade.rendering.view import View

_RENDERERS: Mapping[str, Callable[[View], bytes]] = {
    "json": render_json,
    "yaml": render_yaml,
    "xml": render_xml,
    "html": render_html,
    "csv": render_csv,
}


def render(format_name: str, view: View) -> tuple[bytes, str]:
    """The body in a format of `FORMATS`, and its Content-Type."""
    return _RENDERERS[format_name](view), FORMATS[format_name].content_type
