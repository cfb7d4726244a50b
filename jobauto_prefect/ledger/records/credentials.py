"""Credential types, credentials, and topics."""

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import JSON, ForeignKey, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from jobauto_prefect.ledger.base import (
    SECRET,
    UNAUDITED,
    Audited,
    Base,
    Labelled,
    Retirable,
    unique_while_active,
)


class CredentialType(Audited, Labelled, Retirable, Base):
    """A kind of credential; `fields` are its members: keyword, type, name, required and such."""

    __tablename__ = "credential_type"
    __table_args__ = (
        unique_while_active("credential_type", "code"),
        unique_while_active("credential_type", "uuid"),
    )
    entity_name: ClassVar[str] = "CredentialType"

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str | None]
    code: Mapped[str]
    name: Mapped[str]
    description: Mapped[str | None] = mapped_column(Text)
    version: Mapped[str | None]
    url: Mapped[str | None]
    homepage: Mapped[str | None]
    logo: Mapped[str | None] = mapped_column(Text)
    fields: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
    updated_at: Mapped[datetime] = mapped_column(info=UNAUDITED)


class Credential(Audited, Labelled, Retirable, Base):
    """Values of a credential type, of one company; `secrets` are the encrypted ones."""

    __tablename__ = "credential"
    __table_args__ = (unique_while_active("credential", "company_id", "name"),)
    entity_name: ClassVar[str] = "Credential"

    id: Mapped[int] = mapped_column(primary_key=True)
    company_id: Mapped[int] = mapped_column(ForeignKey("company.id"), index=True)
    credential_type_id: Mapped[int] = mapped_column(ForeignKey("credential_type.id"), index=True)
    name: Mapped[str]
    values: Mapped[dict[str, str]] = mapped_column(default=dict)
    secrets: Mapped[dict[str, str]] = mapped_column(default=dict, info=SECRET)
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
    updated_at: Mapped[datetime] = mapped_column(info=UNAUDITED)

    credential_type: Mapped[CredentialType] = relationship()


class Topic(Audited, Labelled, Retirable, Base):
    """A tag with a colour (six hexadecimal digits)."""

    __tablename__ = "topic"
    __table_args__ = (unique_while_active("topic", "name"),)
    entity_name: ClassVar[str] = "Topic"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    description: Mapped[str | None] = mapped_column(Text)
    color: Mapped[str] = mapped_column(default="C0C0C0")
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
    updated_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
