"""Applications: a list, and a page of what the definition says and of who runs it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jobauto_prefect.console_addresses import CONSOLE, CONTRACT
from jobauto_prefect.definitions import ExitCode, Variable, parse, pick_text, to_text
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.facade.console.records.declared import (
    ACTIVE,
    BY_NAME,
    BY_STATE,
    COMPANY,
    ENABLED,
    Column,
    Part,
    Record,
    RecordPages,
    Related,
    enabled,
    fact,
    moment,
    record_link,
    text,
)
from jobauto_prefect.facade.console.records.fields import variable_field
from jobauto_prefect.facade.console.records.pages import NOTHING, Action, AnyCell, text_cell
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cell_model import Cell, clip
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.formats.html.scalars import TONES
from jobauto_prefect.kinds import KINDS


def _said(label: Text, field: str) -> Column:
    """Return the fact that a field of the definition says, where it says something."""
    return Column(
        label,
        lambda app, *_: text_cell(str(getattr(app["definition"], field))),
        when=lambda app: getattr(app["definition"], field),
    )


def _name(variable: Variable, _view: View, visit: Visit) -> AnyCell:
    field = variable_field(variable, visit.languages, visit.translate)
    if variable.required:
        label = visit.translate("{name} (required)", name=field.label)
        return Cell("text", label, title=field.hint)
    return Cell("text", field.label, title=field.hint)


def _default(variable: Variable, _view: View, _visit: Visit) -> AnyCell:
    default = MASK if variable.secret and variable.default else to_text(variable.default)
    return Cell("code", default) if default else NOTHING


def _severity(declared: tuple[int, ExitCode], _view: View, visit: Visit) -> AnyCell:
    severity = declared[1].severity
    return Cell("badge", visit.translate(severity), tone=TONES.get(severity, ""))


def _tried_again(declared: tuple[int, ExitCode], _view: View, visit: Visit) -> AnyCell:
    return text_cell(visit.translate("yes") if declared[1].retry else visit.translate("no"))


class ApplicationPages(RecordPages):
    """The pages of applications, which are imported and not written in a form."""

    kind, folder, here = KINDS["app"], "applications", "Applications"
    columns = (
        Column(Text("Name"), record_link("applications")),
        Column(Text("Version"), text("version")),
        Column(
            Text("Description"),
            lambda app, _, visit: text_cell(clip(pick_text(app["description"], *visit.languages))),
        ),
        ENABLED,
    )
    filters = (BY_NAME, BY_STATE)
    empty = Text("There is no application yet. Import one: jobauto app import FILE")
    about = (
        lambda app, _, visit: Cell(
            "text", pick_text(app["definition"].description, *visit.languages)
        ),
    )
    badges = (enabled,)
    facts = (
        _said(Text("Version"), "version"),
        _said(Text("Category"), "category"),
        _said(Text("Program"), "executable"),
        _said(Text("Image"), "oci_image"),
        Column(
            Text("Required credentials"),
            lambda app, *_: text_cell(", ".join(app["definition"].requirements)),
            when=lambda app: app["definition"].requirements,
        ),
        fact(Text("Topics"), "topics"),
    )
    tables = (
        Related(
            "templates",
            Text("Run templates"),
            "runtemplates",
            lambda app: {"app_id": app["id"]},
            (Column(Text("Name"), record_link("runtemplates")), COMPANY, ACTIVE),
            Text("Nobody runs it yet."),
        ),
        Part(
            "fields",
            Text("Values it takes"),
            lambda app, _: app["definition"].environment.values(),
            (
                Column(Text("Name"), _name),
                Column(Text("Key"), lambda variable, *_: Cell("code", variable.key)),
                Column(Text("Type"), lambda variable, *_: text_cell(str(variable.type))),
                Column(Text("Default"), _default),
            ),
            Text("The application takes no values."),
        ),
        Part(
            "codes",
            Text("Exit codes"),
            lambda app, _: app["definition"].exit_codes.items(),
            (
                Column(Text("Code"), lambda code, *_: Cell("number", str(code[0]))),
                Column(
                    Text("Meaning"),
                    lambda code, _, visit: text_cell(
                        pick_text(code[1].description, *visit.languages)
                    ),
                ),
                Column(Text("State"), _severity),
                Column(Text("Tried again"), _tried_again),
            ),
            Text("It declares none: 0 is a success, all others are failures."),
        ),
        Part(
            "versions",
            Text("Former versions"),
            lambda app, _: app["versions"],
            (
                Column(
                    Text("Version"),
                    lambda former, *_: text_cell(str(former["version"] or former["number"])),
                ),
                Column(Text("Replaced"), moment("replaced_at")),
                Column(Text("By"), lambda former, *_: text_cell(str(former["replaced_by"]))),
            ),
            Text("Its definition has not changed yet."),
            lambda app: f"{CONTRACT}/app/{app['id']}/versions.html",
        ),
    )

    async def read(self, visit: Visit, number: int) -> View:
        """Read an application with what its definition means, and the former ones."""
        view = await super().read(visit, number)
        versions: Any = (await visit.contract.read(f"/app/{number}/versions")).data
        former = list(versions.values()) if isinstance(versions, Mapping) else list(versions)
        return replace(view, data={**view.data, "definition": parse(view.data), "versions": former})

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        """Return what the visitor may do with an application: make a run template."""
        if not visit.who.rights.anywhere("companies.update"):
            return []
        href = f"{CONSOLE}/runtemplates/new?app_id={record['id']}"
        return [Action(visit.translate("New run template"), href)]


router = ApplicationPages().router()
