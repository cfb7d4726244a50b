"""The Kubernetes executor: imports the client and connects on the first job."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobauto_prefect.errors import NotReady, StartFailed
from jobauto_prefect.runtime.executor import ExecutorContext
from jobauto_prefect.runtime.executors.kubernetes.helm import Releases
from jobauto_prefect.runtime.exit_codes import NOT_EXECUTABLE
from jobauto_prefect.runtime.protocol import Launch
from jobauto_prefect.runtime.workspace import JobRecord

if TYPE_CHECKING:
    from jobauto_prefect.runtime.executors.kubernetes.cluster import Cluster
    from jobauto_prefect.runtime.executors.kubernetes.execution import KubernetesExecution

ANSWER_SECONDS = 60.0


class KubernetesExecutor:
    """Runs jobs in one cluster."""

    def __init__(self, context: ExecutorContext) -> None:
        self._context = context
        self._releases = Releases(context.watchdogs, context.plan.cluster)
        self._known: Cluster | None = None

    def execution(self, launch: Launch) -> "KubernetesExecution":
        """Create an execution, not yet started."""
        cluster = self._cluster()
        from jobauto_prefect.runtime.executors.kubernetes.execution import KubernetesExecution

        return KubernetesExecution(self._context, cluster, self._releases, launch)

    async def terminate_leftovers(self, records: Sequence[JobRecord], stop_seconds: float) -> None:
        """Delete the Jobs of these records, and wait until no pod is left."""
        await self._releases.terminate_leftovers(records, stop_seconds)
        cluster = self._cluster()
        from jobauto_prefect.runtime.executors.kubernetes.cluster import ApiError
        from jobauto_prefect.runtime.executors.kubernetes.job_objects import remove_job

        try:
            for record in records:
                if record.namespace is not None:
                    place = (record.namespace, record.job_id, record.claim_id)
                    await remove_job(cluster, *place, ANSWER_SECONDS)
        except (ApiError, NotReady) as error:
            raise StartFailed(str(error)) from None

    async def check(self) -> None:
        """Check that the cluster answers."""
        cluster = self._cluster()
        from jobauto_prefect.runtime.executors.kubernetes.cluster import ApiError

        try:
            await cluster.open()
            await cluster.read_version()
        except NotReady as error:
            raise StartFailed(str(error)) from None
        except ApiError as error:
            if error.is_transient:  # a refusal is an answer, too
                raise StartFailed(str(error)) from None

    async def close(self) -> None:
        """Close the connection to the cluster."""
        if self._known is not None:
            await self._known.close()

    def _cluster(self) -> "Cluster":
        if self._known is None:
            try:
                from jobauto_prefect.runtime.executors.kubernetes.cluster import Cluster
            except ImportError:
                message = (
                    "this worker has no Kubernetes client: pip install jobauto-prefect[kubernetes]"
                )
                raise StartFailed(message, NOT_EXECUTABLE) from None
            plan = self._context.plan.cluster
            self._known = Cluster(plan.context, plan.namespace)
        return self._known
