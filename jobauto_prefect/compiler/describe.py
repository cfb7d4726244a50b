"""What a definition says, as Markdown for the people who read Prefect's UI."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from jobauto_prefect.compiler.markdown import cell, code, joined, line, section, table
from jobauto_prefect.definitions import Definition, Variable, default_value, text, to_text
from jobauto_prefect.definitions.pictures import picture_of

LONGEST_PICTURE = 32_768
"""Characters of a picture's address: it is in the description of each run template."""

HIDDEN = "••••"
"""Stands for the default of a password."""


def describe_application(definition: Definition, language: str) -> str:
    """The application: what it is, its facts, its variables, exit codes, data and events."""
    title = text(definition.title or definition.name, language)
    return joined(
        f"# {line(title)}",
        _picture(definition, title),
        text(definition.description, language).strip(),
        _facts(definition),
        _variables(definition, language),
        _exit_codes(definition, language),
        _named("Produces", definition.produces, language),
        _named("Consumes", definition.consumes, language),
        _named("Emits", definition.emits, language),
        _named("Triggered by", definition.triggers, language),
    )


def describe_template(lead: str, note: str | None, application: str) -> str:
    """A run template: its own line, its note, then the application's description."""
    return joined(lead, (note or "").strip(), application)


def _picture(definition: Definition, title: str) -> str:
    address = picture_of(definition.document.get("image"), LONGEST_PICTURE)
    named = re.sub(r"[\[\]\\<>]", "", line(title))
    return f"![{named}]({address})" if address else ""


def _facts(definition: Definition) -> str:
    facts = {
        "Version": definition.version,
        "License": definition.license,
        "Homepage": definition.homepage and f"<{definition.homepage}>",
        "Image": definition.oci_image and f"`{definition.oci_image}`",
        "Requires": ", ".join(definition.requirements),
        "Category": definition.category,
        "Keywords": ", ".join(definition.tags),
    }
    return "\n".join(f"- **{name}:** {line(fact)}" for name, fact in facts.items() if fact)


def _variables(definition: Definition, language: str) -> str:
    rows = [_variable(variable, language) for variable in definition.environment.values()]
    head = ("Variable", "Type", "Required", "Default", "Description")
    return section("Environment", table(head, rows))


def _variable(variable: Variable, language: str) -> tuple[str, ...]:
    default = to_text(default_value(variable))
    shown = HIDDEN if default and variable.secret else code(default)
    described = text(variable.description, language) or text(variable.hint, language)
    required = "yes" if variable.required else ""
    return (code(variable.key), variable.type, required, shown, cell(described))


def _exit_codes(definition: Definition, language: str) -> str:
    rows = [
        (str(each.code), each.severity, "yes" if each.retry else "", cell(_said(each, language)))
        for _, each in sorted(definition.exit_codes.items())
    ]
    return section("Exit codes", table(("Code", "Severity", "Tried again", "Meaning"), rows))


def _said(entry: Any, language: str) -> str:
    return text(entry.description, language)


def _named(title: str, entries: Mapping[str, Any], language: str) -> str:
    """A list of the entries of `produces`, `consumes` or the events, with their fields."""
    lines = []
    for name, entry in entries.items():
        kinds = [str(entry[key]) for key in ("format", "operation", "evidence") if entry.get(key)]
        kind = f" ({cell(', '.join(kinds))})" if kinds else ""
        said = line(text(entry.get("description") or "", language))
        lines.append(f"- {code(name)}{kind}{': ' + said if said else ''}")
        lines += [f"  - {code(field)}{_field(value, language)}" for field, value in _fields(entry)]
    return section(title, "\n".join(lines))


def _fields(entry: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return (entry.get("fields") or {}).items()


def _field(value: Mapping[str, Any], language: str) -> str:
    kind = value.get("type") or value.get("format")
    target = value.get("target")
    said = line(text(value.get("description") or "", language))
    shown = (f" ({kind})" if kind else "") + (f" → {code(target)}" if target else "")
    return f"{shown}: {said}" if said else shown
