"""Values that want to be more than values, from the ledger's layers to the process."""

import json
import sys

from jobauto_prefect.definitions import parse
from jobauto_prefect.runtime.launch.environment import Layer
from jobauto_prefect.runtime.launch.preparation import prepare
from jobauto_prefect.runtime.worker_context import WorkerContext
from tests.support.launches import launch
from tests.support.recorder import Recorder

HOSTILE = [
    "; touch pwned", "$(touch pwned)", "`touch pwned`", "| tee pwned", "> pwned", "&& touch pwned",
    "a b  c", "'", '"', "'; touch pwned; '", "\\", "\\n", "line\nline\r\n", "\ttab", "-rf",
    "--help", "{B}", "${B}", "${HOME}", "$HOME", "{}", "{{ x }}", "%s", "*", "~", "!!", "#", "=",
    "A=B", "", "žluťoučký kůň", "🐎", "\u202e", "\ufeff", "\x01\x1b[31m", "x" * 100_000,
]  # fmt: skip

SHOW = (
    "import json, os, sys; open('seen.json', 'w').write(json.dumps([sys.argv[1:],"
    " {name: os.environ[name] for name in os.environ if name[0] in 'VTC' and name[1:].isdigit()},"
    " sorted(os.listdir())]))"
)


async def test_hostile_values_reach_the_process_unchanged_and_start_nothing(
    worker: WorkerContext, facade: Recorder
) -> None:
    """Braces of known names are macros in template and company values, so none is known here."""
    count = len(HOSTILE)
    job, template, company = (
        {f"{letter}{index}": value for index, value in enumerate(HOSTILE)} for letter in "VTC"
    )
    declared = {name: {} for name in (*job, *template, *company, "EMPTY")}
    definition = parse(
        {
            "name": "show",
            "description": "",
            "executable": sys.executable,
            "cmdparamsTemplate": "-I -c '"
            + SHOW.replace("'", "'\\''")
            + "' ${EMPTY} "
            + " ".join(f"${{V{index}}} --x={{V{index}}}" for index in range(count)),
            "environment": declared,
        }
    )
    directory = f"{worker.work_directory}/job-1"
    prepared = prepare(
        definition,
        directory=directory,
        company=Layer(company),
        template=Layer(template),
        overrides=Layer(job),
        values={},
    )
    request = launch(
        worker,
        prepared.argv,
        environment=prepared.environment | {"PYTHONUTF8": "1"},
        result_file="seen.json",
    )
    outcome = await worker.runner.run(request)
    assert outcome.report.exit_code == 0, facade.lines(1)
    (seen,) = [json.loads(one.body) for one in facade.requests if one.method == "PUT"]
    arguments, environment, files = seen
    assert arguments == ["", *[part for value in HOSTILE for part in (value, f"--x={value}")]]
    assert environment == job | template | company
    assert files == ["seen.json", "tmp"]
