"""The flow of an application and the deployment of a run template, as plans."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobauto_prefect.compiler.descriptions import (
    describe_application,
    describe_schedule,
    describe_template,
)
from jobauto_prefect.compiler.parameters import TITLES, ParameterSchema, parameters
from jobauto_prefect.compiler.plan import (
    TEMPLATE_LABEL,
    USUAL_QUEUE,
    DeploymentPlan,
    FlowPlan,
    WorkQueuePlan,
    prefect_name,
    template_tags,
    topic_tags,
)
from jobauto_prefect.compiler.scheduling.prefect_schedule import schedule_for_prefect
from jobauto_prefect.compiler.scheduling.schedule import schedule_of
from jobauto_prefect.definitions import Definition, coerce, pick_text

MODULE = "jobauto_prefect.engine.applications"
"""The module whose attributes `app_<id>` are the compiled flows."""

SHORT_UUID = 8  # characters
SHAPE = ("type", "format", "enum", "anyOf")
"""Members of a property that determine its allowed values."""


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """What Prefect shows of a run template, its application and its company.

    `values` are the effective values that are not secret: environment key -> text. The keys
    `withheld` get their values elsewhere and are no parameters; keys that event rules map get
    theirs at the claim, and a run may be created without them. `name_is_shared` says that another
    application has the same name. `interval` is a code of `schedule.CRON`, or `c` with `cron`;
    `delay` is in seconds from the start of a window. `by_ledger`: the window scheduler creates the
    runs of all run templates. `topics` are all of the run template,
    `app_topics` those of its application. `record_url` links to the record.
    """

    template_id: int
    name: str
    app_id: int
    company_name: str
    company_slug: str
    pool: str
    app_uuid: str | None = None
    name_is_shared: bool = False
    values: Mapping[str, str] = field(default_factory=dict)
    withheld: Collection[str] = frozenset()
    mapped: Collection[str] = frozenset()
    executor: str = "Native"
    interval: str = "n"
    cron: str | None = None
    timezone: str = "UTC"
    delay: int = 0
    by_ledger: bool = False
    active: bool = True
    note: str | None = None
    topics: Sequence[str] = ()
    app_topics: Sequence[str] = ()
    language: str = "en"
    record_url: str | None = None
    queue: WorkQueuePlan = USUAL_QUEUE


def flow_plan(
    app_id: int,
    definition: Definition,
    language: str,
    *,
    name_is_shared: bool = False,
    topics: Sequence[str] = (),
) -> FlowPlan:
    """Return the flow of an application; a shared name gets a part of its UUID."""
    labels: dict[str, str | int] = {"jobauto.app": app_id}
    if definition.category:
        labels["jobauto.category"] = definition.category
    return FlowPlan(
        app_id=app_id,
        name=flow_name(app_id, definition, language, name_is_shared),
        description=describe_application(definition, language),
        version=definition.version,
        tags=topic_tags(sorted(topics)),
        labels=labels,
    )


def flow_name(app_id: int, definition: Definition, language: str, is_shared: bool) -> str:
    """Return the application's name for Prefect; a shared one gets a part of its UUID."""
    name = prefect_name(pick_text(definition.name, language))
    return f"{name} ({(definition.uuid or str(app_id))[:SHORT_UUID]})" if is_shared else name


def deployment_plan(facts: TemplateFacts, definition: Definition) -> DeploymentPlan:
    """Return the deployment of a run template, with the flow of its application.

    Raises:
        InvalidInput: its interval, cron expression or time zone can't be used.
    """
    flow = flow_plan(
        facts.app_id,
        definition,
        facts.language,
        name_is_shared=facts.name_is_shared,
        topics=facts.app_topics,
    )
    compiled = parameters(definition, facts.language)
    shown = _shown(definition, compiled, facts)
    name = f"[{facts.name}]({facts.record_url})" if facts.record_url else facts.name
    lead = f"**{name}** for **{facts.company_name}**, executor {facts.executor}"
    schedule = schedule_of(facts.interval, facts.cron, facts.timezone, facts.delay)
    handed_over = None
    if schedule is not None and not facts.by_ledger:
        handed_over = schedule_for_prefect(schedule, active=facts.active)
    is_apart = schedule is not None and handed_over is None and facts.active
    return DeploymentPlan(
        template_id=facts.template_id,
        flow=flow,
        name=prefect_name(f"{facts.company_slug} - {facts.name}"),
        entrypoint=f"{MODULE}.app_{flow.app_id}",
        description=describe_template(
            lead,
            describe_schedule(schedule, by_ledger=facts.by_ledger) if schedule and is_apart else "",
            facts.note,
            flow.description,
        ),
        version=flow.version,
        tags=template_tags(facts.company_slug, facts.topics),
        labels={
            **flow.labels,
            "jobauto.company": facts.company_slug,
            TEMPLATE_LABEL: facts.template_id,
        },
        work_pool=facts.pool,
        work_queue=facts.queue,
        parameters=shown,
        parameter_schema=_schema(compiled, shown, facts),
        schedule=handed_over,
        paused=not facts.active,
    )


def _shown(
    definition: Definition, compiled: ParameterSchema, facts: TemplateFacts
) -> dict[str, Any]:
    """Return the effective values by parameter, converted to their type if possible."""
    shown = {}
    for name, key in compiled.parameter_keys.items():
        if key in facts.withheld:
            continue
        if key in facts.values:
            shown[name] = coerce(definition.environment[key], facts.values[key])
        elif name in compiled.defaults:
            shown[name] = compiled.defaults[name]
    # Prefect accepts null in a run's parameters, but not in a deployment's.
    return {name: value for name, value in shown.items() if value is not None}


def _schema(
    compiled: ParameterSchema, shown: Mapping[str, Any], facts: TemplateFacts
) -> dict[str, Any]:
    """Return the schema of one template, which accepts the template's own values in any case.

    Prefect refuses deployments with values that do not fit; the job gets them all the same.
    """
    keys = compiled.parameter_keys
    hidden = {name for name, key in keys.items() if key in facts.withheld}
    given_later = {name for name, key in keys.items() if key in facts.mapped}
    properties = {
        name: content if name not in shown or compiled.accepts(name, shown[name]) else _any(content)
        for name, content in compiled.schema["properties"].items()
        if name not in hidden
    }
    # The claim reports emptied values; Prefect would silently refuse the runs of automations.
    emptied = compiled.defaults.keys() - shown.keys()
    waived = hidden | given_later | emptied
    required = [name for name in compiled.schema["required"] if name not in waived]
    return {**compiled.schema, "properties": properties, "required": required}


def _any(content: Mapping[str, Any]) -> dict[str, Any]:
    shape = {key: value for key, value in content.items() if key in SHAPE}
    kept = {key: value for key, value in content.items() if key not in SHAPE}
    shapes = [*shape.get("anyOf", [shape]), {"type": "string"}]
    return kept | {"anyOf": [{"title": TITLES[each["type"]], **each} for each in shapes]}
