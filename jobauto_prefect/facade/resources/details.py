"""What the answer for a single record has beyond its row in a list."""

from typing import Any

from jobauto_prefect.facade.answers import JsonObject
from jobauto_prefect.facade.kinds.events import serialize_event_details
from jobauto_prefect.facade.kinds.jobs import serialize_job, serialize_job_details
from jobauto_prefect.facade.kinds.resource import Resource
from jobauto_prefect.facade.resources import suggestions
from jobauto_prefect.facade.service import Service
from jobauto_prefect.ledger.events import deliveries, pending_actions
from jobauto_prefect.ledger.queries.jobs import artifacts_of, attempts_of, last_output_of
from jobauto_prefect.ledger.queries.topics import topics_of
from jobauto_prefect.ledger.records import App, Event, Job, RunTemplate, Task
from jobauto_prefect.ledger.store import ReadingSession


def details_of(session: ReadingSession, record: Any, service: Service) -> JsonObject:
    """Return what a record of this kind has on its own: attempts, output, what an event owes."""
    if isinstance(record, Job):
        return _job_details(session, record)
    if isinstance(record, Event):
        owed = deliveries.deliveries_of_event(session, record.id)
        return serialize_event_details(
            record, owed, pending_actions.actions_of_event(session, record.id)
        )
    if isinstance(record, RunTemplate):
        return attached_topics(record)
    if isinstance(record, App):
        return {"rule_selectors": suggestions.rule_selectors(record, service.settings.language)}
    if isinstance(record, Task):
        attempts = attempts_of(session, record.id)
        return {"jobs": [serialize_job(job, service.settings) for job in attempts]}
    return {}


def attached_topics(record: Any) -> JsonObject:
    """Return the topics a run template has of its application and its company."""
    return {"all_topics": [*topics_of(record)]} if isinstance(record, RunTemplate) else {}


def _job_details(session: ReadingSession, job: Job) -> JsonObject:
    if job.begin is None:
        return serialize_job_details((), ())  # it has left nothing yet
    lines = last_output_of(session, job.id)
    return serialize_job_details(lines, artifacts_of(session, job.id))


def title_of(resource: Resource, shown: JsonObject) -> str:
    """Return the title of a record's page."""
    return f"{resource.kind.one} {shown['id']}"
