"""Records: one class per kind."""

from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.records.applications import App, AppVersion, Company, RunTemplate
from jobauto_prefect.ledger.records.audit import AuditArchive, AuditEntry, AuditSeal, AuditTally
from jobauto_prefect.ledger.records.closed_time import Calendar, Freeze
from jobauto_prefect.ledger.records.credentials import (
    Credential,
    CredentialType,
    TemplateCredential,
    Topic,
)
from jobauto_prefect.ledger.records.events import (
    Delivery,
    Event,
    EventRule,
    EventSource,
    PendingAction,
)
from jobauto_prefect.ledger.records.internal import (
    IdempotencyRecord,
    InstallationValue,
    NamedLock,
    Notice,
    OutboxMessage,
    PartRecord,
    SignInFailure,
    SignInSuccess,
    UnconfirmedEnd,
    WorkerRecord,
)
from jobauto_prefect.ledger.records.jobs import Artifact, Job, JobTally, Lease, OutputLine, Task
from jobauto_prefect.ledger.records.users import CompanyUser, Token, User, UserRole

__all__ = [
    "App",
    "AppVersion",
    "Artifact",
    "AuditArchive",
    "AuditEntry",
    "AuditSeal",
    "AuditTally",
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
    "Freeze",
    "IdempotencyRecord",
    "InstallationValue",
    "Job",
    "JobTally",
    "Lease",
    "NamedLock",
    "Notice",
    "OutboxMessage",
    "OutputLine",
    "PartRecord",
    "PendingAction",
    "RunTemplate",
    "SignInFailure",
    "SignInSuccess",
    "Task",
    "TemplateCredential",
    "Token",
    "Topic",
    "UnconfirmedEnd",
    "User",
    "UserRole",
    "WorkerRecord",
]
