"""All kinds of records, in the order in which pages and the document list them."""

from collections.abc import Mapping

from jobauto_prefect.facade.answers import Record
from jobauto_prefect.facade.kinds.applications import Application
from jobauto_prefect.facade.kinds.audit_entries import AuditEntry
from jobauto_prefect.facade.kinds.calendars import Calendar
from jobauto_prefect.facade.kinds.companies import Company
from jobauto_prefect.facade.kinds.credential_types import CredentialType
from jobauto_prefect.facade.kinds.credentials import Credential
from jobauto_prefect.facade.kinds.event_rules import EventRule
from jobauto_prefect.facade.kinds.event_sources import EventSource
from jobauto_prefect.facade.kinds.events import Event, EventWithDeliveries
from jobauto_prefect.facade.kinds.jobs import Job, JobWithOutput
from jobauto_prefect.facade.kinds.run_templates import RunTemplate
from jobauto_prefect.facade.kinds.tasks import Task, TaskWithJobs
from jobauto_prefect.facade.kinds.topics import Topic
from jobauto_prefect.facade.kinds.users import User

RECORD_MODELS: Mapping[str, type[Record]] = {
    "app": Application,
    "company": Company,
    "runtemplate": RunTemplate,
    "job": Job,
    "task": Task,
    "credential": Credential,
    "credential_type": CredentialType,
    "topic": Topic,
    "calendar": Calendar,
    "eventrule": EventRule,
    "eventsource": EventSource,
    "user": User,
    "event": Event,
    "auditlog": AuditEntry,
}
"""By the name of a record in paths."""

DETAIL_MODELS: Mapping[str, type[Record]] = {
    "job": JobWithOutput,
    "task": TaskWithJobs,
    "event": EventWithDeliveries,
}
"""Of records that have more on their own than in lists."""


def field_titles(item: str) -> Mapping[str, str]:
    """Return the titles of the fields of a kind of record, by field; "" has none."""
    model = DETAIL_MODELS.get(item) or RECORD_MODELS.get(item)
    return model.field_titles() if model else {}
