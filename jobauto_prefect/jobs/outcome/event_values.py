"""Values an event gives to the job it starts: by its rule's mapping, and by matching names."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jobauto_prefect.bounded_process import run_bounded
from jobauto_prefect.compiler.events.event_inputs import flow_values, inspected_entries
from jobauto_prefect.compiler.events.job_outputs import (
    NO_OUTPUTS,
    JobOutputs,
    file_of_entry,
    find_file,
    is_kept,
    is_written,
    read_outputs,
    required_entries,
)
from jobauto_prefect.compiler.events.selectors import (
    UnresolvedSelector,
    Unusable,
    resolve,
    root_fields,
)
from jobauto_prefect.definitions import Definition
from jobauto_prefect.definitions.patterns import PatternMatcher
from jobauto_prefect.definitions.validation.json_paths import most_steps
from jobauto_prefect.errors import Contended, Fault
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.queries.jobs import artifacts_of, standard_output_of
from jobauto_prefect.ledger.records import Artifact, Delivery, Job
from jobauto_prefect.runtime.output.artifacts import RESULT_NAME

LARGEST_JUDGED = 1024 * 1024
"""Bytes of the largest file that is checked when its job ends."""


LIGHT_BYTES = 256 * 1024


LIGHT_STEPS = 20_000


LIGHT_SECONDS = 0.1  # for matching file patterns
"""Limits of what may be read and evaluated inside the transaction."""


@dataclass(frozen=True, slots=True)
class EventValues:
    """What an event gives: environment key -> value, which is a `FoundFile` for a file.

    `findings` are the ended job's deviations from what its definition says it produces.
    """

    values: Mapping[str, Any]
    findings: Sequence[Fault] = ()


@dataclass(frozen=True, slots=True)
class ValueQuery:
    """Everything that determines an event's values, or the check of what a job produced.

    `mapping` is the rule's; `entries` are the members of `produces` to read.
    """

    outputs: JobOutputs = NO_OUTPUTS
    entries: Mapping[str, Any] = field(default_factory=dict)
    produces: Mapping[str, Any] = field(default_factory=dict)
    mapping: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    contents: Mapping[str, bytes] = field(default_factory=dict)
    patterns_are_light: bool = True

    @property
    def is_light(self) -> bool:
        """Whether finding the answer takes bounded time, whatever the paths and the values."""
        texts = [*self.contents.values(), self.outputs.stdout.encode(errors="surrogateescape")]
        paths = [text for text in self.mapping.values() if text.startswith("$")]
        if paths:
            texts.append(json.dumps(self.data).encode())
        fields = (entry.get("fields") or {} for entry in self.entries.values())
        paths += [named["path"] for each in fields for named in each.values() if "path" in named]
        values = sum(text.count(mark) for text in texts for mark in (b",", b"[", b"{"))
        steps = sum(most_steps(path, values + 1) for path in paths)
        sizes = sum(map(len, texts))
        return self.patterns_are_light and sizes <= LIGHT_BYTES and steps <= LIGHT_STEPS


class NotLight(Exception):
    """An answer must not be found inside the transaction: find it, then start again."""

    def __init__(self, work: Callable[..., Any], *arguments: Any) -> None:
        super().__init__(work.__name__)
        self.work = work
        self.arguments = arguments

    def find(self) -> Any:
        """Return the answer, found in a separate process, or the error that replaces it.

        Raises:
            Contended: too many others are doing the same; ask again.
        """
        try:
            return run_bounded(self.work, *self.arguments)
        except Contended:
            raise
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is used
            return error


def ask_for_values(
    session: WritingSession, delivery: Delivery, definition: Definition
) -> tuple[ValueQuery, Mapping[str, int]]:
    """Return the query for an event's values, and the ids of its artifacts by path."""
    event, mapping = delivery.event, json.loads(delivery.rule.env_mapping)
    if event.job_id is None or not (mapping or definition.consumes):
        return ValueQuery(mapping=mapping, data=event.data), {}
    job = session.get_one(Job, event.job_id)
    produces = job.runtemplate.app.document.get("produces") or {}
    named = root_fields(mapping)
    entries = required_entries(
        produces, None if named is None else named | inspected_entries(definition)
    )
    artifacts = {artifact.path: artifact for artifact in artifacts_of(session, job.id)}
    query = _query(session, job, artifacts, entries)
    ids = {path: artifact.id for path, artifact in artifacts.items()}
    return replace(query, produces=produces, mapping=mapping, data=event.data), ids


def values_of(query: ValueQuery, definition: Definition) -> EventValues:
    """Return the values. The rule's mapping wins over automatic matches.

    Raises:
        UnresolvedSelector: the event lacks what the mapping names, or a value is unusable.
    """
    produced = read_outputs(query.entries, query.outputs)
    selected = {**produced.values, **query.data}

    def find(name: str) -> str | None:
        return find_file(name, query.produces, query.outputs)

    mapped = resolve(query.mapping, selected, find)
    values = flow_values(definition, query.produces, selected, find) | mapped
    unusable = [
        f"{key}: {value.reason}" for key, value in values.items() if isinstance(value, Unusable)
    ]
    if unusable:
        raise UnresolvedSelector("; ".join(unusable))
    return EventValues(values, produced.findings)


def findings_of(session: WritingSession, job: Job) -> Sequence[Fault]:
    """Return how a job's products deviate from its definition.

    Files of more than `LARGEST_JUDGED` bytes are checked when they are handed on.

    Raises:
        NotLight: the check needs a separate process.
    """
    entries: Mapping[str, Any] = job.runtemplate.app.document.get("produces") or {}
    fielded = {name: entry for name, entry in entries.items() if entry.get("fields")}
    if not fielded:
        return ()
    artifacts = {artifact.path: artifact for artifact in artifacts_of(session, job.id)}
    query = _query(session, job, artifacts, fielded, LARGEST_JUDGED)
    if not query.is_light:
        raise NotLight(produced_findings, query)
    return produced_findings(query)


def produced_findings(query: ValueQuery) -> Sequence[Fault]:
    """Return how the products deviate from their declarations."""
    return read_outputs(query.entries, query.outputs).findings


def _query(
    session: WritingSession,
    job: Job,
    artifacts: Mapping[str, Artifact],
    entries: Mapping[str, Any],
    largest: float = math.inf,
) -> ValueQuery:
    """Return a query over those of a job's files and output that these entries need.

    Entries whose file has more than `largest` bytes are left out.
    """
    named = job.env.get("RESULT_FILE", "").removeprefix("./")
    results = [artifact.path for artifact in artifacts.values() if artifact.name == RESULT_NAME]
    is_needed = any(map(is_written, entries.values()))
    stdout, missing = _stdout(session, job) if is_needed else ("", "")
    contents = dict[str, bytes]()
    left = JobOutputs(
        paths=list(artifacts),
        read=contents.__getitem__,
        result_path=next(iter(results), named if named in artifacts else None),
        stdout=stdout,
        missing=missing,
        names={path: artifact.name for path, artifact in artifacts.items()},
        matcher=PatternMatcher(LIGHT_SECONDS),
    )
    files = {name: file_of_entry(entry, left) for name, entry in entries.items() if is_kept(entry)}
    if left.matcher.gave_up:
        contents.update({path: artifact.content for path, artifact in artifacts.items()})
        left = replace(left, matcher=PatternMatcher())
        return ValueQuery(left, entries, contents=contents, patterns_are_light=False)
    large = {name for name, path in files.items() if path and artifacts[path].size > largest}
    read = {path for name, path in files.items() if path and name not in large}
    contents.update({path: artifacts[path].content for path in read})
    kept = {name: entry for name, entry in entries.items() if name not in large}
    return ValueQuery(replace(left, matcher=PatternMatcher()), kept, contents=contents)


def _stdout(session: WritingSession, job: Job) -> tuple[str, str]:
    """Return standard output and what it lacks; with a gap, only the whole lines after the gap."""
    parts: list[bytes] = []
    missing = ""
    for line in standard_output_of(session, job.id):
        parts.append(line.written)
        if line.is_gap:
            missing = line.text
            parts.clear()
    text = b"".join(parts).decode(errors="surrogateescape")
    return text.partition("\n")[2] if missing else text, missing
