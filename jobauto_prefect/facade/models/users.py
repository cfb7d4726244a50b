"""The records of users, their roles and tokens, as responses show them."""

from datetime import datetime

from pydantic import BaseModel, Field

from jobauto_prefect.facade.auth.permissions import Role
from jobauto_prefect.facade.models.common import Timed


class User(Timed):
    """A person or program that signs in."""

    login: str = Field(description="The name to sign in with.")
    email: str | None = Field(description="Address for mail.")
    firstname: str | None = Field(title="First name", description="First name.")
    lastname: str | None = Field(title="Last name", description="Last name.")
    enabled: bool = Field(description="Whether it may be used.")
    roles: list[Role] = Field(description="The roles, by name.")


class AssignedRole(BaseModel):
    """A role that a user has."""

    id: int = Field(description="The number of the record.")
    name: Role = Field(description="The role, as requests name it.")
    display_name: str = Field(description="The name for people.")
    description: str = Field(description="What it is for.")
    assigned_by: str | None = Field(description="Who gave the role.")
    assigned_at: datetime = Field(description="When the role was given.")
    expires_at: datetime | None = Field(description="When it ends to count; null: never.")


class Token(BaseModel):
    """What is known of a token; its text is not."""

    id: int = Field(description="The number of the record.")
    kind: str = Field(
        description="What it is: user; sign-in or session, which end with the password; worker."
    )
    expires_at: datetime | None = Field(description="When it ends to count; null: never.")
    revoked_at: datetime | None = Field(description="When it was revoked.")
    last_used_at: datetime | None = Field(description="When it was last used.")
    created_at: datetime = Field(description="When it was made.")


class IssuedToken(Token):
    """A new token; this is the only answer that has its text."""

    token: str = Field(description="Its text.")
