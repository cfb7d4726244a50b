"""From the `helm` section of a definition to the argument vector of `helm` (specification 2.1).

Helm parses its value flags: commas separate values, a leading brace begins a list, and the text
determines the type. So each value is escaped and passed by the flag that keeps its type: texts by
`--set-string`, booleans and integers by `--set`, all other numbers by `--set-json`.
"""

import csv
import io
import json
import re

from jobauto_prefect.definitions import Helm, Setting

IN_KEY = re.compile(r"(\\.)|([,=\\])", re.DOTALL)
IN_TEXT = re.compile(r"[\\,]|^\{")
HELMS_OWN_SECONDS = 300  # Helm's timeout if the definition names none
WHOLE = range(-(2**63), 2**63)  # the integers that --set reads as numbers


def helm_argv(helm: Helm) -> list[str]:
    """Install or upgrade the release. Relative paths are relative to the folder `helm` runs in."""
    return [
        "helm",
        *(("upgrade", "--install") if helm.upgrade_install else ("install",)),
        helm.release_name,
        helm.chart,
        *(("--namespace", helm.namespace) if helm.namespace else ()),
        "--create-namespace",
        *(word for path in helm.values_files for word in ("--values", _listed(path))),
        *(word for key, value in helm.set.items() for word in _set(key, value)),
        *(("--timeout", f"{helm.timeout_seconds}s") if helm.timeout_seconds else ()),
        *(("--atomic",) if helm.atomic else ()),
        *(("--wait",) if helm.wait else ()),
    ]


def _listed(path: str) -> str:
    """Return one path quoted for Helm's comma-separated lists."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([path])
    return line.getvalue()


def _set(key: str, value: Setting) -> tuple[str, str]:
    path = IN_KEY.sub(_kept, key)
    if isinstance(value, str):
        return "--set-string", f"{path}={IN_TEXT.sub(_escaped, value)}"
    if isinstance(value, bool) or (isinstance(value, int) and value in WHOLE):
        return "--set", f"{path}={json.dumps(value)}"
    return "--set-json", f"{path}={json.dumps(value)}"


def _kept(match: re.Match[str]) -> str:
    r"""Keep dots, brackets and escapes that are the key's own: `image.tag`, `hosts[0]`, `a\.b`."""
    return match[1] or _escaped(match)


def _escaped(match: re.Match[str]) -> str:
    return f"\\{match[0]}"
