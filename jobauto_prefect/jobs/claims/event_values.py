"""Values an event gives to the job it starts: by its rule's mapping, and by matching names."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobauto_prefect.compiler.events.event_inputs import flow_values, inspected_entries
from jobauto_prefect.compiler.events.job_outputs import (
    JobOutputs,
    find_file,
    is_written,
    read_outputs,
    required_entries,
)
from jobauto_prefect.compiler.events.selectors import (
    FindFile,
    UnresolvedSelector,
    Unusable,
    no_file,
    resolve,
    root_fields,
)
from jobauto_prefect.definitions import Definition
from jobauto_prefect.errors import Fault
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.queries.jobs import artifacts_of, standard_output_of
from jobauto_prefect.ledger.records import Artifact, Delivery, Job
from jobauto_prefect.runtime.output.artifacts import RESULT_NAME

LARGEST_JUDGED = 1024 * 1024
"""Bytes of a file that is looked into when its job ends."""


@dataclass(frozen=True, slots=True)
class SelectedValues:
    """What selectors find in an event. `artifacts`: path -> id, of the job that ended.

    `findings` are what it did not produce as its definition declares it.
    """

    values: Mapping[str, Any]
    find_file: FindFile = no_file
    artifacts: Mapping[str, int] = field(default_factory=dict)
    produces: Mapping[str, Any] = field(default_factory=dict)
    findings: Sequence[Fault] = ()


def select_values(
    session: WritingSession, delivery: Delivery, definition: Definition
) -> SelectedValues:
    """Return the change, or the end with what the job has produced, as far as it is asked for."""
    event, mapping = delivery.event, json.loads(delivery.rule.env_mapping)
    if event.job_id is None or not (mapping or definition.consumes):
        return SelectedValues(event.data)
    job = session.get_one(Job, event.job_id)
    entries = job.runtemplate.app.document.get("produces") or {}
    named = root_fields(mapping)
    read = required_entries(
        entries, None if named is None else named | inspected_entries(definition)
    )
    left, artifacts = _remains(session, job, read)
    outputs = read_outputs(read, left)
    return SelectedValues(
        {**outputs.values, **event.data},
        lambda name: find_file(name, entries, left),
        {path: artifact.id for path, artifact in artifacts.items()},
        entries,
        outputs.findings,
    )


def findings_of(session: WritingSession, job: Job) -> Sequence[Fault]:
    """Return what a job did not produce as its definition declares.

    Files of more than `LARGEST_JUDGED` bytes are judged where they are handed on.
    """
    entries: Mapping[str, Any] = job.runtemplate.app.document.get("produces") or {}
    fielded = {name: entry for name, entry in entries.items() if entry.get("fields")}
    if not fielded:
        return ()
    left, artifacts = _remains(session, job, fielded)
    files = {name: find_file(name, fielded, left) for name in fielded}
    judged = {
        name: fielded[name]
        for name, path in files.items()
        if path is None or artifacts[path].size <= LARGEST_JUDGED
    }
    return read_outputs(judged, left).findings


def _remains(
    session: WritingSession, job: Job, entries: Mapping[str, Any]
) -> tuple[JobOutputs, dict[str, Artifact]]:
    artifacts = {artifact.path: artifact for artifact in artifacts_of(session, job.id)}
    named = job.env.get("RESULT_FILE", "").removeprefix("./")
    results = [artifact.path for artifact in artifacts.values() if artifact.name == RESULT_NAME]
    is_needed = any(map(is_written, entries.values()))
    stdout, missing = _stdout(session, job) if is_needed else ("", "")
    left = JobOutputs(
        paths=list(artifacts),
        read=lambda path: artifacts[path].content,
        result_path=next(iter(results), named if named in artifacts else None),
        stdout=stdout,
        missing=missing,
        names={path: artifact.name for path, artifact in artifacts.items()},
    )
    return left, artifacts


def _stdout(session: WritingSession, job: Job) -> tuple[str, str]:
    """Return standard output and what is missing in it: then only the whole lines after that."""
    parts: list[bytes] = []
    missing = ""
    for line in standard_output_of(session, job.id):
        parts.append(line.written)
        if line.is_gap:
            missing = line.text
            parts.clear()
    text = b"".join(parts).decode(errors="surrogateescape")
    return text.partition("\n")[2] if missing else text, missing


def values_of(
    selected: SelectedValues, delivery: Delivery, definition: Definition
) -> dict[str, Any]:
    """Return environment key -> value. What the rule maps wins over what flows of itself.

    Raises:
        UnresolvedSelector: the event lacks what the mapping names, or nobody can be given it.
    """
    mapped = resolve(json.loads(delivery.rule.env_mapping), selected.values, selected.find_file)
    flows = flow_values(definition, selected.produces, selected.values, selected.find_file)
    values = flows | mapped
    unusable = [
        f"{key}: {value.reason}" for key, value in values.items() if isinstance(value, Unusable)
    ]
    if unusable:
        raise UnresolvedSelector("; ".join(unusable))
    return values
