"""From a definition and its values to everything a process needs. Pure."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from jobauto_prefect.definitions import Definition, pattern_of
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.runtime.launch import command
from jobauto_prefect.runtime.launch.environment import Environment, Layer, resolve_environment
from jobauto_prefect.runtime.protocol import TEMPORARY, ArtifactPattern


@dataclass(frozen=True, slots=True)
class Prepared:
    """The parts of a `Launch`, and what the ledger stores for people.

    `environment_shown` and `command_shown` have their secrets masked. `left_out` are the names of
    values that the job does not get.
    """

    argv: list[str] = field(repr=False)
    environment: dict[str, str] = field(repr=False)
    secrets: list[str] = field(repr=False)
    command_shown: str
    environment_shown: dict[str, str]
    left_out: list[str]
    result_file: str | None
    artifacts: list[ArtifactPattern]
    image: str | None


def injected_variables(values: Mapping[str, str], directory: str) -> dict[str, str]:
    """Return the variables every job gets: each name under both prefixes, and its own directory.

    `values` maps names without a prefix (`JOB_ID`, `COMPANY_NAME`) to texts.
    """
    both = {
        prefix + name: value
        for name, value in values.items()
        for prefix in ("JOBAUTO_", "MULTIFLEXI_")
    }
    return both | {"JOBAUTO_JOB_DIR": directory, "MULTIFLEXI_TMP": directory}


def prepare(
    definition: Definition,
    *,
    directory: str,
    company: Layer,
    credentials: Layer | None = None,
    template: Layer,
    overrides: Layer,
    values: Mapping[str, str],
    extra: Collection[str] = (),
) -> Prepared:
    """Resolve environment, command and artifacts of one job.

    `values` are injected, see `injected_variables`; `directory` is the job's own; `extra` are names
    that jobs may get in addition to the definition's.

    Raises:
        InvalidInput: required values or an input that `consumes` requires are missing, a value
            can't be passed to a process, or the command has unknown placeholders. It lists every
            error, but no values.
    """
    environment = resolve_environment(
        definition,
        company=company,
        credentials=credentials,
        template=template,
        overrides=overrides,
        injected=injected_variables(values, directory),
        extra=extra,
    )
    _refuse_faults(definition, environment)
    temporary = {"TMPDIR": f"{directory}/{TEMPORARY}"}
    variables = temporary | environment.variables()
    command_line = (definition.executable, definition.command_template, environment)
    return Prepared(
        argv=command.build(*command_line),
        environment=variables,
        secrets=list(environment.secrets),
        command_shown=command.shown(*command_line),
        environment_shown=temporary | environment.masked(),
        left_out=list(environment.left_out),
        result_file=variables.get("RESULT_FILE") or None,
        artifacts=[
            *(  # values are literal text, even inside a regular expression
                ArtifactPattern(
                    name=artifact.name,
                    path=command.substitute(artifact.path, environment, lambda value: value.text),
                    pattern=command.substitute(
                        artifact.path, environment, lambda value: re.escape(value.text)
                    ),
                    type=artifact.type,
                )
                for artifact in definition.artifacts
            ),
            *_output_patterns(definition),
        ],
        image=definition.oci_image or None,
    )


def _refuse_faults(definition: Definition, environment: Environment) -> None:
    faults = [
        *(_key_fault(name, "required", f"{name} has no value") for name in environment.missing),
        *_missing_inputs(definition, environment),
        *(
            _key_fault(name, "value", f"{name} has a value that can't be passed to a process")
            for name in environment.invalid
        ),
        *command.faults(definition.executable, definition.command_template, environment),
    ]
    if not faults:
        return
    reasons = [fault.message for fault in faults if fault.rule != "required"]
    if environment.missing:
        reasons.insert(0, f"missing required values: {', '.join(environment.missing)}")
    raise InvalidInput(faults, "; ".join(reasons))


def _missing_inputs(definition: Definition, environment: Environment) -> Iterator[Fault]:
    """Return required inputs whose keys have no value from any source."""
    for name, entry in definition.consumes.items():
        targets = [
            entry.get("target"),
            *(field["target"] for field in entry.get("fields", {}).values()),
        ]
        missing = [key for key in targets if key and not environment.has(key)]
        if missing and entry.get("required", True):
            message = f"the input {name} is missing: {', '.join(missing)} has no value"
            yield Fault(f"/consumes/{name}", "input", message)


def _key_fault(name: str, rule: str, message: str) -> Fault:
    return Fault(f"/environment/{name}", rule, message)


def _output_patterns(definition: Definition) -> Iterator[ArtifactPattern]:
    """Yield patterns of files produced for others, which are kept even if they are no artifacts."""
    for name, entry in definition.produces.items():
        for pattern in entry.get("patterns") or ():
            yield ArtifactPattern(
                name=name, path=pattern, pattern=pattern_of(pattern), type="produced"
            )
