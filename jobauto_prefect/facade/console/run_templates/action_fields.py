"""What follows the end of a job: fields of a run template's form."""

from collections.abc import Mapping
from typing import Any

from jobauto_prefect.definitions.mask import MASK
from jobauto_prefect.definitions.records.actions import Action, ActionMode
from jobauto_prefect.facade.console.records.choices import Choices
from jobauto_prefect.facade.console.records.form_changes import WholeValue
from jobauto_prefect.facade.console.records.form_fields import FieldGroup, FormField
from jobauto_prefect.facade.formats.html.page_language import Translator

TEMPLATES = "templates"
"""What a form offers with the names of run templates."""

LEADING = {
    Action.CHAIN: "runtemplate_id",
    Action.LAUNCH: "app_id",
    Action.RESCHEDULE: "delay",
    Action.WEBHOOK: "uri",
}
"""Of each action that says more than its name the part without which there is none."""


def action_groups(translate: Translator, apps: Choices) -> list[FieldGroup]:
    """Return the fields of what follows a success, and of what follows a failure."""
    titles = {
        ActionMode.SUCCESS: translate("After a success"),
        ActionMode.FAIL: translate("After a failure"),
    }
    return [
        FieldGroup(title, _fields(f"/{mode}", translate, apps), True, pointer=f"/{mode}")
        for mode, title in titles.items()
    ]


def _fields(pointer: str, translate: Translator, apps: Choices) -> list[FormField]:
    nothing = ("", translate("nothing"))
    return [
        FormField(
            f"{pointer}/{Action.CHAIN}/runtemplate_id",
            translate("This run template starts"),
            "named",
            translate("The short name of a company, a slash, and the name of its run template."),
            offer=TEMPLATES,
        ),
        FormField(
            f"{pointer}/{Action.LAUNCH}/app_id",
            translate("This application starts, by its only run template in the company"),
            "choice",
            choices=[nothing, *apps],
        ),
        FormField(
            f"{pointer}/{Action.RESCHEDULE}/delay",
            translate("It starts again after, seconds"),
            "number",
        ),
        FormField(
            f"{pointer}/{Action.STOP}",
            translate("It follows its schedule no more"),
            "flag",
        ),
        FormField(
            f"{pointer}/{Action.WEBHOOK}/uri",
            translate("This address is told"),
            hint=translate("A webhook: https://…"),
        ),
        FormField(
            f"{pointer}/{Action.WEBHOOK}/secret",
            translate("Key of the signature"),
            "secret",
            translate("For another address it has to be given again."),
        ),
    ]


def whole_actions(record: Mapping[str, Any] | None, paths: Mapping[str, str]) -> list[WholeValue]:
    """Return the actions of a record, as the fields show them; None: it is new.

    `paths` are the names of run templates, with their companies, by their ids.
    """
    return [
        WholeValue(mode, _shown(record[mode] if record else {}, paths), _join_actions)
        for mode in ActionMode
    ]


def _shown(actions: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
    shown: dict[str, Any] = {name: dict(config) for name, config in actions.items()}
    if Action.STOP in shown:
        shown[Action.STOP] = True
    if Action.CHAIN in shown:
        target = str(shown[Action.CHAIN]["runtemplate_id"])
        shown[Action.CHAIN] = {"runtemplate_id": paths.get(target, target)}
    return shown


def _join_actions(shown: dict[str, Any]) -> dict[str, Any]:
    """Return the actions that there are; a key stays with the action whose it is."""
    joined = {}
    for name, config in shown.items():
        leading = LEADING.get(Action(name))
        if leading is None:
            joined[name] = bool(config)
        elif config.get(leading) or config.get("secret") not in (None, MASK):
            joined[name] = config
    return joined
