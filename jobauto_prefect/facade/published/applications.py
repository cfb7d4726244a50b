"""Applications: a definition in ours, a flat record in the published dialect."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobauto_prefect.definitions import schema, text
from jobauto_prefect.facade.dialect import Heard
from jobauto_prefect.facade.published.members import Shown, one_of, values
from jobauto_prefect.facade.published.members import text as as_text
from jobauto_prefect.facade.requests import WHOLE

DEFAULTS: Mapping[str, Any] = {
    "$schema": schema()["properties"]["$schema"]["default"],
    "description": "",
    "environment": {},
}
"""What a definition must have and a flat record may lack."""

OURS = ("enabled", "labels", "force", "company_id")
TYPES = ("text", "string", "password", "file-path", "bool", "integer", "set")
SEVERITIES = ("success", "info", "warning", "error")
ANSWERED = ("created", "warnings", "prefect_url", "labels", "company_id")
"""Members of ours that a flat record keeps."""

PLAIN = ("image", "executable", "homepage", "ociimage", "version", "uuid", "author", "license",
         "category")  # fmt: skip
NEVER = ("setup", "deploy", "code", "resultfile", "deffile", "status")
"""Published members that definitions have nothing for."""

FLAT = (*PLAIN, *NEVER, "cmdparams", "helmchart", "topics", "DatCreate", "DatUpdate")
"""Members of a flat record that definitions don't have, among others."""

_type = one_of(*TYPES, nearest="string")
_severity = one_of(*SEVERITIES, nearest="error")


def flat(shown: Shown, language: str) -> Shown:
    """The flat record of an application, its texts in a language."""
    listed = {name: _joined(shown.get(name)) for name in ("tags", "requirements")}
    return {
        "id": shown["id"],
        "enabled": shown["enabled"],
        "name": text(shown["name"], language),
        "description": text(shown.get("description") or "", language),
        **{name: as_text(shown.get(name)) for name in PLAIN},
        **dict.fromkeys(NEVER),
        "cmdparams": as_text(shown.get("cmdparamsTemplate")),
        "helmchart": _chart(shown),
        "artifacts": _joined([one.get("path") for one in shown.get("artifacts") or ()]),
        "topics": listed["tags"],
        **listed,
        "environment": {
            key: _variable(one, language) for key, one in values(shown.get("environment")).items()
        },
        "exitCodes": {
            code: _exit_code(one) for code, one in values(shown.get("exitCodes")).items()
        },
        "produces": values(shown.get("produces")),
        "consumes": values(shown.get("consumes")),
        "DatCreate": shown["created_at"],
        "DatUpdate": shown["updated_at"],
        **{name: shown[name] for name in ANSWERED if name in shown},
    }


def _joined(words: Any) -> str | None:
    if isinstance(words, Sequence) and not isinstance(words, str):
        return ",".join(str(word) for word in words)
    return as_text(words)


def _chart(shown: Shown) -> str | None:
    return as_text(values(values(shown.get("kubernetes")).get("helm")).get("chart"))


def _variable(said: Any, language: str) -> Shown:
    one = values(said)
    return {
        "type": _type(one.get("type")),
        "description": text(one.get("description") or "", language),
        "defval": as_text(one.get("defval")),
        "required": one.get("required") is True,
    }


def _exit_code(said: Any) -> Shown:
    one = values(said)
    described = one.get("description")
    return {
        "severity": _severity(one.get("severity") or "error"),
        "retry": one.get("retry") is True,
        "description": described if isinstance(described, dict) else {"en": as_text(described)},
    }


def _with_command(fields: Shown) -> Shown:
    """A definition whose command line has the name it has in flat records."""
    if "cmdparamsTemplate" in fields:
        return fields
    return {
        "cmdparamsTemplate" if name == "cmdparams" else name: value
        for name, value in fields.items()
    }


def definition(fields: Shown) -> Heard:
    """A flat record as a part of a definition; a definition is one already."""
    if fields.get("definition") is WHOLE:
        return Heard(fields)
    if "$schema" in fields:
        return Heard(_with_command(fields))
    known = {*schema()["properties"], *OURS, "cmdparams"}
    used = {name: value for name, value in fields.items() if name in known and value is not None}
    if isinstance(used.get("artifacts"), str):
        del used["artifacts"]  # a list of paths says less than the definition
    for name in ("tags", "requirements"):
        if isinstance(used.get(name), str):
            used[name] = [word.strip() for word in used[name].split(",") if word.strip()]
    ignored = [name for name in fields if name not in used and fields[name] is not None]
    if "cmdparams" in used:
        used.setdefault("cmdparamsTemplate", used.pop("cmdparams"))
    return Heard(used, ignored, DEFAULTS)
