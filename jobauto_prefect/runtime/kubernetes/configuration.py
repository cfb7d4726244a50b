"""Where the cluster is and who the worker is there: as for `kubectl`, or as a pod of it."""

import asyncio
import os
from pathlib import Path
from typing import Any

from kubernetes.aio import config as untyped_config
from kubernetes.aio.client import Configuration

from jobauto_prefect.errors import NotReady

IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

config: Any = untyped_config


async def load(configuration: Configuration, context: str | None) -> str:
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
    chosen = next((one for one in contexts if one["name"] == context), current)
    namespace: str = chosen["context"].get("namespace") or "default"
    return namespace
