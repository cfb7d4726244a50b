"""What Prefect should hold for a run template, and for the run of a job, from the records."""

from collections.abc import Mapping
from typing import Any

from jobauto_prefect.compiler.deployments import TemplateFacts, deployment_plan
from jobauto_prefect.compiler.events.event_inputs import declared_inputs
from jobauto_prefect.compiler.parameters import REFERENCES, override_parameters
from jobauto_prefect.compiler.plan import (
    DEFAULT_QUEUE,
    DeploymentPlan,
    WorkQueuePlan,
    prefect_name,
)
from jobauto_prefect.compiler.scheduling.schedule import Schedule, schedule_of
from jobauto_prefect.console_addresses import page_address
from jobauto_prefect.definitions.records.actions import UNSCHEDULED
from jobauto_prefect.definitions.records.credentials import provided_variables
from jobauto_prefect.engine.sync.application_flows import name_is_shared
from jobauto_prefect.errors import KeyMissing
from jobauto_prefect.jobs.claims.approval import unapproved_priority
from jobauto_prefect.ledger.jobs.windows import scheduler_in_charge
from jobauto_prefect.ledger.queries.events import GivenByRules, given_by_rules
from jobauto_prefect.ledger.queries.run_templates import templates_of_app
from jobauto_prefect.ledger.queries.topics import topics_of
from jobauto_prefect.ledger.records import Job, RunTemplate
from jobauto_prefect.ledger.secrets import SecretBox
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.runtime.output.masking import Masker
from jobauto_prefect.settings import Scheduler, Settings


def desired_deployment(
    session: ReadingSession,
    template: RunTemplate,
    settings: Settings,
    given: Mapping[int, GivenByRules] | None = None,
) -> DeploymentPlan:
    """Compute what Prefect should hold for a run template.

    `given`: the values that event rules pass to run templates, including this one; None: read them.
    """
    if given is None:
        given = given_by_rules(session, [template.id])
    app, company = template.app, template.company
    withheld = withheld_keys(template)
    values = {**company.env, **template.env}
    priority = None if unapproved_priority(template, settings) else template.queue_priority
    from_rules = given.get(template.id, GivenByRules())
    mapped = from_rules.keys
    if from_rules.follows_ends:
        consumed = declared_inputs(app.document.get("consumes") or {})
        mapped |= {each.target for each in consumed}
    facts = TemplateFacts(
        template_id=template.id,
        name=_distinct_name(session, template),
        app_id=app.id,
        app_uuid=app.uuid,
        name_is_shared=name_is_shared(session, app, settings.language),
        company_name=company.name,
        company_slug=company.slug,
        pool=template.pool or settings.pool,
        queue=WorkQueuePlan(template.queue or DEFAULT_QUEUE, priority),
        values={name: text for name, text in values.items() if name not in withheld},
        withheld=withheld,
        mapped=mapped,
        executor=template.executor,
        interval=template.interv,
        cron=template.cron,
        timezone=template.zone_name(settings.timezone),
        delay=template.delay,
        by_ledger=template.interv != UNSCHEDULED
        and scheduler_in_charge(session) is Scheduler.LEDGER,
        active=template.active and app.enabled and company.enabled,
        note=template.note,
        topics=topics_of(template),
        app_topics=tuple(app.topics),
        language=settings.language,
        record_url=page_address(settings.url, "runtemplate", template.id),
    )
    return deployment_plan(facts, app.definition)


def withheld_keys(template: RunTemplate) -> frozenset[str]:
    """Return the environment keys that are not parameters: secrets and values of credentials."""
    provided = {name for block in template.blocks for name in block["env"]}
    for assignment in template.assignments:
        given = {*assignment.credential.values, *assignment.credential.secrets}
        provided |= provided_variables(assignment.credential.credential_type.fields, given)
    provided -= template.env.keys()
    return frozenset({*template.company.secrets, *template.secrets, *provided})


def _distinct_name(session: ReadingSession, template: RunTemplate) -> str:
    """Return a name unique in Prefect: if it is taken, the template's id is added."""

    def shown(named: RunTemplate) -> str:
        return prefect_name(f"{named.company.slug} - {named.name}")

    mine = shown(template)
    if mine == f"{template.company.slug} - {template.name}":
        return template.name
    others = templates_of_app(session, template.app_id)
    taken = any(shown(other) == mine for other in others if other.id != template.id)
    return f"{template.name} ({template.id})" if taken else template.name


def template_schedule(template: RunTemplate, service_zone: str) -> Schedule | None:
    """Return the schedule of a run template, or None if it has none.

    `service_zone` applies if neither template nor company sets a time zone.

    Raises:
        InvalidInput: its interval, cron expression or time zone can't be used.
    """
    zone = template.zone_name(service_zone)
    return schedule_of(template.interv, template.cron, zone, template.delay)


def run_parameters(job: Job, box: SecretBox) -> dict[str, Any]:
    """Return the job's number and its own non-secret values; its session is open.

    Prefect adds the deployment's values. The claim takes the values from the job; these are only
    for people to see.
    """
    reference = {REFERENCES: {"job": job.id}}
    if not job.overrides:
        return reference
    hidden = withheld_keys(job.runtemplate) | job.override_secrets.keys()
    plain = {key: text for key, text in job.overrides.items() if key not in hidden}
    try:
        # A non-secret value may repeat a secret of this job.
        template = job.runtemplate
        sealed = [job.override_secrets, template.secrets, template.company.secrets]
        sealed += [assignment.credential.secrets for assignment in template.assignments]
        masker = Masker([value for values in sealed for value in box.open(values).values()])
    except KeyMissing:
        return reference  # don't show what can't be checked; the claim reports the error
    clear = {key: text for key, text in plain.items() if masker.mask(text) == text}
    return override_parameters(job.runtemplate.app.definition, clear) | reference
