"""What is answered beside records: errors, what was done, states, signs of being signed in."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from jobauto_prefect.facade.answers import ErrorSummary, Fault
from jobauto_prefect.facade.auth.permissions import Role
from jobauto_prefect.facade.kinds.applications import ApplicationVersion
from jobauto_prefect.facade.kinds.audit_entries import AuditEntry
from jobauto_prefect.facade.kinds.companies import Member
from jobauto_prefect.facade.kinds.jobs import Job, Output
from jobauto_prefect.facade.kinds.registry import RESOURCES
from jobauto_prefect.facade.kinds.users import AssignedRole, IssuedToken, Token, User
from jobauto_prefect.facade.openapi import apply_models, suggestion_models
from jobauto_prefect.facade.openapi.service_models import (
    Drift,
    Forecast,
    Index,
    JobsByState,
    Maintenance,
    Ping,
    Pruned,
    Reconciled,
    Status,
    WorkerLost,
    WorkerState,
    WorkPool,
)


class Formats(BaseModel):
    """The formats that are spoken, where one was asked for that is not."""

    formats: list[str] = Field(description="The formats that are spoken.")


class Error(ErrorSummary):
    """Every error looks like this, in the format that was asked for."""

    details: list[Fault] | Formats | None = Field(
        default=None,
        description="Every error in the request, or the formats that are spoken.",
    )


class Written(BaseModel):
    """What the answer to a write has besides the record."""

    created: bool = Field(description="Whether the record is new.")
    warnings: list[Fault] = Field(
        default=[],
        description="What is allowed and surely wrong.",
    )


class Deleted(BaseModel):
    """A record is gone: from lists and from Prefect; history keeps it."""

    id: int = Field(description="The number of the record.")
    deleted: Literal[True] = Field(description="Always true.")
    success: Literal[True] = Field(description="Always true.")


class JobKept(BaseModel):
    """A job that was chosen and stays, and why."""

    job_id: int = Field(description="The job.")
    reason: str = Field(description="Why.")


class JobsDeleted(BaseModel):
    """Which jobs of those that a filter chose are gone, or with `dry_run` would be."""

    dry_run: bool = Field(description="Whether it was only tried.")
    matched: int = Field(description="How many the filters choose.")
    deleted: int = Field(description="How many are gone; none with `dry_run`.")
    job_ids: list[int] = Field(description="Those that are gone, or would be.")
    kept: list[JobKept] = Field(description="The jobs that were chosen and stay.")


class RolesSet(BaseModel):
    """The roles a user has from now on."""

    user_id: int = Field(description="The user.")
    replace: bool = Field(
        description="Instead of the roles there are (the default), or beside them."
    )
    roles: list[Role] = Field(description="The roles, by name.")


class MembershipEnded(BaseModel):
    """The user is no member of the company any more."""

    company_id: int = Field(description="The company.")
    user_id: int = Field(description="The user.")
    deleted: Literal[1] = Field(description="How many memberships have ended.")
    success: Literal[True] = Field(description="Always true.")


class CredentialRevealed(BaseModel):
    """A credential with its secret values in clear."""

    id: int = Field(description="The number of the record.")
    name: str = Field(description="The name for people.")
    values: dict[str, str] = Field(description="All its values in clear.")


class SourceTested(BaseModel):
    """What a test of an event source found."""

    reachable: bool = Field(description="Whether its changes can be read.")
    message: str = Field(description="One line for people.")


class SignedInUser(BaseModel):
    """Who has signed in."""

    id: int = Field(description="The number of the record.")
    login: str = Field(description="The name to sign in with.")
    email: str | None = Field(description="Address for mail.")


class SignedIn(BaseModel):
    """A token, for the header `Authorization: Bearer TOKEN`."""

    token: str = Field(description="The token; it is shown here only.")
    expires_at: datetime = Field(description="When it ends to count; null: never.")
    user: SignedInUser = Field(description="The user.")
    status: Literal["success"] = Field(description="Always success.")
    message: str = Field(description="One line for people.")


class SignedOut(BaseModel):
    """The token is worth nothing any more."""

    message: str = Field(description="One line for people.")
    status: Literal["success"] = Field(description="Always success.")


class Association(Member):
    """A membership with the name of the company."""

    company: str | None = Field(description="Name of the company.")


class ExportMetadata(BaseModel):
    """When an export was made."""

    generated_at: datetime = Field(description="When it was made.")


class DataExport(BaseModel):
    """What the service holds about a user: the newest 1000 jobs and audit entries, all else."""

    export_metadata: ExportMetadata = Field(description="About the export.")
    user_profile: User = Field(description="The user.")
    company_associations: list[Association] = Field(
        description="The companies the user is a member of."
    )
    tokens: list[Token] = Field(description="The tokens of the user.")
    job_history: list[Job] = Field(description="The jobs the user has started.")
    audit_trails: list[AuditEntry] = Field(description="What the user has done.")


SHAPES: tuple[type[BaseModel], ...] = (
    *(resource.answer for resource in RESOURCES),
    *(resource.detail for resource in RESOURCES if resource.detail),
    ApplicationVersion,
    AssignedRole,
    Member,
    Output,
    CredentialRevealed,
    DataExport,
    Deleted,
    Drift,
    Error,
    Forecast,
    Index,
    IssuedToken,
    JobsByState,
    JobsDeleted,
    MembershipEnded,
    Ping,
    Pruned,
    Reconciled,
    RolesSet,
    SignedIn,
    SignedOut,
    SourceTested,
    Status,
    Token,
    WorkPool,
    Maintenance,
    WorkerLost,
    WorkerState,
    Written,
    *suggestion_models.SHAPES,
    *apply_models.SHAPES,
)
