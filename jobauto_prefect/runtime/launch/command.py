"""The argument vector of a job: split first, substituted after, never a shell.

`cmdparamsTemplate` is split into words as a POSIX shell would split it: white space separates,
single quotes, double quotes and the backslash keep a word together and are removed. No other shell
syntax has a meaning. Then, in every word, `${NAME}` (or the older `{NAME}`) of a declared or
injected name is replaced by its value. A word stays one argument, whatever the value.
"""

import re
import shlex
from collections.abc import Callable

from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.errors import Fault
from jobauto_prefect.runtime.launch.environment import Environment, Value
from jobauto_prefect.runtime.output.masking import Masker

PLACEHOLDER = re.compile(r"(\$?)\{([A-Za-z_0-9]+)\}")

Render = Callable[[Value], str]


def split(template: str) -> list[str]:
    """Split a command line template into words that still contain placeholders.

    Raises:
        ValueError: a quote that is not closed, or a backslash at the end.
    """
    return shlex.split(template)


def substitute(text: str, environment: Environment, render: Render) -> str:
    """Replace each placeholder by `render(value)`; all other braces are text."""

    def replacement(match: re.Match[str]) -> str:
        value = environment.placeholder(match[2])
        return match[0] if value is None else render(value)

    return PLACEHOLDER.sub(replacement, text)


def unknown_placeholders(text: str, environment: Environment) -> list[str]:
    """Return the names of unknown `${NAME}` placeholders, in order, each once."""
    names = [name for dollar, name in PLACEHOLDER.findall(text) if dollar]
    return [name for name in dict.fromkeys(names) if environment.placeholder(name) is None]


def faults(executable: str, template: str, environment: Environment) -> list[Fault]:
    """Return what prevents a command from being built; empty if nothing does."""
    errors = []
    if not executable or "\0" in executable or "\0" in template:
        errors.append(Fault("/executable", "command", "the command is empty or has a NUL in it"))
    try:
        split(template)
    except ValueError as error:
        message = f"the command line can't be split into words: {str(error).lower()}"
        errors.append(Fault("/cmdparamsTemplate", "quoting", message))
    unknown = unknown_placeholders(template, environment)
    if unknown:
        named = ", ".join(f"${{{name}}}" for name in unknown)
        errors.append(Fault("/cmdparamsTemplate", "placeholder", f"unknown placeholders: {named}"))
    return errors


def build(executable: str, template: str, environment: Environment) -> list[str]:
    """Build the argument vector; `faults` must be empty for the same arguments."""
    words = (substitute(word, environment, lambda value: value.text) for word in split(template))
    return [executable, *words]


def shown(executable: str, template: str, environment: Environment) -> str:
    """Return the command for people: quoted as for a shell, secrets masked."""
    masker = Masker(environment.secrets)

    def render(value: Value) -> str:
        return MASK if value.secret and value.text else value.text

    words = [executable, *(substitute(word, environment, render) for word in split(template))]
    return shlex.join(masker.mask(word) for word in words)
