"""Records of users, roles, memberships and tokens."""

from datetime import datetime
from typing import ClassVar

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from jobauto_prefect.ledger.base import (
    SECRET,
    UNAUDITED,
    Audited,
    Base,
    Retirable,
    unique_while_active,
)


class User(Audited, Retirable, Base):
    """A person or program that signs in."""

    __tablename__ = "user"
    __table_args__ = (unique_while_active("user", "login"),)
    entity_name: ClassVar[str] = "User"

    id: Mapped[int] = mapped_column(primary_key=True)
    login: Mapped[str]
    email: Mapped[str | None]
    firstname: Mapped[str | None]
    lastname: Mapped[str | None]
    enabled: Mapped[bool] = mapped_column(default=True)
    password_hash: Mapped[str | None] = mapped_column(info=SECRET)
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
    updated_at: Mapped[datetime] = mapped_column(info=UNAUDITED)

    role_assignments: Mapped[list["UserRole"]] = relationship(
        order_by="UserRole.id", cascade="all, delete-orphan", lazy="selectin"
    )
    memberships: Mapped[list["CompanyUser"]] = relationship(
        order_by="CompanyUser.id", cascade="all, delete-orphan", lazy="selectin"
    )


class UserRole(Audited, Base):
    """A role of a user; None for `expires_at`: it does not expire."""

    __tablename__ = "user_role"
    __table_args__ = (UniqueConstraint("user_id", "role"),)
    entity_name: ClassVar[str] = "UserRole"

    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("user.id"), index=True)
    role: Mapped[str]
    assigned_by: Mapped[str | None]
    assigned_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]


class CompanyUser(Audited, Base):
    """A user's membership in a company, with the role there."""

    __tablename__ = "company_user"
    __table_args__ = (UniqueConstraint("company_id", "user_id"),)
    entity_name: ClassVar[str] = "CompanyUser"

    id: Mapped[int] = mapped_column(primary_key=True)
    company_id: Mapped[int] = mapped_column(ForeignKey("company.id"), index=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("user.id"), index=True)
    role: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)


class Token(Audited, Base):
    """A bearer token of a user, or of a worker for `pools`; only its hash is stored."""

    __tablename__ = "token"
    entity_name: ClassVar[str] = "Token"

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    user_id: Mapped[int | None] = mapped_column(ForeignKey("user.id"), index=True)
    pools: Mapped[list[str]] = mapped_column(default=list)
    hash: Mapped[str] = mapped_column(unique=True, info=SECRET)
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None] = mapped_column(info=UNAUDITED)
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)

    user: Mapped[User | None] = relationship()
