"""The secret values of a credential in clear, for those who may; each time with an audit entry."""

from typing import Any

from fastapi import APIRouter, Request, Response

from jobauto_prefect.definitions.masks import MASK
from jobauto_prefect.facade.access import allow
from jobauto_prefect.facade.answers import format_of, plain
from jobauto_prefect.facade.auth import Person
from jobauto_prefect.facade.names import key_of
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.audit import write_entry
from jobauto_prefect.ledger.records import Credential

CredentialKey: Any = key_of(Credential, "credential_id")


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    router.post("/credential/{credential_id}/reveal.{suffix}", name="reveal credential")(reveal)
    router.post("/credential/{credential_id}/reveal", include_in_schema=False)(reveal)


def reveal(
    credential_id: CredentialKey, request: Request, who: Person, service: CurrentService
) -> Response:
    """All values of a credential in clear. The audit entry is there before the answer is."""
    format_of(request)
    with service.ledger.writing(who.actor) as session:
        credential = queries.get(session, Credential, credential_id)
        company = credential.company_id
        if not who.rights.may("credentials.reveal", company):
            allow(who, "companies", "read", company, credential)  # 404 before 403
            allow(who, "credentials", "reveal", company)
        secrets = service.ledger.box.open(credential.secrets)
        shown = {name: [None, MASK] for name in secrets}
        write_entry(session, "Credential", "reveal", shown, credential.id, company)
        values = dict(sorted({**credential.values, **secrets}.items()))
    data = {"id": credential_id, "name": credential.name, "values": values}
    return plain(request, who, f"Credential {credential_id} in clear", data)
