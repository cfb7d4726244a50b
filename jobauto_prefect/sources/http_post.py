"""A POST to an address that was given to us, where the settings allow it."""

import asyncio
import contextlib
from collections.abc import Mapping

import httpx

from jobauto_prefect.errors import SourceUnavailable
from jobauto_prefect.sources.targets import TargetRules, address_of, web_target

ANSWER_SECONDS = 10.0


def webhook_client() -> httpx.AsyncClient:
    """Return a client for `post`, without proxies, which would be told names judged here."""
    return httpx.AsyncClient(timeout=ANSWER_SECONDS, trust_env=False)


async def post(
    client: httpx.AsyncClient,
    rules: TargetRules,
    url: str,
    content: bytes,
    headers: Mapping[str, str],
) -> str | None:
    """Post content; return why it was not accepted, without the address; None: it was."""
    try:
        request = await asyncio.to_thread(_request, client, rules, url, content, headers)
        async with asyncio.timeout(ANSWER_SECONDS), contextlib.AsyncExitStack() as stack:
            answer = await client.send(request, stream=True)
            stack.push_async_callback(answer.aclose)  # its status is all that is of interest
    except SourceUnavailable as error:
        return str(error)
    except (httpx.TimeoutException, TimeoutError):
        return f"no answer within {ANSWER_SECONDS:g} seconds"
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
        return f"it can't be reached ({type(error).__name__})"
    if answer.is_redirect:
        return f"HTTP {answer.status_code}; redirects are not followed"
    return None if answer.is_success else f"HTTP {answer.status_code}"


def _request(
    client: httpx.AsyncClient,
    rules: TargetRules,
    url: str,
    content: bytes,
    headers: Mapping[str, str],
) -> httpx.Request:
    """Build a request to the checked address: connecting by name again could lead elsewhere.

    Raises:
        SourceUnavailable: it may not be told anything.
    """
    target = httpx.URL(url)
    return client.build_request(
        "POST",
        target.copy_with(host=address_of(web_target(url), rules)),
        content=content,
        headers={"Host": target.netloc.decode("ascii"), **headers},
        extensions={"sni_hostname": target.host},
    )
