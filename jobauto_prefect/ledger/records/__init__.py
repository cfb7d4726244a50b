"""What is remembered: one class per record kind."""

from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.records.actions import OwedAction
from jobauto_prefect.ledger.records.applications import App, AppVersion, Company, RunTemplate
from jobauto_prefect.ledger.records.bookkeeping import (
    Fact,
    KeptAnswer,
    SignInFailure,
    SignInSuccess,
    Turn,
    UnconfirmedEnd,
    Wish,
    WorkerRecord,
)
from jobauto_prefect.ledger.records.calendars import Calendar
from jobauto_prefect.ledger.records.credentials import (
    Credential,
    CredentialType,
    TemplateCredential,
    Topic,
)
from jobauto_prefect.ledger.records.events import Delivery, Event, EventRule, EventSource
from jobauto_prefect.ledger.records.maintenance import Freeze
from jobauto_prefect.ledger.records.notices import Notice
from jobauto_prefect.ledger.records.people import CompanyUser, Token, User, UserRole
from jobauto_prefect.ledger.records.trail import AuditArchive, AuditEntry, AuditSeal
from jobauto_prefect.ledger.records.work import Artifact, Job, Lease, OutputLine, Task

__all__ = [
    "App",
    "AppVersion",
    "Artifact",
    "AuditArchive",
    "AuditEntry",
    "AuditSeal",
    "Base",
    "Calendar",
    "Company",
    "CompanyUser",
    "Credential",
    "CredentialType",
    "Delivery",
    "Event",
    "EventRule",
    "EventSource",
    "Fact",
    "Freeze",
    "Job",
    "KeptAnswer",
    "Lease",
    "Notice",
    "OutputLine",
    "OwedAction",
    "RunTemplate",
    "SignInFailure",
    "SignInSuccess",
    "Task",
    "TemplateCredential",
    "Token",
    "Topic",
    "Turn",
    "UnconfirmedEnd",
    "User",
    "UserRole",
    "Wish",
    "WorkerRecord",
]
