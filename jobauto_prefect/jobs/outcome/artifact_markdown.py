"""A job's page in Prefect: the Markdown artifact of its flow run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from jobauto_prefect.compiler.markdown import (
    code,
    fact_list,
    join_paragraphs,
    list_item,
    plain_text,
    section,
)
from jobauto_prefect.console_addresses import page_address
from jobauto_prefect.definitions import Severity, pick_text
from jobauto_prefect.ledger.records import Artifact, Job, RunTemplate
from jobauto_prefect.settings import Settings

NOT_IN_KEYS = re.compile(r"[^a-z0-9]+")
KIB = 1024

LONGEST_VALUE = 500
"""Characters of a value on the page; the record has the whole value."""


def artifact_key(template: RunTemplate) -> str:
    """Return the key that a template's pages share, so that Prefect keeps them as one history."""
    words = f"{template.company.slug} {template.name}".lower()
    return f"{NOT_IN_KEYS.sub('-', words).strip('-')}-{template.id}"[-255:].lstrip("-")


def page(
    job: Job,
    title: str,
    settings: Settings,
    artifacts: Sequence[Artifact],
    produced: Mapping[str, Mapping[str, str]],
) -> str | None:
    """Return the page of a job that has ended.

    None for a plain success without artifacts and warnings that no event started.
    """
    plain = not (artifacts or job.warnings) and job.event_id is None
    if job.severity == Severity.SUCCESS and plain:
        return None
    return join_paragraphs(
        f"# {plain_text(title)}",
        f"**{plain_text(job.message or job.state)}**",
        fact_list(_details(job, settings.url)),
        section("Artifacts", _artifacts(artifacts, settings.url)),
        section("Values", _values(job)),
        section(
            "Produced",
            join_paragraphs(
                _produced(job, produced, settings.language),
                "\n".join(
                    f"- **Warning:** {plain_text(str(warning['message']))}"
                    for warning in job.warnings
                ),
            ),
        ),
    )


def _details(job: Job, url: str) -> Iterator[tuple[str, str]]:
    yield "Outcome", job.state
    yield "Severity", job.severity or ""
    yield "Exit code", "" if job.exitcode is None else code(str(job.exitcode))
    yield "Duration", _duration(job)
    yield "Command", code(job.command or "")
    yield "Attempt", str(job.attempt) if job.task_id or job.attempt > 1 else ""
    yield "Task", _link("task", job.task_id, url)
    yield "Event", _link("event", job.event_id, url)
    yield "Event rule", _link("eventrule", job.eventrule_id, url, "rule")
    template = page_address(url, "runtemplate", job.runtemplate_id)
    yield "Run template", f"[{plain_text(job.runtemplate.name)}]({template})"
    yield "Record", _link("job", job.id, url)


def _link(item: str, number: int | None, url: str, word: str | None = None) -> str:
    """Return a link to a record of a kind; empty if there is no record."""
    return f"[{word or item} {number}]({page_address(url, item, number)})" if number else ""


def _duration(job: Job) -> str:
    if job.begin is None or job.end is None:
        return ""
    lasted = job.end - job.begin
    seconds = lasted.total_seconds()
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))


def _artifacts(artifacts: Sequence[Artifact], url: str) -> str:
    lines = [
        list_item(
            f"[{plain_text(artifact.name)}]({page_address(url, 'artifact', artifact.id)})",
            (code(artifact.path), _size(artifact.size)),
            "",
        )
        for artifact in artifacts
    ]
    return "\n".join(lines)


def _size(size: int) -> str:
    if size < KIB:
        return f"{size} bytes"
    return f"{size / KIB:.1f} KiB" if size < KIB * KIB else f"{size / KIB / KIB:.1f} MiB"


def _produced(job: Job, produced: Mapping[str, Mapping[str, str]], language: str) -> str:
    """List produced values by file, with their fields' descriptions in the definition."""
    declared: Mapping[str, Any] = job.runtemplate.app.document.get("produces") or {}
    meanings = {}
    for content in declared.values():
        for name, field in (content.get("fields") or {}).items():
            if meaning := pick_text(field.get("description") or "", language):
                meanings[name] = meaning
    lists = []
    for path, values in produced.items():
        lines = [
            list_item(code(name), [plain_text(meanings.get(name, ""))], code(value))
            for name, value in values.items()
        ]
        lists.append(join_paragraphs(f"From {code(path)}:", "\n".join(lines)))
    return join_paragraphs(*lists)


def _values(job: Job) -> str:
    """List the job's values of the variables that its definition declares; secrets are masked."""
    declared: Mapping[str, Any] = job.runtemplate.app.document.get("environment") or {}
    given = [(key, job.env[key]) for key in declared if job.env.get(key)]
    short = (
        (key, value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}…")
        for key, value in given
    )
    return "\n".join(list_item(code(key), (), code(value)) for key, value in short)
