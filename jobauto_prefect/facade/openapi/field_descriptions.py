"""What the fields of bodies mean where they are not those of a record, or mean something else."""

from collections.abc import Mapping

from pydantic import BaseModel

from jobauto_prefect.facade.models.calendars import Calendar
from jobauto_prefect.facade.models.common import Labelled
from jobauto_prefect.facade.models.companies import (
    Company,
    MailNotices,
    Member,
    Notices,
    SlackNotices,
)
from jobauto_prefect.facade.models.credentials import (
    Availability,
    Credential,
    CredentialType,
    CredentialTypeField,
)
from jobauto_prefect.facade.models.event_rules import EventRule, EventSource
from jobauto_prefect.facade.models.jobs import Job
from jobauto_prefect.facade.models.run_templates import RunTemplate, TemplateBlock
from jobauto_prefect.facade.models.topics import Topic
from jobauto_prefect.facade.models.users import User

RECORDS: Mapping[str, type[BaseModel]] = {
    "Application": Labelled,
    "ApplicationBody": Labelled,
    "AvailabilityBody": Availability,
    "BlockBody": TemplateBlock,
    "CalendarBody": Calendar,
    "CompanyBody": Company,
    "CredentialBody": Credential,
    "CredentialField": CredentialTypeField,
    "CredentialTypeBody": CredentialType,
    "JobBody": Job,
    "JobChange": Job,
    "MailBody": MailNotices,
    "MemberBody": Member,
    "NoticesBody": Notices,
    "RolesBody": User,
    "RuleBody": EventRule,
    "SlackBody": SlackNotices,
    "SourceBody": EventSource,
    "TemplateBody": RunTemplate,
    "TopicBody": Topic,
    "UserBody": User,
}
"""The schema of a body -> the model of the record it writes."""

ABOUT: Mapping[str, str] = {
    "ActionsBody.ChainRuntemplate": "Another run template starts.",
    "ActionsBody.LaunchJob": "An application starts, by its only run template in the company.",
    "ActionsBody.Reschedule": "The same run template starts again, with the same values.",
    "ActionsBody.Stop": "The run template follows its schedule no more.",
    "ActionsBody.WebHook": "An address is told.",
    "Application.id": "The number of the record.",
    "Application.company_id": "The company it belongs to, and whose run templates alone use it; "
    "null: it is shared.",
    "Application.enabled": "Whether it may be used.",
    "Application.topics": "The names of the topics attached to it. Written: names or ids; a name "
    "means the company's own topic first, then the shared one.",
    "Application.prefect_url": "Its page in Prefect's UI; null: Prefect does not know of it yet.",
    "ApplicationBody.company_id": "The company it belongs to, and whose run templates alone use "
    "it; null: it is shared. System-wide roles alone change it.",
    "ApplicationBody.enabled": "Whether it may be used.",
    "CalendarBody.days": "Closed days, instead of those there are.",
    "CalendarBody.times": "Closed times of day, instead of those there are.",
    "CalendarBody.periods": "Closed periods that come once, instead of those there are.",
    "ChainBody.runtemplate_id": "The run template that starts.",
    "CompanyRetentionBody.jobs_days": "Days an ended job is kept.",
    "CompanyRetentionBody.jobs_count": "Ended jobs of a run template that are kept.",
    "CompanyRetentionBody.output_days": "Days output and artifacts of an ended job are kept.",
    "CompanyRetentionBody.runs_days": "Days Prefect keeps the flow run of an ended job, and its "
    "logs.",
    "CompanyRetentionBody.tasks_days": "Days after its deadline an ended task is kept.",
    "CompanyRetentionBody.events_days": "Days an event is kept, with its deliveries and actions.",
    "CredentialBody.company": "Slug of the company, instead of `company_id`.",
    "CredentialBody.credential_type": "Code of the credential type, instead of "
    "`credential_type_id`.",
    "CredentialBody.value": "The value of a type that has one field, instead of `values`.",
    "CredentialTypeBody.company_id": "The company it belongs to, and whose run templates alone "
    "use it; null: it is shared. System-wide roles alone change it.",
    "CredentialTypeBody.company": "Slug of the company, instead of `company_id`.",
    "CredentialTypeBody.name": "The name for people: a text, or texts by language.",
    "CredentialTypeBody.description": "What it is for: a text, or texts by language.",
    "DaysBody.date": "The day, or the first one.",
    "DaysBody.until": "The last day; null: there is one.",
    "DaysBody.yearly": "Whether they are closed in each year.",
    "DaysBody.title": "Why, for people.",
    "ExcuseBody.why": "Why it is all right.",
    "JobBody.scheduled": "When to run: `now` (the default), an ISO 8601 time, or `Y-m-d H:i:s` in "
    "UTC.",
    "JobBody.executor": "Instead of the run template's; one of its `executors`.",
    "JobBody.state": "`cancelled` ends the job.",
    "JobBody.reason": "Why it is cancelled.",
    "JobChange.scheduled": "When to run: `now` (the default), an ISO 8601 time, or `Y-m-d H:i:s` "
    "in UTC.",
    "JobChange.state": "`cancelled` ends the job.",
    "JobChange.reason": "Why it is cancelled.",
    "LaunchBody.app_id": "The application that starts.",
    "MaintenanceBody.reason": "Why, for people.",
    "MaintenanceBody.until": "When it ends by itself: a time, so long from now (`+2h`), or the "
    "next time of day (`06:30`) in the zone of the service; null: when somebody ends it.",
    "PeriodBody.start": "When it begins.",
    "PeriodBody.end": "When it is over.",
    "PeriodBody.title": "Why, for people.",
    "ReplayBody.eventrule_id": "The event rule.",
    "RescheduleBody.delay": "Seconds until it starts again.",
    "RetentionBody.jobs_days": "Days an ended job is kept.",
    "RetentionBody.jobs_count": "Ended jobs of a run template that are kept.",
    "RetentionBody.output_days": "Days output and artifacts of an ended job are kept.",
    "RetentionBody.runs_days": "Days Prefect keeps the flow run of an ended job, and its logs.",
    "RetentionBody.tasks_days": "Days after its deadline an ended task is kept.",
    "RolesBody.replace": "Instead of the roles there are (the default), or beside them.",
    "RolesBody.assigned_by": "Read and not used: it is who asks.",
    "SignedIn.user": "Who has signed in.",
    "SlackBody.uri": "The address, kept encrypted; masked or left out: stays as it is.",
    "SourceBody.company": "Slug of the company, instead of `company_id`; without both, of no one.",
    "StalePlan.error": "The name of the status.",
    "StalePlan.message": "One line for people.",
    "StalePlan.request_id": "The request, as the service's log and the audit log name it.",
    "TemplateBody.app_uuid": "uuid of the application, instead of `app_id`.",
    "TemplateBody.app": "Name of the application, instead of `app_id`.",
    "TemplateBody.company": "Slug of the company, instead of `company_id`.",
    "TemplateBody.credentials": "Ids of credentials, or their names within the company, instead "
    "of those there are.",
    "TimesBody.from": "When it begins, `HH:MM`.",
    "TimesBody.to": "When it is over, `HH:MM`; where that is not later, on the next day.",
    "TimesBody.weekdays": "The days on which it begins; none: each.",
    "TimesBody.title": "Why, for people.",
    "TopicBody.company_id": "The company it belongs to, and whose run templates alone use it; "
    "null: it is shared. System-wide roles alone change it.",
    "TopicBody.company": "Slug of the company, instead of `company_id`.",
    "UserBody.password": "Stored as a hash only, never in an answer.",
    "WebHookBody.uri": "The address that is told.",
    "WebHookBody.secret": "Key of the signature.",
}
"""By schema and field."""


def describe_field(schema: str, field: str) -> str | None:
    """Describe a field of a body: by its own text, else by that of the record's field.

    Returns:
        None where there is neither.
    """
    if f"{schema}.{field}" in ABOUT:
        return ABOUT[f"{schema}.{field}"]
    record_field = RECORDS[schema].model_fields.get(field) if schema in RECORDS else None
    return record_field.description if record_field else None
