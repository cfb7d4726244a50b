"""How a cluster is reached: configuration, credentials, and requests that are retried."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from kubernetes.aio import config as untyped_config
from kubernetes.aio.client import Configuration

from jobauto_prefect.errors import NotReady
from jobauto_prefect.retries import retry
from jobauto_prefect.runtime.executors.kubernetes.pods import Object

IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

config: Any = untyped_config


async def load_configuration(configuration: Configuration, context: str | None) -> str:
    """Fill in address and credentials; returns the namespace they are for.

    `context` is one of the configuration's, None: the current one.

    Raises:
        NotReady: there is no configuration, or it can't be used.
    """
    # The client reads KUBECONFIG once, when it is imported.
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
    raise NotReady("there is no cluster to run in: set KUBECONFIG, as for kubectl")


def _default_file() -> str | None:
    file = Path("~/.kube/config").expanduser()
    return str(file) if file.exists() else None


def _namespace_of(file: str | None, context: str | None) -> str:
    contexts, current = config.list_kube_config_contexts(config_file=file)
    chosen = next((entry for entry in contexts if entry["name"] == context), current)
    namespace: str = chosen["context"].get("namespace") or "default"
    return namespace


TRANSIENT = (401, 429, 500, 502, 503, 504)  # with 401 the credentials are read anew

Result = TypeVar("Result")


class ApiError(Exception):
    """The API refused a request or did not answer (`status` 0); `reason` is Kubernetes' word."""

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
        ApiError: a permanent error, or the last transient one in time.
    """
    return await retry(call, _pause_of, patience_seconds)


def _pause_of(error: Exception, usual: float) -> float | None:
    if isinstance(error, ApiError) and error.is_transient:
        return error.retry_after or usual
    return None


def parse_api_error(status: int, answer: Object) -> ApiError:
    """Parse an error answer; `answer` is a Status object, or anything."""
    return ApiError(status, answer.get("reason", ""), answer.get("message") or f"HTTP {status}")


def connection_error(error: Exception) -> ApiError:
    """Return the error of a request without an answer."""
    return ApiError(0, type(error).__name__, f"the cluster does not answer: {error}".rstrip(": "))
