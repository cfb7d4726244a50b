"""The parameters of the flow run that the ledger makes for a job: what it is for, and its values.

Prefect adds those of the deployment. The claim takes the values from the job; here they are for
people, and what might be a secret is not.
"""

from typing import Any

from jobauto_prefect.compiler.parameters import REFERENCES, override_parameters
from jobauto_prefect.engine.sync.deployment_plans import withheld_keys
from jobauto_prefect.errors import KeyMissing
from jobauto_prefect.ledger.records import Job
from jobauto_prefect.ledger.secrets import SecretBox
from jobauto_prefect.runtime.output.masking import Masker


def run_parameters(job: Job, box: SecretBox) -> dict[str, Any]:
    """Return the job's number, and its own values that are no secrets; its session is open."""
    return {**_overrides(job, box), REFERENCES: {"job": job.id}}


def _overrides(job: Job, box: SecretBox) -> dict[str, Any]:
    if not job.overrides:
        return {}
    hidden = withheld_keys(job.runtemplate) | job.override_secrets.keys()
    plain = {key: text for key, text in job.overrides.items() if key not in hidden}
    try:
        masker = Masker(_secrets(job, box))
    except KeyMissing:
        return {}  # what can't be compared is not shown; the claim says what is wrong
    clear = {key: text for key, text in plain.items() if masker.mask(text) == text}
    return override_parameters(job.runtemplate.app.definition, clear)


def _secrets(job: Job, box: SecretBox) -> list[str]:
    """Return the secret values that this job is given: somebody may have repeated one elsewhere."""
    template = job.runtemplate
    sealed = [job.override_secrets, template.secrets, template.company.secrets]
    sealed += [assignment.credential.secrets for assignment in template.assignments]
    return [value for values in sealed for value in box.open(values).values()]
