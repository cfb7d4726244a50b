"""The worker's client of the claims API (`/internal/v1`), and jobs that flows create as users."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

import httpx
from pydantic import BaseModel, ValidationError

from jobauto_prefect import certificates
from jobauto_prefect.clock import SharedClock
from jobauto_prefect.errors import (
    FacadeUnavailable,
    Fault,
    InvalidInput,
    JobautoError,
)
from jobauto_prefect.http_statuses import BUSY, REFUSALS
from jobauto_prefect.logs import current_log_context
from jobauto_prefect.runtime.output.artifacts import Artifact
from jobauto_prefect.runtime.protocol import (
    VERSION,
    VERSION_HEADER,
    ApplicationDocument,
    Claim,
    ClaimAnswer,
    OutputBatch,
    OutputLines,
    Renewal,
    RenewalAnswer,
    Report,
    ReportAnswer,
    WorkerHello,
    WorkerWelcome,
)

TIMEOUT_SECONDS = 15.0
Body = TypeVar("Body", bound=BaseModel)


class FacadeClient:
    """One client per worker. The token appears in no repr, message or log.

    `clock` is the ledger's time, from the answers to `hello` and `renew`.

    Each method makes one request and may raise, by the facade's answer, FacadeUnavailable (no
    answer, or one that says to retry), Unauthorized, Forbidden, NotFound, Conflict or InvalidInput.
    """

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self.clock = SharedClock("the service's")
        self._http = httpx.AsyncClient(
            base_url=f"{self.url}/internal/v1/",
            headers={"Authorization": f"Bearer {token}", VERSION_HEADER: VERSION},
            timeout=TIMEOUT_SECONDS,
            verify=certificates.verification(self.url),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def hello(self, message: WorkerHello) -> WorkerWelcome:
        """Register a starting worker. Conflict: a live worker with that name runs elsewhere."""
        asked_at = self.clock.uptime()
        answer = await self._post("workers", message, WorkerWelcome)
        self.clock.read(answer.now, asked_at, self.clock.uptime())
        return answer

    async def claim(self, message: Claim) -> ClaimAnswer:
        """Request the start of a flow run. Conflict: leave the run untouched."""
        return await self._post("claims", message, ClaimAnswer)

    async def renew(self, message: Renewal) -> RenewalAnswer:
        """Renew the leases of the worker's jobs; this is also its sign of life."""
        asked_at = self.clock.uptime()
        answer = await self._post("renewals", message, RenewalAnswer)
        self.clock.read(answer.now, asked_at, self.clock.uptime())
        return answer

    async def output(self, job_id: int, claim_id: UUID, output: list[OutputLines]) -> None:
        """Send output lines of a job."""
        batch = OutputBatch(claim_id=claim_id, output=output)
        await self._send(f"jobs/{job_id}/output", batch)

    async def artifact(self, job_id: int, claim_id: UUID, artifact: Artifact) -> None:
        """Send an artifact of a job."""
        await self._request(
            "PUT",
            f"jobs/{job_id}/artifacts",
            params={
                "claim_id": str(claim_id),
                "path": artifact.path,
                "name": artifact.name,
                "type": artifact.type,
            },
            content=artifact.content,
            headers={"Content-Type": "application/octet-stream"},
        )

    async def input(self, job_id: int, claim_id: UUID, artifact_id: int) -> bytes:
        """Return the content of one of a job's input files."""
        path, asked = f"jobs/{job_id}/inputs/{artifact_id}", {"claim_id": str(claim_id)}
        return (await self._request("GET", path, params=asked)).content

    async def report(self, job_id: int, message: Report) -> ReportAnswer:
        """Report how a job ended."""
        return await self._post(f"jobs/{job_id}/report", message, ReportAnswer)

    async def application(self, app_id: int) -> ApplicationDocument:
        """Return the definition of a compiled flow."""
        return _read(await self._request("GET", f"applications/{app_id}"), ApplicationDocument)

    async def start_job(self, fields: Mapping[str, Any], key: str) -> dict[str, Any]:
        """Create a job as a user, once for each `key`; the token is a user's."""
        headers = {"Idempotency-Key": key}
        made = await self._request(
            "POST", f"{self.url}/api/v1/job/", json=dict(fields), headers=headers
        )
        return await self.job(made.json()["id"])

    async def job(self, job_id: int) -> dict[str, Any]:
        """Return the record of a job as the user sees it."""
        record: dict[str, Any] = (
            await self._request("GET", f"{self.url}/api/v1/job/{job_id}.json")
        ).json()
        return record

    async def _post(self, path: str, message: BaseModel, answer: type[Body]) -> Body:
        return _read(await self._send(path, message), answer)

    async def _send(self, path: str, message: BaseModel) -> httpx.Response:
        headers = {"Content-Type": "application/json"}
        content = message.model_dump_json().encode()
        return await self._request("POST", path, content=content, headers=headers)

    async def _request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        traceparent = current_log_context().traceparent
        if traceparent is not None:
            arguments["headers"] = {**arguments.get("headers", {}), "traceparent": traceparent}
        try:
            response = await self._http.request(method, path, **arguments)
        except httpx.RequestError as error:
            reason = str(error) or type(error).__name__
            raise FacadeUnavailable(f"{self.url} does not answer: {reason}") from None
        if response.is_success:
            return response
        raise _refusal(response)


def _read(response: httpx.Response, answer: type[Body]) -> Body:
    try:
        content = response.json()
    except ValueError:  # a proxy, for example, answered
        raise FacadeUnavailable(f"{response.url.host} did not answer with JSON") from None
    try:
        return answer.model_validate(content)
    except ValidationError as error:
        # The content may hold secrets: only report the places.
        places = ", ".join(".".join(map(str, item["loc"])) for item in error.errors())
        raise JobautoError(
            f"the facade's {answer.__name__} can't be read ({places});"
            " install the same version of jobauto for facade and worker"
        ) from None


def _refusal(response: httpx.Response) -> JobautoError:
    """Return the error for an answer, with the facade's message if it has one."""
    status = response.status_code
    try:
        message = str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        message = f"HTTP {status} from {response.url.host}{response.url.path}"
    if status >= 500 or status in BUSY:
        return FacadeUnavailable(message)
    if status in REFUSALS:
        return REFUSALS[status](message)
    return InvalidInput([Fault("", f"http-{status}", message)], message)
