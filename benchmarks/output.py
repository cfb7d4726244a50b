"""Lines per second from a job's process into the ledger of `jobauto up`, without secrets and with.

    python -m benchmarks.output --json [--quick]

A job prints 200,000 lines as fast as it can; the figure is for the time from its first act until
its outcome is known, when the ledger has all of them. The yardstick is PostgreSQL alone: the same
rows inserted by one connection. Then the same with 20 secrets, among them a private key; each
hundredth line has one: the yardstick is the job without secrets.
"""

import base64
import secrets
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.installation import Figures, Up, database, eventually, report, sized, up

LINES = sized(200_000, 2_000)
GOAL = 20_000.0
BATCH = 5_000
ONE_IN = 100
"""So often a line has a secret."""
LINE = "2026-05-04T12:00:30Z INFO  record {} was read, checked, written, amount 12 EUR"
SCRIPT = f"""
date +%s.%N > "$STARTED"
seq -f "{LINE.format("%.0f")}" {LINES} | sed "0~{ONE_IN}s/.*/password=${{SECRET_1:-none}}/"
"""


def _secrets() -> dict[str, str]:
    """A private key of 27 lines, and 19 values as people have them."""
    rows = [base64.b64encode(secrets.token_bytes(48)).decode() for _ in range(25)]
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *rows, "-----END PRIVATE KEY-----", ""])
    values = [key, *(secrets.token_urlsafe(8 + number) for number in range(19))]
    return {f"SECRET_{number}": value for number, value in enumerate(values)}


def _template(service: Up, name: str, known: dict[str, str]) -> int:
    definition = {
        "$schema": "https://example.com/application.schema.json",
        "name": name,
        "description": "Prints many lines",
        "executable": service.program_of_jobs("chatty", SCRIPT),
        "environment": {
            "STARTED": {"type": "string", "required": True},
            **{key: {"type": "password"} for key in known},
        },
    }
    app = int(service.post("/app/", definition)["id"])
    return service.template(app, name, env={"STARTED": "-", **known})


def _run(service: Up, template: int) -> tuple[float, int]:
    """Lines per second, from the first act of the process until its outcome; how many are kept."""
    mark = service.home / f"started-{template}"
    body = {"runtemplate_id": template, "env": {"STARTED": str(mark)}}
    job = service.post("/job/", body)["id"]
    of_job = f'FROM job WHERE id = {job} AND "end" IS NOT NULL'
    eventually(lambda: service.ledger.one(f"SELECT 1 {of_job}"))
    seconds = time.time() - float(Path(mark).read_text())
    kept = "SELECT count(*) FROM job_output_line WHERE stream = 'stdout'"
    number = int(service.ledger.one(f"{kept} AND job_id = {job}"))
    return number / seconds, number


def _masked(service: Up) -> int:
    """How many lines show that a secret was masked; none shows one."""
    lines = "SELECT count(*) FROM job_output_line WHERE text LIKE 'password=%'"
    shown = int(service.ledger.one(f"{lines} AND text NOT LIKE '%none' AND text NOT LIKE '%*'"))
    if shown:
        raise RuntimeError(f"{shown} secrets were not masked")
    return int(service.ledger.one(f"{lines} AND text LIKE '%*'"))


def _bare_insert() -> float:
    """Seconds for the same number of like rows, without us."""
    rows = [(number, "stdout", LINE.format(number), datetime.now(UTC)) for number in range(LINES)]
    with database() as bare:
        bare.server.execute(
            "CREATE TABLE bare (seq int PRIMARY KEY, stream text, text text, at timestamptz)"
        )
        before = time.monotonic()
        for first in range(0, LINES, BATCH):
            part = rows[first : first + BATCH]
            with bare.server.transaction():
                bare.server.cursor().executemany("INSERT INTO bare VALUES (%s, %s, %s, %s)", part)
        return time.monotonic() - before


def measure() -> list[Figures]:
    """Lines per second without secrets, and with."""
    yardstick = LINES / _bare_insert()
    with up(JOBAUTO_OUTPUT_LIMIT_BYTES=str(LINES * 400)) as service:
        service.post("/company/", {"slug": "bench", "name": "Bench"})
        value, kept = _run(service, _template(service, "Plain", {}))
        with_secrets, kept_too = _run(service, _template(service, "Secret", _secrets()))
        masked = _masked(service)
    goal = f"at least {GOAL:g} lines per second, none missing"
    return [
        {
            "name": "output",
            "value": round(value),
            "unit": "lines per second from the process into the ledger",
            "yardstick": "the same rows inserted by one connection",
            "yardstick_value": round(yardstick),
            "ratio": round(value / yardstick, 2),
            "goal": goal,
            "met": value >= GOAL and kept == LINES,
            "lines": kept,
        },
        {
            "name": "output: 20 secrets",
            "value": round(with_secrets),
            "unit": "lines per second from the process into the ledger",
            "yardstick": "the same job without secrets",
            "yardstick_value": round(value),
            "ratio": round(with_secrets / value, 2),
            "goal": f"{goal}, each secret masked",
            "met": with_secrets >= GOAL and kept_too == LINES and masked == LINES // ONE_IN,
            "masked": masked,
        },
    ]


if __name__ == "__main__":
    report(measure, __doc__)
