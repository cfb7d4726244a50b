"""A container engine. Its client blocks, so each call runs in a thread."""

import asyncio
import contextlib
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import docker  # type: ignore[import-untyped]
from docker.errors import APIError, DockerException, NotFound  # type: ignore[import-untyped]
from docker.utils import (  # type: ignore[import-untyped]
    kwargs_from_env,
    parse_repository_tag,
)
from requests import RequestException

from jobauto_prefect.errors import StartFailed, WorkerUnable
from jobauto_prefect.runtime.exit_codes import NOT_EXECUTABLE

ANSWER_SECONDS = 60  # for one call, and for each chunk of a streaming one

Result = TypeVar("Result")


class EngineUnavailable(Exception):
    """The engine does not answer, or not properly; it may recover."""


class EngineFailed(EngineUnavailable):
    """The engine answers with an error of its own (5xx)."""


class NoSuchContainer(Exception):
    """No such container exists."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of an engine; `setting` is the variable that sets it."""

    name: str
    url: str
    setting: str


def connect(url: str) -> Any:
    """Return a client of the Docker API, using DOCKER_TLS_VERIFY and DOCKER_CERT_PATH.

    Raises:
        DockerException: the engine does not answer.
    """
    tls = {name: value for name, value in kwargs_from_env().items() if name != "base_url"}
    return docker.APIClient(
        base_url=url,
        version="auto",
        timeout=ANSWER_SECONDS,
        **(tls if url.startswith(("tcp:", "https:")) else {}),
    )


class Engine:
    """A Docker or Podman engine; connects on the first call."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._client: Any = None
        self._rootless: bool | None = None
        self._connecting = asyncio.Lock()
        self._threads: anyio.CapacityLimiter | None = None

    async def _thread(self, work: Callable[[], Result]) -> Result:
        # Calls that wait for a container's end must not use up the threads of others.
        self._threads = self._threads or anyio.CapacityLimiter(math.inf)
        try:
            return await anyio.to_thread.run_sync(
                work, abandon_on_cancel=True, limiter=self._threads
            )
        except NotFound as error:
            raise NoSuchContainer(_error_text(error)) from None
        except APIError as error:
            if error.is_client_error():
                raise StartFailed(_error_text(error), NOT_EXECUTABLE) from None
            raise EngineFailed(_error_text(error)) from None
        except (DockerException, RequestException, OSError) as error:
            raise EngineUnavailable(f"{self.address.name} at {self.address.url}: {error}") from None

    async def client(self) -> Any:
        """Return the client, connected.

        Raises:
            WorkerUnable: the engine does not answer.
        """
        async with self._connecting:
            if self._client is None:
                try:
                    self._client = await self._thread(lambda: connect(self.address.url))
                except EngineUnavailable as error:
                    raise WorkerUnable(
                        f"{self.address.name} does not answer: {error}; start it, or set"
                        f" {self.address.setting} to its address",
                        self.address.name,
                    ) from None
            return self._client

    async def call(self, method: str, *values: Any, **named: Any) -> Any:
        """Call a method of the client in a thread.

        Raises:
            NoSuchContainer, EngineUnavailable
            StartFailed: the engine refuses it.
        """
        client = await self.client()
        return await self._thread(functools.partial(getattr(client, method), *values, **named))

    async def run(self, work: Callable[[Any], Result]) -> Result:
        """Run a longer operation with the client in a thread; raises as `call` does."""
        client = await self.client()
        return await self._thread(lambda: work(client))

    async def is_rootless(self) -> bool:
        """Whether root in its containers is an ordinary user of the machine; asked once.

        Raises:
            WorkerUnable: the engine does not answer.
        """
        if self._rootless is None:
            try:
                options = (await self.call("info")).get("SecurityOptions") or []
            except (EngineUnavailable, NoSuchContainer) as error:
                raise self.unable(error) from None
            self._rootless = any("rootless" in option for option in options)
        return self._rootless

    async def pull(self, image: str) -> None:
        """Fetch an image from its registry.

        Raises:
            StartFailed: it can't be pulled.
            WorkerUnable: the engine does not answer.
        """

        def pull(client: Any) -> None:
            repository, tag = parse_repository_tag(image)
            options = {"tag": tag or "latest", "stream": True, "decode": True}
            for event in client.pull(repository, **options):
                if "error" in event:
                    raise StartFailed(str(event["error"]))

        try:
            await self.run(pull)
        except WorkerUnable:
            raise
        # Docker's own error is also its answer for a registry that it can't reach.
        except (NoSuchContainer, StartFailed, EngineFailed) as error:
            raise StartFailed(f"image {image} can't be pulled: {error}", NOT_EXECUTABLE) from None
        except EngineUnavailable as error:
            raise self.unable(error) from None

    def unable(self, error: Exception) -> WorkerUnable:
        """Return the error for an engine that does not answer, or not properly."""
        answer = "answers with an error" if isinstance(error, EngineFailed) else "does not answer"
        return WorkerUnable(f"{self.address.name} {answer}: {error}", self.address.name)

    async def check(self) -> None:
        """Check that the engine answers.

        Raises:
            WorkerUnable: it does not answer.
        """
        try:
            await self.call("ping")
        except EngineUnavailable as error:
            raise self.unable(error) from None

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()


def end_container(client: Any, container: str, seconds: float) -> None:
    """Stop a container (TERM, KILL after `seconds`) and remove it; a missing one is ignored.

    Raises:
        APIError, RequestException: it may still exist.
    """
    with contextlib.suppress(APIError):  # it is not running, or is gone
        if seconds > 0:
            client.stop(container, timeout=math.ceil(seconds))
        else:
            client.kill(container)
    with contextlib.suppress(NotFound):
        client.remove_container(container, v=True, force=True)


def _error_text(error: APIError) -> str:
    return str(error.explanation or error)
