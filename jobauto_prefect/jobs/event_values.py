"""What an event gives to the job it starts: by its rule's mapping, and by what flows of itself."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobauto_prefect.compiler.consumes import flowing, read_by
from jobauto_prefect.compiler.produced import Remains, find_file, is_written, needed, produced
from jobauto_prefect.compiler.selectors import FindFile, named_in, no_file, resolve
from jobauto_prefect.definitions import Definition
from jobauto_prefect.errors import Fault
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import Delivery, Job
from jobauto_prefect.runtime.artifacts import RESULT_NAME

LARGEST_JUDGED = 1024 * 1024
"""Bytes of a file that is looked into when its job ends."""


@dataclass(frozen=True, slots=True)
class Found:
    """What selectors find in an event. `artifacts`: path -> id, of the job that ended.

    `findings` are what it did not produce as its definition declares it.
    """

    values: Mapping[str, Any]
    find_file: FindFile = no_file
    artifacts: Mapping[str, int] = field(default_factory=dict)
    produces: Mapping[str, Any] = field(default_factory=dict)
    findings: Sequence[Fault] = ()


def look_into(session: WritingSession, delivery: Delivery, definition: Definition) -> Found:
    """The change, or the end with what the job has produced, as far as it is asked for."""
    event, mapping = delivery.event, json.loads(delivery.rule.env_mapping)
    if event.job_id is None or not (mapping or definition.consumes):
        return Found(event.data)
    job = session.get_one(Job, event.job_id)
    entries = job.runtemplate.app.document.get("produces") or {}
    named = named_in(mapping)
    read = needed(entries, None if named is None else named | read_by(definition))
    left, artifacts = _remains(session, job, read)
    found = produced(read, left)
    return Found(
        {**found.values, **event.data},
        lambda name: find_file(name, entries, left),
        artifacts,
        entries,
        found.findings,
    )


def findings_of(session: WritingSession, job: Job) -> Sequence[Fault]:
    """What a job that is over did not produce as its definition declares it.

    Files of more than `LARGEST_JUDGED` bytes are judged where they are handed on.
    """
    entries: Mapping[str, Any] = job.runtemplate.app.document.get("produces") or {}
    fielded = {name: entry for name, entry in entries.items() if entry.get("fields")}
    if not fielded:
        return ()
    left, _ = _remains(session, job, fielded, largest=LARGEST_JUDGED)
    return produced(fielded, left).findings


def _remains(
    session: WritingSession, job: Job, entries: Mapping[str, Any], largest: int | None = None
) -> tuple[Remains, dict[str, int]]:
    artifacts = {
        artifact.path: artifact
        for artifact in queries.artifacts_of(session, job.id)
        if largest is None or artifact.size <= largest
    }
    named = job.env.get("RESULT_FILE", "").removeprefix("./")
    results = [one.path for one in artifacts.values() if one.name == RESULT_NAME]
    left = Remains(
        paths=list(artifacts),
        read=lambda path: artifacts[path].content,
        result_path=next(iter(results), named if named in artifacts else None),
        stdout=_stdout(session, job) if any(map(is_written, entries.values())) else "",
        names={path: one.name for path, one in artifacts.items()},
    )
    return left, {path: one.id for path, one in artifacts.items()}


def _stdout(session: WritingSession, job: Job) -> str:
    lines = queries.last_output_of(session, job.id)
    return "\n".join(line.text for line in lines if line.stream == "stdout")


def values_of(found: Found, delivery: Delivery, definition: Definition) -> dict[str, Any]:
    """Environment key -> value. What the rule maps wins over what flows of itself.

    Raises:
        Unresolved: the event lacks what the mapping names.
    """
    mapped = resolve(json.loads(delivery.rule.env_mapping), found.values, found.find_file)
    flows = flowing(definition, found.produces, found.values, found.find_file)
    return flows | mapped
