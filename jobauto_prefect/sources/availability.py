"""Checks whether a credential's target is available: by a URL or a command of its type.

A check runs on the service's own machine, beside its key and its database. Therefore a command must
be one of `JOBAUTO_AVAILABILITY_COMMANDS`, and a URL must follow the rules for targets.
"""

import contextlib
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from jobauto_prefect.definitions.environment_names import unsafe_reason
from jobauto_prefect.definitions.records.credentials import is_secret
from jobauto_prefect.errors import Fault, SourceUnavailable
from jobauto_prefect.runtime.output.masking import Masker
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.targets import TargetRules, address_of, fault_of_url, web_target
from jobauto_prefect.wording import pluralize

PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
SHOWN = 200  # characters of a command's output
AT_ONCE = 16
"""Limit of checks at once: a target that sends very slowly can block a thread."""

_free = threading.BoundedSemaphore(AT_ONCE)


@dataclass(frozen=True, slots=True)
class Availability:
    """Result of a check; the reason is for people and has no secrets."""

    is_there: bool
    reason: str = ""


def fault_of_check(
    check: Mapping[str, Any], settings: Settings, fields: Sequence[Mapping[str, Any]] | None
) -> Iterator[Fault]:
    """Yield the faults of a credential type's `availability`; `fields` None: unknown."""
    url, command = check.get("url"), check.get("command")
    if (url is None) == (command is None):
        yield Fault("/availability", "required", "give one of url and command")
        return
    if command is not None and not may_run(command[0], settings):
        message = (
            f"{command[0]} is not among JOBAUTO_AVAILABILITY_COMMANDS; "
            "an administrator has to name it, or its folder, there"
        )
        yield Fault("/availability/command/0", "command", message)
    if command is not None and PLACEHOLDER.search(command[0]):
        message = "a program's path can't have a placeholder: a value could name any other program"
        yield Fault("/availability/command/0", "placeholder", message)
    if url is not None and not PLACEHOLDER.match(url):  # one that begins so may be anything
        fault = fault_of_url(PLACEHOLDER.sub("1", url), check_rules(settings))
        if fault is not None:
            yield Fault("/availability/url", "target", fault)
    member = "/availability/url" if url is not None else "/availability/command"
    open_ = {field["keyword"] for field in fields or () if not is_secret(field)}
    for name in PLACEHOLDER.findall(url or " ".join(command or ())):
        if fields is not None and name not in open_:
            message = f"{{{name}}} must be a field of this type that is not secret"
            yield Fault(member, "placeholder", message)


def faults_of_values(
    check: Mapping[str, Any] | None, values: Mapping[str, str], settings: Settings
) -> Iterator[Fault]:
    """Yield why a check can never succeed with these values, so that no job would start.

    Nothing if it can, or if values are missing.
    """
    url = (check or {}).get("url") or ""
    names = PLACEHOLDER.findall(url)
    if not names or not all(values.get(name) for name in names):
        return
    fault = fault_of_url(_filled(url, values), check_rules(settings))
    if fault is not None:
        message = f"the check of its credential type can't ask there: the address {fault}"
        yield Fault(f"/values/{names[0]}", "target", message)


def _filled(text: str, values: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda match: values.get(match[1], ""), text)


def may_run(executable: str, settings: Settings) -> bool:
    """Whether the settings name a command, or a folder that contains it."""
    path = Path(executable)
    if not path.is_absolute() or ".." in path.parts:
        return False
    allowed = [Path(entry) for entry in settings.availability_commands]
    return any(path == entry or entry in path.parents for entry in allowed)


def check_availability(
    check: Mapping[str, Any],
    values: Mapping[str, str],
    secrets: Mapping[str, str],
    settings: Settings,
) -> Availability:
    """Check whether a target is available; takes hardly longer than the check's `timeout_seconds`.

    `values` are the plain ones; only a command gets the `secrets`, in its environment.
    """
    seconds = float(check.get("timeout_seconds", 5))
    if check.get("url"):
        url, rules = _filled(check["url"], values), check_rules(settings)
        return _within(seconds, lambda: _ask(url, rules, seconds))
    program, *words = check["command"]
    if not may_run(program, settings):
        return Availability(False, "its check is not among JOBAUTO_AVAILABILITY_COMMANDS")
    argv = [program, *(_filled(word, values) for word in words)]
    return _run(argv, {**values, **secrets}, Masker(secrets.values()), seconds)


def check_rules(settings: Settings) -> TargetRules:
    """Return the targets that the settings allow for checks."""
    return TargetRules(settings.event_source_targets, use="an availability check")


def _within(seconds: float, look: Callable[[], Availability]) -> Availability:
    """Return the result of a check, or that it took too long; a hanging thread is left behind."""
    if not _free.acquire(blocking=False):
        return Availability(False, "too many checks are under way")
    answers: list[Availability] = []

    def work() -> None:
        try:
            answers.append(look())
        finally:
            _free.release()

    looking = threading.Thread(target=work, name="availability", daemon=True)
    looking.start()
    looking.join(seconds)
    return (
        answers[0]
        if answers
        else Availability(False, f"no answer within {pluralize(seconds, 'second')}")
    )


def _ask(address: str, rules: TargetRules, seconds: float) -> Availability:
    try:
        target = web_target(address)
        url = httpx.URL(address)
        # Resolving the name again could lead elsewhere, so the checked address is used.
        pinned = url.copy_with(host=address_of(target, rules))
        headers = {"Host": url.netloc.decode()}
        with (
            httpx.Client(timeout=seconds, trust_env=False) as client,
            client.stream(
                "GET", pinned, headers=headers, extensions={"sni_hostname": url.host}
            ) as answer,
        ):
            if answer.is_success:
                return Availability(True)
            if answer.is_redirect:
                message = f"{url.host} answers {answer.status_code}; redirects are not followed"
                return Availability(False, message)
            return Availability(False, f"{url.host} answers {answer.status_code}")
    except SourceUnavailable as error:
        return Availability(False, str(error))
    except ValueError as error:
        return Availability(False, f"its address {error}")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Availability(False, f"it does not answer ({type(error).__name__})")


def _run(
    argv: Sequence[str], values: Mapping[str, str], masker: Masker, seconds: float
) -> Availability:
    safe = {name: text for name, text in values.items() if unsafe_reason(name) is None}
    environment = {"PATH": os.defpath, **safe}
    try:
        process = subprocess.Popen(
            argv,
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        where = "install it on the service's machine, or correct the type's availability"
        return Availability(False, f"its check can't be started ({why}); {where}")
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return Availability(False, f"its check did not end within {pluralize(seconds, 'second')}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode == 0:
        return Availability(True)
    lines = masker.mask(output.decode(errors="replace")).strip().splitlines()
    reason = lines[0][:SHOWN] if lines else f"its check ended with {process.returncode}"
    return Availability(False, reason)
