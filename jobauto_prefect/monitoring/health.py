"""Whether a part is alive, and whether it can do its work."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import httpx

from jobauto_prefect import certificates
from jobauto_prefect.errors import JobautoError
from jobauto_prefect.monitoring.loops import STUCK_SECONDS, Loops

ANSWER_SECONDS = 3.0
"""Timeout of a check."""

Check = Callable[[], Awaitable[str | None]]
"""Returns what is wrong; None if all is well."""


async def run_checks(checks: Mapping[str, Check]) -> dict[str, str | None]:
    """Return the result of each check, all run concurrently; None if all is well."""
    reasons = await asyncio.gather(*(_answer(check) for check in checks.values()))
    return dict(zip(checks, reasons, strict=True))


async def _answer(check: Check) -> str | None:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await check()
    except TimeoutError:
        return f"no answer within {ANSWER_SECONDS:g} seconds"
    except JobautoError as error:
        return str(error)


def check_loops(loops: Loops) -> Check:
    """Check that all loops are running."""

    async def check() -> str | None:
        stuck = ", ".join(loops.stuck())
        return f"no end for {STUCK_SECONDS:g} seconds: {stuck}" if stuck else None

    return check


def check_answers(url: str) -> Check:
    """Check that a server answers this address with success."""

    async def check() -> str | None:
        verify = await asyncio.to_thread(certificates.verification, url)
        try:
            async with httpx.AsyncClient(timeout=ANSWER_SECONDS, verify=verify) as client:
                answer = await client.get(url)
        except httpx.HTTPError as error:
            return f"{url} does not answer: {str(error) or type(error).__name__}"
        return None if answer.is_success else f"{url} answers {answer.status_code}"

    return check
