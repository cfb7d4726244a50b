"""The Kubernetes executor: the client is imported, and connects, with the first job."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobauto_prefect.errors import NotReady, StartFailed
from jobauto_prefect.runtime.executor import Equipment
from jobauto_prefect.runtime.kubernetes.helm import Releases
from jobauto_prefect.runtime.protocol import Launch
from jobauto_prefect.runtime.workplace import JobRecord

if TYPE_CHECKING:
    from jobauto_prefect.runtime.kubernetes.cluster import Cluster
    from jobauto_prefect.runtime.kubernetes.execution import KubernetesExecution

ANSWER_SECONDS = 60.0


class KubernetesExecutor:
    """One cluster."""

    def __init__(self, equipment: Equipment) -> None:
        self._equipment = equipment
        self._releases = Releases(equipment.watchdogs, equipment.plan.cluster)
        self._known: Cluster | None = None

    def execution(self, launch: Launch) -> "KubernetesExecution":
        """An execution that has not begun."""
        cluster = self._cluster()
        from jobauto_prefect.runtime.kubernetes.execution import KubernetesExecution

        return KubernetesExecution(self._equipment, cluster, self._releases, launch)

    async def end_left(self, records: Sequence[JobRecord], stop_seconds: float) -> None:
        """Delete their Jobs, and wait until no pod is left."""
        await self._releases.end_left(records, stop_seconds)
        cluster = self._cluster()
        from jobauto_prefect.runtime.kubernetes.answers import ApiError
        from jobauto_prefect.runtime.kubernetes.removal import remove_job

        try:
            for one in records:
                if one.namespace is not None:
                    place = (one.namespace, one.job_id, one.claim_id)
                    await remove_job(cluster, *place, ANSWER_SECONDS)
        except (ApiError, NotReady) as error:
            raise StartFailed(str(error)) from None

    async def check(self) -> None:
        """Whether the cluster answers."""
        cluster = self._cluster()
        from jobauto_prefect.runtime.kubernetes.answers import ApiError

        try:
            await cluster.open()
            await cluster.ask_version()
        except NotReady as error:
            raise StartFailed(str(error)) from None
        except ApiError as error:
            if error.passes:  # a refusal is an answer, too
                raise StartFailed(str(error)) from None

    async def close(self) -> None:
        """Nothing more is asked of the cluster."""
        if self._known is not None:
            await self._known.close()

    def _cluster(self) -> "Cluster":
        if self._known is None:
            try:
                from jobauto_prefect.runtime.kubernetes.cluster import Cluster
            except ImportError:
                message = (
                    "this worker has no Kubernetes client: pip install jobauto-prefect[kubernetes]"
                )
                raise StartFailed(message, 126) from None
            plan = self._equipment.plan.cluster
            self._known = Cluster(plan.context, plan.namespace)
        return self._known
