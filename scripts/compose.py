"""Run deployments/compose.yaml as people do, and kill each of its parts: `make try-compose`.

    python -m scripts.compose [OPTION…]

Needs docker with compose 2.23 or later, and the ports 8000 and 4200. Options go to `docker compose
up`, such as `--no-build` if there is an image `jobauto`. Nothing is left of it.
"""

import contextlib
import os
import secrets
import ssl
import subprocess
import sys
import time

import httpx

from scripts.release import ROOT

COMPOSE = ("docker", "compose", "--project-name", "jobauto-try", "--file",
           str(ROOT / "deployments" / "compose.yaml"))  # fmt: skip
PARTS = ("facade", "prefect", "services", "worker", "database")
PATIENCE = 120  # seconds
URL = "https://localhost:8000"
ECHO = {
    "$schema": "https://example.org/application.json",
    "name": "Echo",
    "description": "Says that it ran.",
    "uuid": "0b4e1a8e-8f1c-4c1e-9d2a-0a6a3e7a2c11",
    "executable": "/bin/echo",
    "cmdparamsTemplate": "it ran",
    "environment": {},
}


def _compose(*words: str, given: str = "") -> str:
    done = subprocess.run(
        [*COMPOSE, *words], input=given, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def _signed_in() -> httpx.Client:
    exec_facade = ("exec", "-T", "facade")
    trusted = ssl.create_default_context(
        cadata=_compose(*exec_facade, "cat", "/var/lib/jobauto-tls/ca.crt")
    )
    words = ("jobauto", "user", "create", "admin", "--role", "super_admin", "--password-stdin")
    _compose(*exec_facade, *words, given=secrets.token_urlsafe(20))
    token = _compose(*exec_facade, "jobauto", "token", "issue", "--user", "admin").split()[-1]
    return httpx.Client(
        base_url=f"{URL}/api/v1", headers={"Authorization": f"Bearer {token}"}, verify=trusted
    )


def _until_succeeded(rest: httpx.Client, template_id: int) -> float:
    """Run a job, asking again while the facade is away; seconds until it has succeeded."""
    began, job, state = time.monotonic(), None, "not accepted"
    while state != "succeeded":
        if time.monotonic() - began > PATIENCE:
            sys.exit(f"the job is {state} after {PATIENCE} s")
        with contextlib.suppress(httpx.HTTPError):
            if job is None:
                answer = rest.post("/job/", json={"runtemplate_id": template_id})
                job = answer.raise_for_status().json()["id"]
            state = rest.get(f"/job/{job}").raise_for_status().json()["state"]
        time.sleep(0.1)
    return time.monotonic() - began


def _make_template(rest: httpx.Client) -> int:
    rest.post("/app/", json=ECHO).raise_for_status()
    rest.post("/company/", json={"slug": "acme", "name": "Acme"}).raise_for_status()
    body = {"app": "Echo", "company": "acme", "name": "Echo"}
    return int(rest.post("/runtemplate/", json=body).raise_for_status().json()["id"])


def main() -> None:
    """Print how soon a job succeeds after each kill; fail if one does not."""
    os.environ["DB_PASSWORD"] = secrets.token_hex(24)
    try:
        _compose("up", "--detach", *sys.argv[1:])
        with _signed_in() as rest:
            template_id = _make_template(rest)
            print(f"a job: {_until_succeeded(rest, template_id):.1f} s")
            for part in PARTS:
                # All but the init of the container, which ends then: its policy starts it again.
                subprocess.run(
                    [*COMPOSE, "exec", "-T", part, "sh", "-c", "kill -9 -1"], check=False
                )
                print(f"{part} killed: {_until_succeeded(rest, template_id):.1f} s")
    finally:
        _compose("down", "--volumes")


if __name__ == "__main__":
    main()
