"""The secret values of a credential in clear, for those who may; each time with an audit entry."""

from typing import Any

from fastapi import APIRouter, Request, Response

from jobauto_prefect.definitions.mask import MASK
from jobauto_prefect.facade.auth.identity import CurrentUser
from jobauto_prefect.facade.http.responses import format_of, respond_plain
from jobauto_prefect.facade.resources.natural_keys import key_type
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger.audit.trail import write_entry
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.records import Credential

CredentialKey: Any = key_type(Credential, "credential_id")


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    router.post("/credential/{credential_id}/reveal.{suffix}", name="reveal credential")(
        reveal_credential
    )
    router.post("/credential/{credential_id}/reveal", include_in_schema=False)(reveal_credential)


def reveal_credential(
    credential_id: CredentialKey, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Return all values of a credential in clear. The audit entry is there before the answer is."""
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
