"""Descriptions of applications and run templates, as Markdown for Prefect's UI."""

import re
from collections.abc import Mapping
from typing import Any

from jobauto_prefect.compiler.markdown import (
    code,
    fact_list,
    join_paragraphs,
    list_item,
    one_line,
    plain_text,
    section,
)
from jobauto_prefect.compiler.scheduling.schedule import Schedule
from jobauto_prefect.definitions import Definition, Variable, default_value, pick_text, to_text
from jobauto_prefect.definitions.images import image_address

LONGEST_PICTURE = 32_768
"""Characters of a picture's URL, which is repeated in each run template's description."""

HIDDEN = "••••"
"""Replaces the default of a password."""


def describe_application(definition: Definition, language: str) -> str:
    """Describe an application: purpose, facts, variables, exit codes, data and events."""
    title = one_line(pick_text(definition.title or definition.name, language))
    named = re.sub(r"[\[\]\\<>]", "", title)
    image = image_address(definition.document.get("image"), LONGEST_PICTURE)
    variables = (_variable(variable, language) for variable in definition.environment.values())
    return join_paragraphs(
        f"# {title}",
        f"![{named}]({image})" if image else "",
        pick_text(definition.description, language).strip(),
        _facts(definition),
        section("Environment", "\n".join(variables)),
        _exit_codes(definition, language),
        _named("Produces", definition.produces, language),
        _named("Consumes", definition.consumes, language),
        _named("Emits", definition.emits, language),
        _named("Triggered by", definition.triggers, language),
    )


def describe_template(lead: str, schedule: str, note: str | None, application: str) -> str:
    """Describe a run template: its lead line, schedule, note, and the application's description."""
    return join_paragraphs(lead, schedule, (note or "").strip(), application)


def describe_schedule(schedule: Schedule, *, by_ledger: bool) -> str:
    """Say what comes next, and why the deployment has no schedule: `by_ledger`, none has one."""
    seconds = round(schedule.delay.total_seconds())
    delayed = f", {seconds} s later" if seconds else ""
    reason = (
        "jobauto creates the runs of all run templates"
        if by_ledger
        else "Prefect's scheduler would not run it at just these times; jobauto creates its runs"
    )
    return (
        f"**Schedule:** {code(schedule.cron)}, {schedule.zone.key}{delayed}. The deployment has no"
        f" schedule, because {reason}. The next three, at most a day ahead, are among its upcoming"
        " runs; `jobauto forecast` shows all."
    )


def _facts(definition: Definition) -> str:
    named = {
        "Version": definition.version,
        "License": definition.license,
        "Homepage": definition.homepage and f"<{definition.homepage}>",
        "Image": definition.oci_image and f"`{definition.oci_image}`",
        "Requires": ", ".join(definition.requirements),
        "Category": definition.category,
        "Keywords": ", ".join(definition.tags),
    }
    return fact_list(named.items())


def _variable(variable: Variable, language: str) -> str:
    default = to_text(default_value(variable))
    shown = HIDDEN if default and variable.secret else code(default)
    described = pick_text(variable.description, language) or pick_text(variable.hint, language)
    details = (variable.type, "required" * variable.required, shown and f"default {shown}")
    return list_item(code(variable.key), details, plain_text(described))


def _exit_codes(definition: Definition, language: str) -> str:
    lines = [
        list_item(
            code(str(each.code)),
            (each.severity, "tried again" * each.retry),
            plain_text(pick_text(each.description, language)),
        )
        for _, each in sorted(definition.exit_codes.items())
    ]
    return section("Exit codes", "\n".join(lines))


def _named(title: str, entries: Mapping[str, Any], language: str) -> str:
    """List the entries of `produces`, `consumes` or the events, with their fields."""
    lines = []
    for name, content in entries.items():
        kinds = [
            plain_text(str(content.get(key) or "")) for key in ("format", "operation", "evidence")
        ]
        description = one_line(pick_text(content.get("description") or "", language))
        lines.append(list_item(code(name), kinds, description))
        for field, value in (content.get("fields") or {}).items():
            kind, target = value.get("type") or value.get("format"), value.get("target")
            shown = (f" ({kind})" if kind else "") + (f" → {code(target)}" if target else "")
            description = one_line(pick_text(value.get("description") or "", language))
            lines.append(f"  - {code(field)}{shown}" + (f": {description}" if description else ""))
    return section(title, "\n".join(lines))
