"""A worker's identity, its directory, and what its executors need to know."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jobauto_prefect.errors import NotReady
from jobauto_prefect.settings import Settings, host_name


@dataclass(frozen=True, slots=True)
class KubernetesConfig:
    """How a worker's Kubernetes jobs run.

    `namespace` is for jobs whose application names none, None: the one in the cluster's
    configuration; `context` is a context of KUBECONFIG, None: the current one. A job that is not
    running after `pending_seconds` is given up. `copy_image` must have `sh` and `tar`; it is used
    to copy files out of a pod. Relative paths of charts and values files are below
    `helm_directory`.
    """

    namespace: str | None = None
    context: str | None = None
    pending_seconds: float = 300
    copy_image: str = "docker.io/library/busybox:1.37"
    helm_directory: Path | None = None


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """A worker's identity and settings.

    `directory` holds the directories of all workers of this machine. `stop_seconds` pass between
    TERM and KILL. `run_as` names the users of native jobs: `USER` for companies without an entry,
    `ID=USER` for one company; without any it is this process's own user. `docker_url` and
    `podman_url` are the engines' addresses; None: their clients' defaults. `limit` is the maximum
    of concurrent jobs; None: unknown.
    """

    url: str
    token: str = field(repr=False)
    worker: str
    pool: str
    host: str
    directory: Path
    stop_seconds: float
    run_as: tuple[str, ...] = ()
    docker_url: str | None = None
    podman_url: str | None = None
    cluster: KubernetesConfig = field(default_factory=KubernetesConfig)
    limit: int | None = None


def load_worker_config(
    settings: Settings,
    *,
    worker: str,
    pool: str,
    run_as: Sequence[str] = (),
    limit: int | None = None,
) -> WorkerConfig:
    """Build a worker's configuration from the settings; `run_as` overrides theirs.

    Raises:
        NotReady: no token is set.
    """
    if run_as:
        settings = settings.model_copy(update={"run_as": tuple(run_as)})
    return WorkerConfig(
        url=settings.facade,
        token=require_worker_token(settings, pool),
        worker=worker,
        pool=pool,
        host=host_name(),
        directory=settings.work_directory,
        stop_seconds=settings.stop_seconds,
        run_as=settings.run_as,
        docker_url=settings.docker_url,
        podman_url=settings.podman_url,
        cluster=KubernetesConfig(
            namespace=settings.kubernetes_namespace,
            context=settings.kubernetes_context,
            pending_seconds=settings.kubernetes_pending_seconds,
            copy_image=settings.kubernetes_copy_image,
            helm_directory=settings.helm_directory or settings.home / "helm",
        ),
        limit=limit,
    )


def require_worker_token(settings: Settings, pool: str) -> str:
    """Return the token of a worker.

    Raises:
        NotReady: no token is set.
    """
    if settings.worker_token is None:
        raise NotReady(
            "this worker has no token: set JOBAUTO_WORKER_TOKEN to one created by"
            f" jobauto token issue --worker --pool {pool}"
        )
    return settings.worker_token.get_secret_value()
