"""The actions of a run template: its fields `success` and `fail`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from jobauto_prefect.definitions.records.actions import Action, ActionMode
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.http.field_types import READ_INTEGER, OrText
from jobauto_prefect.facade.http.requests import Body
from jobauto_prefect.facade.writes.base import (
    OBJECT_TEXT,
    Ref,
    ShortText,
    WriteRequest,
    parse_object,
)
from jobauto_prefect.facade.writes.rule_checks import cycle_faults
from jobauto_prefect.facade.writes.secret_destinations import resubmission_fault
from jobauto_prefect.ledger.events import pending_actions
from jobauto_prefect.ledger.records import App, RunTemplate
from jobauto_prefect.settings import WebAddress
from jobauto_prefect.sources.targets import fault_of_url, webhook_rules

HOUR = 3600
YEAR = 365 * 24 * HOUR  # seconds
Delay = Annotated[int, Field(ge=1, le=YEAR), READ_INTEGER, OrText(r"^[1-9][0-9]{0,6}$")]

SECRET = "secret"  # noqa: S105 - the name of a field


@dataclass(frozen=True, slots=True)
class OrSwitch:
    """Allows `false` for no action in a JSON Schema, and `true` if all fields have defaults."""

    body: type[Body]

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON schema; pydantic calls it."""
        needed = any(model_field.is_required() for model_field in self.body.model_fields.values())
        whole: list[JsonSchemaValue] = handler(core)["anyOf"]
        return {"anyOf": [*whole, {"const": False} if needed else {"type": "boolean"}]}


ON = BeforeValidator(lambda value: {} if value is True else value)
"""Expands a switch to a configuration: published clients know only whether an action is on."""


class ChainBody(Body):
    """Another run template starts."""

    runtemplate_id: Ref = Field(description="The run template that starts.")


class LaunchBody(Body):
    """An application starts. The company must have exactly one run template of it."""

    app_id: Ref = Field(description="The application that starts.")


class RescheduleBody(Body):
    """The same run template starts again, with the same values, `delay` seconds later."""

    delay: Delay = Field(default=HOUR, description="Seconds until it starts again.")


class StopBody(Body):
    """The run template stops following its schedule."""


class WebHookBody(Body):
    """jobauto calls an address. A `secret` that is masked or left out stays as it is. If the
    address changes, the secret must be sent again; null: calls are not signed.
    """

    uri: WebAddress = Field(description="The address to call.")
    secret: ShortText | None = Field(default=None, description="Key that signs the call.")


class ActionsBody(BaseModel):
    """Actions by name; false and null mean no action."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"additionalProperties": {"anyOf": [{"const": False}, {"type": "null"}]}},
    )

    chain: Annotated[ChainBody | None, ON, OrSwitch(ChainBody)] = Field(
        None, alias=Action.CHAIN, description="Another run template starts."
    )
    launch: Annotated[LaunchBody | None, ON, OrSwitch(LaunchBody)] = Field(
        None,
        alias=Action.LAUNCH,
        description="An application starts. The company must have exactly one run template of it.",
    )
    reschedule: Annotated[RescheduleBody | None, ON, OrSwitch(RescheduleBody)] = Field(
        None,
        alias=Action.RESCHEDULE,
        description="The same run template starts again, with the same values.",
    )
    stop: Annotated[StopBody | None, ON, OrSwitch(StopBody)] = Field(
        None, alias=Action.STOP, description="The run template stops following its schedule."
    )
    webhook: Annotated[WebHookBody | None, ON, OrSwitch(WebHookBody)] = Field(
        None, alias=Action.WEBHOOK, description="jobauto calls an address."
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nothing(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {
            name: config
            for name, config in value.items()
            if config is not None and config is not False
        }

    def configured(self) -> dict[str, dict[str, Any]]:
        """Return the configurations of the given actions, by action."""
        given = self.model_dump(by_alias=True, exclude_none=True)
        return {str(name): config for name, config in given.items()}


class OrEmpty:
    """Allows in a JSON Schema what published clients send for no actions."""

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON schema; pydantic calls it."""
        nothing = [{"type": "null"}, {"type": "array", "items": {}, "maxItems": 0}]
        return {"anyOf": [handler(core), *nothing, *OBJECT_TEXT]}


def _parse_actions(value: Any) -> Any:
    """Return an object for an object, its JSON text, or nothing."""
    return {} if value is None or value == [] else parse_object(value)


Actions = Annotated[ActionsBody, BeforeValidator(_parse_actions), OrEmpty()]


def apply_actions(
    write: WriteRequest, template: RunTemplate, given: Mapping[ActionMode, ActionsBody]
) -> None:
    """Replace the actions of these modes by those given; with any, the template is flushed.

    Raises:
        InvalidInput: with every target that does not exist or must not be used, and any cycle.
    """
    secrets, writers = dict(template.action_secrets), dict(template.action_writers or {})
    faults = [
        fault for mode in given for fault in _address_faults(template, mode, given[mode].webhook)
    ]
    for mode, body in given.items():
        configured = body.configured()
        sealed = _seal_secret(write, template, mode, body.webhook)
        configured.get(Action.WEBHOOK, {}).pop(SECRET, None)
        secrets.pop(mode, None)
        if sealed is not None:
            secrets[mode] = sealed
        setattr(template, mode, configured)
        writers.pop(mode, None)
        if write.who.user_id is not None:
            writers[mode] = write.who.user_id
    template.action_secrets, template.action_writers = secrets, writers
    starts = [
        mode for mode in ActionMode if pending_actions.STARTING & getattr(template, mode).keys()
    ]
    if given or starts:
        write.session.flush()
    for mode in given:
        actions_of = getattr(template, mode)
        for name, look in CHECKS.items():
            if name in actions_of:
                faults += look(write, template, actions_of[name], f"/{mode}/{name}")
    if starts and not faults:
        faults += cycle_faults(write.session, template.id, f"/{starts[0]}")
    if faults:
        raise InvalidInput(faults)


def _seal_secret(
    write: WriteRequest, template: RunTemplate, mode: str, webhook: WebHookBody | None
) -> str | None:
    """Return the key that signs a webhook's calls, sealed; None: they are not signed."""
    if webhook is None:
        return None
    if _keeps_secret(webhook):
        return template.action_secrets.get(mode)
    return write.box.seal({SECRET: webhook.secret})[SECRET] if webhook.secret else None


def _keeps_secret(webhook: WebHookBody) -> bool:
    return SECRET not in webhook.model_fields_set or webhook.secret == MASK


def _address_faults(
    template: RunTemplate, mode: str, webhook: WebHookBody | None
) -> Iterator[Fault]:
    """Refuse to keep a signing key for another address."""
    if webhook is None or mode not in template.action_secrets or not _keeps_secret(webhook):
        return
    before = getattr(template, mode).get(Action.WEBHOOK, {})
    if before.get("uri") != webhook.uri:
        yield resubmission_fault(f"/{mode}/{Action.WEBHOOK}/{SECRET}", SECRET, ["uri"])


def _chain_faults(
    write: WriteRequest, _template: RunTemplate, config: Mapping[str, Any], place: str
) -> Iterator[Fault]:
    pointer = f"{place}/runtemplate_id"
    try:
        target = write.resolve_reference(RunTemplate, config["runtemplate_id"], pointer, "jobs")
    except InvalidInput as error:
        yield from error.faults
    else:
        write.authorize_create("jobs", target.company_id)


def _launch_faults(
    write: WriteRequest, template: RunTemplate, config: Mapping[str, Any], place: str
) -> Iterator[Fault]:
    pointer, app_id = f"{place}/app_id", config["app_id"]
    try:
        write.resolve_reference(App, app_id, pointer, "applications")
    except InvalidInput as error:
        yield from error.faults
        return
    candidates = pending_actions.launch_candidates(write.session, template.company_id, app_id)
    if len(candidates) != 1:
        yield Fault(pointer, "reference", pending_actions.launch_refusal(app_id, candidates))


def _webhook_faults(
    write: WriteRequest, _template: RunTemplate, config: Mapping[str, Any], place: str
) -> Iterator[Fault]:
    fault = fault_of_url(config["uri"], webhook_rules(write.settings))
    if fault is not None:
        yield Fault(f"{place}/uri", "target", fault)


CHECKS = {
    Action.CHAIN: _chain_faults,
    Action.LAUNCH: _launch_faults,
    Action.WEBHOOK: _webhook_faults,
}
