"""A valid application definition, as values (specification 2.1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jobauto_prefect.definitions.kubernetes_section import Kubernetes

Localized = str | Mapping[str, str]
"""A plain string, or language code -> text (specification 2.1, localized string)."""


class VariableType(StrEnum):
    """The type of a variable's value."""

    STRING = "string"
    FILE_PATH = "file-path"
    EMAIL = "email"
    URL = "url"
    INTEGER = "integer"
    FLOAT = "float"
    BOOL = "bool"
    PASSWORD = "password"  # noqa: S105 - the name of a type
    SET = "set"
    TEXT = "text"


class Severity(StrEnum):
    """How bad an exit code is; the first three fulfil an obligation."""

    SUCCESS = "success"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"

    @property
    def fulfils(self) -> bool:
        """True for success, info and warning."""
        return self in (Severity.SUCCESS, Severity.INFO, Severity.WARNING)


@dataclass(frozen=True, slots=True)
class Option:
    """One choice of a variable: the value the process gets, and its label."""

    value: str
    label: Localized


@dataclass(frozen=True, slots=True)
class Variable:
    """One key of `environment`. `default` is the raw `defval`; None also if there is none."""

    key: str
    type: VariableType = VariableType.STRING
    category: str | None = None
    description: Localized = ""
    hint: Localized = ""
    default: Any = None
    required: bool = False
    options: tuple[Option, ...] = ()
    secret: bool = field(init=False)
    """Whether its type is password."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "secret", self.type is VariableType.PASSWORD)


@dataclass(frozen=True, slots=True)
class ExitCode:
    """What one exit code means."""

    code: int
    description: Localized
    severity: Severity = Severity.ERROR
    retry: bool = False


@dataclass(frozen=True, slots=True)
class ArtifactDeclaration:
    """One entry of `artifacts`; `path` is a literal path or a regular expression."""

    name: str
    path: str
    type: str
    description: Localized = ""


@dataclass(frozen=True, slots=True)
class Definition:
    """A valid application definition; `document` is the original.

    Maps and tuples are in the order of the document. `triggers` are the events it consumes.
    `exit_codes` leaves out keys that no process can return (more than ten digits).
    """

    document: Mapping[str, Any]
    name: Localized
    description: Localized
    executable: str
    title: Localized = ""
    command_template: str = ""
    environment: Mapping[str, Variable] = field(default_factory=dict)
    artifacts: tuple[ArtifactDeclaration, ...] = ()
    exit_codes: Mapping[int, ExitCode] = field(default_factory=dict)
    uuid: str | None = None
    version: str | None = None
    category: str | None = None
    homepage: str | None = None
    license: str | None = None
    tags: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    oci_image: str | None = None
    kubernetes: Kubernetes = field(default_factory=Kubernetes)
    produces: Mapping[str, Any] = field(default_factory=dict)
    consumes: Mapping[str, Any] = field(default_factory=dict)
    emits: Mapping[str, Any] = field(default_factory=dict)
    triggers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def secret_keys(self) -> set[str]:
        """The password-typed keys of the environment."""
        return {key for key, variable in self.environment.items() if variable.secret}


# Browsers request the two written forms of Norwegian; the format has one code.
_SAME = {"nb": "no", "nn": "no"}


def pick_text(localized: Localized, *languages: str) -> str:
    """Return the text in the first available language, such as `cs`, `cs-CZ`, `cs_CZ.UTF-8`.

    Each also matches its base (`cs` for `cs-CZ`). If none is available: English, then the first
    text in the document's order. An empty text counts as missing.
    """
    if isinstance(localized, str):
        return localized
    for language in (*languages, "en"):
        asked = language.partition(".")[0].replace("_", "-").lower()
        base = asked.partition("-")[0]
        for code in (asked, base, _SAME.get(base, base)):
            if localized.get(code):
                return localized[code]
    return next((each for each in localized.values() if each), "")
