"""Files that a job gets from the job whose end started it: copies of that one's artifacts."""

from collections.abc import Mapping

from jobauto_prefect.errors import NotFound
from jobauto_prefect.facade.claiming import Refused
from jobauto_prefect.ledger.records import Artifact, Job
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.runtime.inputs import input_path
from jobauto_prefect.runtime.protocol import InputFile, PrefectState


def input_files(session: ReadingSession, job: Job) -> Mapping[str, InputFile]:
    """By the environment key that names the file.

    Raises:
        Refused: an artifact is not kept any more.
    """
    found = {key: session.get(Artifact, number) for key, number in job.input_files.items()}
    gone = [key for key, artifact in found.items() if artifact is None]
    if gone:
        message = f"the files for {', '.join(gone)} are not kept any more"
        raise Refused("input_gone", message, PrefectState.FAILED)
    return {
        key: InputFile(artifact_id=artifact.id, path=input_path(key, artifact.path))
        for key, artifact in found.items()
        if artifact is not None
    }


def input_content(session: ReadingSession, job: Job, artifact_id: int) -> bytes:
    """What is in one of a job's input files.

    Raises:
        NotFound: it is none of this job's, or is not kept any more.
    """
    artifact = session.get(Artifact, artifact_id)
    if artifact is None or artifact_id not in job.input_files.values():
        raise NotFound(f"job {job.id} has no input file {artifact_id}")
    return artifact.content
