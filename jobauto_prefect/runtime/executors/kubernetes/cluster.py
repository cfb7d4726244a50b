"""Calls to a Kubernetes API, through the official client's connection, and their retries.

Objects are plain JSON, because a server may be older or newer than the client's models.
"""

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from kubernetes.aio import config as untyped_config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.stream import WsApiClient

from jobauto_prefect.errors import NotReady
from jobauto_prefect.retries import retry
from jobauto_prefect.runtime.executors.kubernetes.pods import Object

IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
config: Any = untyped_config


async def load_configuration(configuration: Configuration, context: str | None) -> str:
    """Fill in address and credentials; return their namespace.

    `context` is a context of the configuration; None: the current one.

    Raises:
        NotReady: no configuration was found, or it can't be used.
    """
    # The client reads KUBECONFIG only when it is imported.
    file = os.environ.get("KUBECONFIG") or await asyncio.to_thread(_default_file)
    in_cluster = "KUBERNETES_SERVICE_HOST" in os.environ
    try:
        if "KUBECONFIG" in os.environ or context or (file and not in_cluster):
            options = {"config_file": file, "context": context, "persist_config": False}
            await config.load_kube_config(client_configuration=configuration, **options)
            return await asyncio.to_thread(_namespace_of, file, context)
        if in_cluster:
            config.load_incluster_config(client_configuration=configuration)
            return await asyncio.to_thread(IN_CLUSTER.read_text)
    except (untyped_config.ConfigException, OSError, ValueError, KeyError, TypeError) as error:
        raise NotReady(f"the configuration of the cluster can't be used: {error}") from None
    raise NotReady("no cluster is configured: set KUBECONFIG, as for kubectl")


def _default_file() -> str | None:
    file = Path("~/.kube/config").expanduser()
    return str(file) if file.exists() else None


def _namespace_of(file: str | None, context: str | None) -> str:
    contexts, current = config.list_kube_config_contexts(config_file=file)
    chosen = next((entry for entry in contexts if entry["name"] == context), current)
    namespace: str = chosen["context"].get("namespace") or "default"
    return namespace


TRANSIENT = (401, 429, 500, 502, 503, 504)  # after 401 the credentials are read again
Result = TypeVar("Result")


class ApiError(Exception):
    """The API refused a request or did not answer (`status` 0); `reason` is Kubernetes' term."""

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(message or reason)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        conflicts = self.status == 409 and self.reason != "AlreadyExists"
        return self.status in (0, *TRANSIENT) or conflicts


async def retry_while_transient(
    call: Callable[[], Awaitable[Result]], patience_seconds: float | None = None
) -> Result:
    """Retry transient API errors for `patience_seconds`; None retries forever.

    Raises:
        ApiError: a permanent error, or the last transient one.
    """
    return await retry(call, _pause_of, patience_seconds)


def _pause_of(error: Exception, usual: float) -> float | None:
    if isinstance(error, ApiError) and error.is_transient:
        return error.retry_after or usual
    return None


def parse_api_error(status: int, answer: Object) -> ApiError:
    """Parse an error answer; `answer` is a Status object, or anything else."""
    return ApiError(status, answer.get("reason", ""), answer.get("message") or f"HTTP {status}")


def connection_error(error: Exception) -> ApiError:
    """Return the error for a request without an answer."""
    return ApiError(0, type(error).__name__, f"the cluster does not answer: {error}".rstrip(": "))


logger = logging.getLogger(__name__)
ANSWER = aiohttp.ClientTimeout(total=30, sock_connect=5)
STREAM = aiohttp.ClientTimeout(total=None, sock_connect=5)
WATCH_SECONDS = 240  # the server then ends a watch, and another one begins

Api = Any
"""An `ApiClient` of the official client, whose methods are untyped."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object: its API, and its name in paths."""

    api: str
    plural: str

    def path(self, namespace: str, *more: str) -> str:
        """Return the path of all objects in a namespace, of one object, or of a subresource."""
        return "/".join([self.api, "namespaces", namespace, self.plural, *more])


JOBS, PODS = Kind("/apis/batch/v1", "jobs"), Kind("/api/v1", "pods")
SECRETS, EVENTS = Kind("/api/v1", "secrets"), Kind("/api/v1", "events")


class Cluster:
    """An open connection."""

    def __init__(self, context: str | None, namespace: str | None) -> None:
        self._context = context
        self._given_namespace = namespace
        self._api: Api | None = None
        self._opening = asyncio.Lock()
        self.namespace = namespace or "default"

    async def close(self) -> None:
        """Close the connection."""
        if self._api is not None:
            await self._api.close()
            self._api = None

    async def open(self) -> Api:
        """Read the cluster's address and our credentials, without a request.

        Raises:
            NotReady: no configuration was found, or it can't be used.
        """
        async with self._opening:
            if self._api is None:
                configuration = Configuration()
                configured = await load_configuration(configuration, self._context)
                self.namespace = self._given_namespace or configured
                self._api = ApiClient(configuration)
            return self._api

    async def read_version(self) -> None:
        """Read the version, to check that the cluster answers.

        Raises:
            ApiError: it does not answer.
        """
        await self._answer("GET", "/version")

    # objects

    async def create(self, kind: Kind, namespace: str, manifest: Mapping[str, Any]) -> Object:
        """Create an object; return the existing one if an earlier try created it."""
        try:
            return await self._answer("POST", kind.path(namespace), body=manifest)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        return await self._answer("GET", kind.path(namespace, manifest["metadata"]["name"]))

    async def resume(self, namespace: str, name: str) -> None:
        """Resume a suspended Job."""
        await self._answer("PATCH", JOBS.path(namespace, name), body={"spec": {"suspend": False}})

    async def list_objects(
        self, kind: Kind, namespace: str, selector: str = "", field: str = ""
    ) -> Object:
        """List objects; `field` selects by a field's value."""
        query = [("labelSelector", selector), ("fieldSelector", field)]
        return await self._answer(
            "GET", kind.path(namespace), [parameter for parameter in query if parameter[1]]
        )

    async def delete(self, kind: Kind, namespace: str, name: str, **options: Any) -> None:
        """Delete an object; a missing one is ignored."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
        try:
            await self._answer("DELETE", kind.path(namespace, name), body=body)
        except ApiError as error:
            if error.status != 404:
                raise

    # streams

    async def watch(
        self, kind: Kind, namespace: str, selector: str, version: str
    ) -> AsyncIterator[tuple[str, Object]]:
        """Watch changes of objects after a version, until the connection ends.

        Raises:
            ApiError: with status 410 if the version is too old.
        """
        query = [
            ("labelSelector", selector),
            ("resourceVersion", version),
            ("watch", "true"),
            ("timeoutSeconds", str(WATCH_SECONDS)),
        ]
        async with self._stream(kind.path(namespace), query) as response:
            while (line := await response.content.readline()).endswith(b"\n"):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise parse_api_error(event["object"].get("code", 500), event["object"])
                yield event["type"], event["object"]

    async def log(
        self, namespace: str, pod: str, container: str, *, since: str | None, follow: bool
    ) -> AsyncIterator[bytes]:
        """Read a container's log in pieces, with timestamps."""
        query = [
            ("container", container),
            ("timestamps", "true"),
            ("follow", "true" if follow else "false"),
            *([("sinceTime", since)] if since else []),
        ]
        async with self._stream(PODS.path(namespace, pod, "log"), query) as response:
            async for piece in response.content.iter_any():
                yield piece

    async def run(
        self, namespace: str, pod: str, container: str, command: Sequence[str]
    ) -> AsyncIterator[bytes]:
        """Run a command in a container and return its output.

        Raises:
            ApiError: it failed; the message is its stderr.
        """
        api = await self.open()
        query = [("container", container), ("stdout", "true"), ("stderr", "true")]
        query += [("command", word) for word in command]
        open_sockets: Any = WsApiClient  # which is untyped
        sockets: Api = open_sockets(api.configuration)
        try:
            path = PODS.path(namespace, pod, "exec")
            call = await _call(sockets, "GET", path, query, None)
            reply = await sockets.call_api(*call, _preload_content=False)
            async with reply.response as socket:
                async for piece in _channels(socket):
                    yield piece
        except aiohttp.WSServerHandshakeError as error:
            raise _with_pause(parse_api_error(error.status, {}), error.headers or {}) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise connection_error(error) from None
        finally:
            await sockets.close()

    # requests

    async def _answer(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        body: Mapping[str, Any] | None = None,
    ) -> Object:
        async with self._request(method, path, query, body, ANSWER) as response:
            answer: Object = await response.json()
            return answer

    def _stream(
        self, path: str, query: Sequence[tuple[str, str]]
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._request("GET", path, query, None, STREAM)

    @contextlib.asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        body: Mapping[str, Any] | None,
        limits: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            api = await self.open()
            call = await _call(api, method, path, query, body)
            answer = await api.call_api(*call, _request_timeout=limits)
            response: aiohttp.ClientResponse = answer.response
            async with response:
                if response.status >= 400:
                    await self._refused(response)
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError, NotReady) as error:
            raise connection_error(error) from None

    async def _refused(self, response: aiohttp.ClientResponse) -> None:
        if response.status == 401:  # the token has expired: read the new one
            await self.close()
        try:
            status = json.loads(await response.text())
        except ValueError:
            status = {}
        error = parse_api_error(response.status, status if isinstance(status, dict) else {})
        raise _with_pause(error, response.headers)


async def _call(
    api: Api,
    method: str,
    path: str,
    query: Sequence[tuple[str, str]],
    body: Mapping[str, Any] | None,
) -> tuple[Any, ...]:
    headers = {"Accept": "application/json"}
    if method == "PATCH":
        headers["Content-Type"] = "application/merge-patch+json"
    call: tuple[Any, ...] = await api.param_serialize(
        method,
        path,
        query_params=list(query),
        header_params=headers,
        body=body,
        auth_settings=["BearerToken"],
    )
    return call


def _with_pause(error: ApiError, headers: Mapping[str, str]) -> ApiError:
    pause = headers.get("Retry-After", "")
    error.retry_after = float(pause) if pause.isdecimal() else None
    return error


async def _channels(socket: aiohttp.ClientWebSocketResponse) -> AsyncIterator[bytes]:
    """Yield the stdout of a remote command; the first byte of a message names its channel."""
    errors = b""
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == 1:
            yield data
        elif channel == 2:
            errors += data
        elif channel == 3:
            status = json.loads(data)
            if status.get("status") != "Success":
                stderr = errors.decode(errors="replace").strip() or status.get("message", "")
                raise ApiError(200, status.get("reason", ""), stderr)
            return
    raise ApiError(0, "", "the connection ended before the command did")
