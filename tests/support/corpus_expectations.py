"""What a run of a real definition comes to, worked out from the definition and the rules in words.

Nothing of the code that is tested is used for it.
"""

import json
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobauto_prefect import __version__
from tests.support.corpus_runs import SECRET, Run, path_of, secrets_of

TRUE = ("true", "yes", "on", "1", "y", "t")
FALSE = ("false", "no", "off", "0", "n", "f")
PREFIXES = ("JOBAUTO", "MULTIFLEXI")


def written(value: Any) -> str:
    """A value as the text of an environment."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def default_of(variable: Mapping[str, Any]) -> str:
    """A default as the text of an environment; those that are true or false in one spelling."""
    text = written(variable["defval"])
    word = text.strip().lower()
    if variable.get("type") == "bool" and word in (*TRUE, *FALSE):
        return "true" if word in TRUE else "false"
    return text


def expected_environment(run: Run, document: Mapping[str, Any]) -> dict[str, str]:
    """Defaults, then what the template says, then the run, then what every job is told.

    Only the first two may refer to other values, which are put in as they are.
    """
    environment = document["environment"]
    defaults = {
        key: default_of(variable)
        for key, variable in environment.items()
        if variable.get("defval") is not None
    }
    ours = defaults | dict.fromkeys(secrets_of(document), SECRET)
    given = {key: written(value) for key, value in run.given.items()}
    told_to_all = injected(run)
    known = dict.fromkeys(environment, "") | ours | given | told_to_all

    def expanded(text: str) -> str:
        return re.sub(r"\$?\{(\w+)\}", lambda match: known.get(match[1], match[0]), text)

    inherited = {name: os.environ[name] for name in ("HOME", "LANG", "TZ") if name in os.environ}
    return {
        **inherited,
        "PATH": path_of(run.plant),
        "TMPDIR": f"{told_to_all['JOBAUTO_JOB_DIR']}/tmp",
        **{key: expanded(text) for key, text in ours.items()},
        **given,
        **told_to_all,
    }


def injected(run: Run) -> dict[str, str]:
    """What every job is told; where its directory is, is taken from the process itself."""
    kept = dict(entry.split("=", 1) for entry in run.kept("environ"))
    name = run.app["name"]
    facts = {
        "JOB_ID": run.job["id"],
        "TASK_ID": "",
        "ATTEMPT": 1,
        "APPLICATION_ID": run.app["id"],
        "APPLICATION_NAME": name if isinstance(name, str) else name["en"],
        "APPLICATION_UUID": run.app["uuid"],
        "COMPANY_ID": run.template["company_id"],
        "COMPANY_CODE": run.plant.pool,
        "COMPANY_NAME": run.plant.pool,
        "RUNTEMPLATE_ID": run.template["id"],
        "RUNTEMPLATE_NAME": run.template["name"],
        "EXECUTOR": "Native",
        "VERSION": __version__,
        "WINDOW_START": "",
    }
    directory = kept["JOBAUTO_JOB_DIR"]
    assert directory.endswith(f"/job-{run.job['id']}")
    both = {f"{prefix}_{key}": str(value) for key, value in facts.items() for prefix in PREFIXES}
    return both | {"JOBAUTO_JOB_DIR": directory, "MULTIFLEXI_TMP": directory}


def expected_arguments(run: Run, document: Mapping[str, Any]) -> list[str]:
    """The words of the command line, their placeholders filled in."""
    environment = expected_environment(run, document)
    known = set(document["environment"]) | {
        name for name in environment if name.startswith(PREFIXES)
    }
    words = shlex.split(document.get("cmdparamsTemplate") or "")

    def filled(word: str) -> str:
        def value(match: re.Match[str]) -> str:
            return environment.get(match[1], "") if match[1] in known else match[0]

        return re.sub(r"\$?\{(\w+)\}", value, word)

    return [filled(word) for word in words]


def check(run: Run, document: Mapping[str, Any]) -> None:
    """Prefect kept the values, the process had them, and its end is told as it is to be."""
    assert run.plant.flow_run(run.flow_run_id)["parameters"] == run.parameters
    check_process(run, document)
    check_outcome(run, document)


def check_process(run: Run, document: Mapping[str, Any]) -> None:
    """The process was given what the definition says, and nothing else."""
    assert run.job["exitcode"] == 0, run.job["message"]
    kept = dict(entry.split("=", 1) for entry in run.kept("environ"))
    assert kept == expected_environment(run, document)
    shell, program, *arguments = run.kept("cmdline")
    assert (shell, Path(program).name) == ("/bin/sh", document["executable"])
    assert arguments == expected_arguments(run, document)


def check_outcome(run: Run, document: Mapping[str, Any]) -> None:
    """What exit code 0 means is the definition's word."""
    codes = {int(code): entry for code, entry in (document.get("exitCodes") or {}).items()}
    severity = codes[0].get("severity", "error") if 0 in codes else "success"
    fulfils = severity in ("success", "info", "warning")
    state = run.plant.run_in(run.flow_run_id, "COMPLETED", "FAILED")["state_type"]
    assert (run.job["severity"], state) == (severity, "COMPLETED" if fulfils else "FAILED")
