"""One render function for all formats."""

from collections.abc import Callable, Mapping

from jobauto_prefect.facade.formats.csv import render_csv
from jobauto_prefect.facade.formats.json_yaml import render_json, render_yaml
from jobauto_prefect.facade.formats.negotiation import FORMATS
from jobauto_prefect.facade.formats.view import View
from jobauto_prefect.facade.formats.xml import render_xml


def _render_html(view: View) -> bytes:
    # The first page loads the templates: commands need none.
    from jobauto_prefect.facade.formats.html.contract_pages import render_html

    return render_html(view)


_RENDERERS: Mapping[str, Callable[[View], bytes]] = {
    "json": render_json,
    "yaml": render_yaml,
    "xml": render_xml,
    "html": _render_html,
    "csv": render_csv,
}


def render(format_name: str, view: View) -> tuple[bytes, str]:
    """Return the body in a format of `FORMATS`, and its Content-Type."""
    return _RENDERERS[format_name](view), FORMATS[format_name].content_type
