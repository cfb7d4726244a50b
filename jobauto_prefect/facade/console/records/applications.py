"""Applications: the list, and the page of one with its definition and its run templates."""

from collections.abc import Mapping
from typing import Any

from jobauto_prefect.console_addresses import CONTRACT, list_address
from jobauto_prefect.definitions import ExitCode, Variable, parse, pick_text, to_text
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.facade.console.records.cells import (
    COMPANY,
    ENABLED,
    NOTHING,
    AnyCell,
    Column,
    Record,
    enabled,
    has,
    moment,
    name,
    text,
    text_cell,
    yes_or_no,
)
from jobauto_prefect.facade.console.records.fields import variable_field
from jobauto_prefect.facade.console.records.pages import (
    BY_NAME,
    BY_STATE,
    Action,
    RecordPages,
    Table,
    related_templates,
)
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats.html.cells import TONES, Cell, clip
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.kinds import KINDS


def _said(label: Text, field: str) -> Column:
    """Return the fact of a field of the definition, shown only if the field has a value."""

    def read(app: Record) -> Any:
        return getattr(app["definition"], field)

    def draw(app: Record, _visit: Visit) -> AnyCell:
        said = read(app)
        return text_cell(str(said) if isinstance(said, str) else ", ".join(said))

    return Column(label, draw, when=read)


def _name(variable: Variable, visit: Visit) -> AnyCell:
    field = variable_field(variable, visit.languages, visit.translate)
    if variable.required:
        label = visit.translate("{name} (required)", name=field.label)
        return Cell("text", label, title=field.hint)
    return Cell("text", field.label, title=field.hint)


def _default(variable: Variable, _visit: Visit) -> AnyCell:
    default = MASK if variable.secret and variable.default else to_text(variable.default)
    return Cell("code", default) if default else NOTHING


def _severity(declared: tuple[int, ExitCode], visit: Visit) -> AnyCell:
    severity = declared[1].severity
    return Cell("badge", visit.translate(severity), tone=TONES.get(severity, ""))


class ApplicationPages(RecordPages):
    """The pages of applications; these are imported, so there is no form."""

    kind = KINDS["app"]
    columns = (
        name("app"),
        Column(Text("Version"), text("version")),
        Column(
            Text("Description"),
            lambda app, visit: text_cell(clip(pick_text(app["description"], *visit.languages))),
        ),
        ENABLED,
    )
    filters = (BY_NAME, BY_STATE)
    empty = Text("There are no applications yet. Import one: jobauto app import FILE")
    about = (
        lambda app, visit: Cell("text", pick_text(app["definition"].description, *visit.languages)),
    )
    badges = (enabled,)
    facts = (
        _said(Text("Version"), "version"),
        _said(Text("Category"), "category"),
        _said(Text("Program"), "executable"),
        _said(Text("Image"), "oci_image"),
        _said(Text("Required credentials"), "requirements"),
        Column(Text("Topics"), text("topics"), when=has("topics")),
    )
    tables = (
        related_templates(
            lambda app: {"app_id": app["id"]}, (COMPANY,), Text("No run template uses it yet.")
        ),
        Table(
            "fields",
            Text("Values"),
            lambda app, _: app["definition"].environment.values(),
            (
                Column(Text("Name"), _name),
                Column(Text("Key"), lambda variable, _: Cell("code", variable.key)),
                Column(Text("Type"), lambda variable, _: text_cell(str(variable.type))),
                Column(Text("Default"), _default),
            ),
            Text("The application takes no values."),
        ),
        Table(
            "codes",
            Text("Exit codes"),
            lambda app, _: app["definition"].exit_codes.items(),
            (
                Column(Text("Code"), lambda code, _: Cell("number", str(code[0]))),
                Column(
                    Text("Meaning"),
                    lambda code, visit: text_cell(pick_text(code[1].description, *visit.languages)),
                ),
                Column(Text("State"), _severity),
                Column(Text("Retried"), lambda code, visit: yes_or_no(code[1].retry, visit)),
            ),
            Text("None are declared: 0 means success, any other code means failure."),
        ),
        Table(
            "versions",
            Text("Earlier versions"),
            lambda app, _: app["versions"],
            (
                Column(
                    Text("Version"),
                    lambda former, _: text_cell(str(former["version"] or former["number"])),
                ),
                Column(Text("Replaced"), moment("replaced_at")),
                Column(Text("Author"), lambda former, _: text_cell(str(former["replaced_by"]))),
            ),
            Text("The definition has not changed yet."),
            lambda app: f"{CONTRACT}/app/{app['id']}/versions.html",
        ),
    )

    async def read(self, visit: Visit, key: Any) -> Record:
        """Read an application with its parsed definition and its earlier versions."""
        app = await super().read(visit, key)
        versions = await visit.get(f"/app/{key}/versions")
        former = list(versions.values()) if isinstance(versions, Mapping) else list(versions)
        return {**app, "definition": parse(app), "versions": former}

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        """Return the link to a new run template of the application."""
        if not visit.who.rights.anywhere("companies.update"):
            return []
        href = f"{list_address('runtemplate')}/new?app_id={record['id']}"
        return [Action(Text("New run template"), href)]


router = ApplicationPages().router()
