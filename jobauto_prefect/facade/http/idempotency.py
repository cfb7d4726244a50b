"""`Idempotency-Key`: a repeated POST changes nothing and returns the first response again.

The response is stored in the write's own transaction: there is never one without the other. Only
successful writes have one; a rejected request is processed again.
"""

import hashlib
import json
import re
from dataclasses import dataclass

from fastapi import Request
from starlette.responses import Response

from jobauto_prefect.errors import Fault, InvalidInput, KeyReused
from jobauto_prefect.ledger.audit.trail import Actor, WritingSession
from jobauto_prefect.ledger.idempotency import stored_response
from jobauto_prefect.ledger.records import IdempotencyRecord

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
"""Header of a repeated response."""

STORED_HEADERS = ("content-type", "location", "warning")
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """A request to be processed once; `digest` is that of its query and body."""

    actor: str
    route: str
    key: str
    digest: str

    def stored_response(self, session: WritingSession) -> Response | None:
        """Return the answer to the first request with this key; None: do it, then `store` it.

        Raises:
            KeyReused: the first request was different.
            InProgress: the first request is still being processed.
        """
        kept = stored_response(session, self.actor, self.route, self.key)
        if kept is None:
            return None
        if kept.digest != self.digest:
            message = (
                "this key was used before for another request; make a new key for each request"
            )
            raise KeyReused([Fault(f"/{HEADER}", "reused", message)])
        headers = {**kept.headers, REPLAYED: "true"}
        return Response(kept.body, kept.status or 200, headers)

    def store(self, session: WritingSession, answer: Response) -> None:
        """Store the response to this session's write, to be committed with it."""
        headers = {name: answer.headers[name] for name in STORED_HEADERS if name in answer.headers}
        session.add(
            IdempotencyRecord(
                actor=self.actor,
                route=self.route,
                key=self.key,
                digest=self.digest,
                status=answer.status_code,
                headers=headers,
                body=bytes(answer.body),
            )
        )


def idempotent_request(
    request: Request, actor: Actor, route: str, raw: bytes
) -> IdempotentRequest | None:
    """Return a request's idempotency key with this body's digest; None: it has no key.

    `route` is one name for all spellings of the route. A key counts for one user, program or
    operator, and for one route.

    Raises:
        InvalidInput: the key is invalid, or there are several.
    """
    key = _key(request)
    if key is None:
        return None
    query = json.dumps(sorted(request.query_params.multi_items())).encode()
    digest = hashlib.sha256(len(query).to_bytes(8) + query + raw).hexdigest()
    who = actor.name if actor.user_id is None else f"user:{actor.user_id}"
    return IdempotentRequest(who, route, key, digest)


def _key(request: Request) -> str | None:
    given = request.headers.getlist(HEADER)
    if not given:
        return None
    if len(given) > 1 or not _KEY.fullmatch(given[0]):
        message = "send one key of 1 to 255 visible ASCII characters"
        raise InvalidInput([Fault(f"/{HEADER}", "format", message)])
    return given[0]
