"""Records of credential types, credentials and topics."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from sqlalchemy import JSON, ForeignKey, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from jobauto_prefect.ledger.base import (
    SEALED,
    UNAUDITED,
    Audited,
    Base,
    Labelled,
    Retirable,
    unique_while_active,
    unique_while_shared,
)

if TYPE_CHECKING:
    from jobauto_prefect.ledger.records.applications import Company


class CredentialType(Audited, Labelled, Retirable, Base):
    """A kind of credential; `fields` have keyword, type, name, required and so on.

    `translations` are texts in several languages: field -> language -> text. `availability` says
    how to check that the target of its credentials is available; None: it always is. `source` is
    the kind of store that holds further values; None: there are none. `stock`: it was created at
    the first start, and nobody has saved it since. `company_id` is the company it belongs to; None:
    it is shared.
    """

    __tablename__ = "credential_type"
    __table_args__ = (
        unique_while_active("credential_type", "company_id", "code"),
        unique_while_shared("credential_type", "code"),
        unique_while_active("credential_type", "uuid"),
    )
    entity_name: ClassVar[str] = "CredentialType"

    id: Mapped[int] = mapped_column(primary_key=True)
    company_id: Mapped[int | None] = mapped_column(ForeignKey("company.id"))
    uuid: Mapped[str | None]
    code: Mapped[str]
    name: Mapped[str]
    description: Mapped[str | None] = mapped_column(Text)
    version: Mapped[str | None]
    url: Mapped[str | None]
    homepage: Mapped[str | None]
    logo: Mapped[str | None] = mapped_column(Text)
    tags: Mapped[list[str]] = mapped_column(default=list)
    translations: Mapped[dict[str, Any]] = mapped_column(default=dict)
    fields: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
    availability: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    source: Mapped[str | None]
    stock: Mapped[bool] = mapped_column(default=False, info=UNAUDITED)
    block_type_id: Mapped[UUID | None] = mapped_column(info=UNAUDITED)
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
    updated_at: Mapped[datetime] = mapped_column(info=UNAUDITED)


class Credential(Audited, Labelled, Retirable, Base):
    """Values of a credential type, of one company; `secrets` are the encrypted ones.

    `max_jobs` is how many jobs may use it at a time, None: any number.
    """

    __tablename__ = "credential"
    __table_args__ = (unique_while_active("credential", "company_id", "name"),)
    entity_name: ClassVar[str] = "Credential"

    id: Mapped[int] = mapped_column(primary_key=True)
    company_id: Mapped[int] = mapped_column(ForeignKey("company.id"), index=True)
    credential_type_id: Mapped[int] = mapped_column(ForeignKey("credential_type.id"), index=True)
    name: Mapped[str]
    values: Mapped[dict[str, str]] = mapped_column(default=dict)
    secrets: Mapped[dict[str, str]] = mapped_column(default=dict, info=SEALED)
    max_jobs: Mapped[int | None]
    block_document_id: Mapped[UUID | None] = mapped_column(info=UNAUDITED)
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
    updated_at: Mapped[datetime] = mapped_column(info=UNAUDITED)

    credential_type: Mapped[CredentialType] = relationship()
    company: Mapped["Company"] = relationship()


class TemplateCredential(Audited, Base):
    """A credential whose values the jobs of a run template get.

    Of two values with the same name, that of the later `position` counts.
    """

    __tablename__ = "runtemplate_credential"
    __table_args__ = (UniqueConstraint("runtemplate_id", "credential_id"),)
    entity_name: ClassVar[str] = "RunTemplateCredential"

    id: Mapped[int] = mapped_column(primary_key=True)
    runtemplate_id: Mapped[int] = mapped_column(ForeignKey("runtemplate.id"))
    credential_id: Mapped[int] = mapped_column(ForeignKey("credential.id"), index=True)
    position: Mapped[int]

    credential: Mapped[Credential] = relationship(lazy="joined")

    @property
    def company_id(self) -> int:
        """The company that owns the credential."""
        return self.credential.company_id


class Topic(Audited, Labelled, Retirable, Base):
    """A tag with a colour (six hexadecimal digits).

    `company_id` is the company it belongs to; None: it is shared.
    """

    __tablename__ = "topic"
    __table_args__ = (
        unique_while_active("topic", "company_id", "name"),
        unique_while_shared("topic", "name"),
    )
    entity_name: ClassVar[str] = "Topic"

    id: Mapped[int] = mapped_column(primary_key=True)
    company_id: Mapped[int | None] = mapped_column(ForeignKey("company.id"))
    name: Mapped[str]
    description: Mapped[str | None] = mapped_column(Text)
    color: Mapped[str] = mapped_column(default="C0C0C0")
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
    updated_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
