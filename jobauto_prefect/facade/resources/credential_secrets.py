"""Revealing the secret values of a credential, each time with an audit entry."""

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.facade.answers import Answer
from jobauto_prefect.facade.auth.identity import CurrentUser
from jobauto_prefect.facade.http.operations import answered, operation
from jobauto_prefect.facade.http.responses import format_of, respond_plain
from jobauto_prefect.facade.kinds.natural_keys import key_type
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger.audit.trail import write_entry
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.records import Credential

CredentialKey: Any = key_type(Credential, "credential_id")


router = APIRouter()


class CredentialRevealed(Answer):
    """A credential with its secret values in plain text."""

    id: int = Field(description="The number of the record.")
    name: str = Field(description="The name for people.")
    values: dict[str, str] = Field(description="All its values in plain text.")


@operation(
    router, "POST /credential/{credential_id}/reveal.{suffix}", "revealCredential",
    "Reveal a credential",
    "All values of the credential in plain text. Each request is recorded in the audit log before "
    "it is answered. Needs `credentials.reveal`.",
    tag="Credentials", answer=answered("The values.", CredentialRevealed), errors=(413, 415),
)  # fmt: skip
def reveal_credential(
    credential_id: CredentialKey, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Return all values of a credential in plain text; the audit entry is committed first."""
    format_of(request)
    with service.ledger.writing(who.actor) as session:
        credential = get_record(session, Credential, credential_id)
        company = credential.company_id
        if not who.rights.may("credentials.reveal", company):
            who.rights.require("companies", "read", company, credential)  # 404 before 403
            who.rights.require("credentials", "reveal", company)
        secrets = service.ledger.box.open(credential.secrets)
        shown = {name: [None, MASK] for name in secrets}
        write_entry(session, "Credential", "reveal", shown, credential.id, company)
        values = dict(sorted({**credential.values, **secrets}.items()))
    data = {"id": credential_id, "name": credential.name, "values": values}
    return respond_plain(request, who, f"Credential {credential_id} in clear", data)
