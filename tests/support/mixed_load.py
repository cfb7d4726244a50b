"""Work of every kind for an installation whose parts are killed meanwhile."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import httpx
from sqlalchemy.exc import DBAPIError

from jobauto_prefect.ledger.records import RunTemplate
from tests.support.adapters import AdapterDatabase
from tests.support.installation import PATIENCE, Installation
from tests.support.ledger_rows import count_rows, fetch
from tests.support.waits import eventually

LONGEST = 300  # seconds that one request may be repeated
BUSY = (409, 503)

WORK = """#!/bin/sh
echo "$JOBAUTO_JOB_ID" >> "$MARKS/worked"
echo "job $JOBAUTO_JOB_ID works"
sleep "$SECONDS_TO_SLEEP"
exit "$EXIT_CODE"
"""
KINDS: dict[str, dict[str, str]] = {
    "posted": {"SECONDS_TO_SLEEP": "0.5"},
    "failing": {"EXIT_CODE": "3"},
    "long": {"SECONDS_TO_SLEEP": "900"},
    "paused": {},
    "chained": {},
    "changed": {},
}
"""The templates by their names, and what their jobs are told."""


@dataclass(slots=True)
class Load:
    """What was asked for and granted so far."""

    installation: Installation
    adapter: AdapterDatabase
    windows_every: int = 20  # seconds between two windows of all scheduled templates
    turn: float = 2.0  # seconds between two posted jobs
    pools: Mapping[str, str] = field(default_factory=dict)  # of templates, by their names
    templates: dict[str, int] = field(default_factory=dict)
    posted: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in KINDS})
    cancelled: list[int] = field(default_factory=list)
    changes: int = 0
    pausable: UUID | None = None
    errors: list[str] = field(default_factory=list)

    def prepare(self) -> None:
        """Make the templates, the rules and the windows."""
        installation = self.installation
        required = {"type": "string", "required": True}
        names = ("MARKS", "SECONDS_TO_SLEEP", "EXIT_CODE")
        installation.add_application("Worker", WORK, dict.fromkeys(names, required))
        usual = {"MARKS": str(installation.marks), "SECONDS_TO_SLEEP": "0", "EXIT_CODE": "0"}
        for name, env in KINDS.items():
            body = {"app": "Worker", "company": "town", "name": name, "env": usual | env}
            body |= {"pool": self.pools[name]} if name in self.pools else {}
            self.templates[name] = _made(installation.rest, "/runtemplate/", body)
        source = _made(
            installation.rest, "/eventsource/", self.adapter.as_source("changes", poll_interval=1)
        )
        rules: tuple[dict[str, Any], ...] = (
            {"event_source_id": source, "runtemplate_id": self.templates["changed"]},
            {
                "runtemplate_source_id": self.templates["posted"],
                "runtemplate_id": self.templates["chained"],
            },
        )
        for rule in rules:
            _made(installation.rest, "/eventrule/", rule)
        for delay in range(0, 60, self.windows_every):
            members = {"deadline_offset": "+1h", "overlap": "parallel"}
            installation.add_template(f"at {delay}", interv="i", delay=delay, **members)
        eventually(lambda: self._known() == len(KINDS) + 60 // self.windows_every, PATIENCE)
        paused = fetch(installation.ledger, RunTemplate, self.templates["paused"])
        self.pausable = paused.deployment_id

    def _known(self) -> int:
        """How many templates Prefect knows."""
        known = RunTemplate.deployment_id.is_not(None)
        return count_rows(self.installation.ledger, RunTemplate, known)

    def post(self, name: str) -> int | None:
        """Post a job of this template; its id, None: it was refused for good."""
        key = {"Idempotency-Key": str(uuid4())}
        body = {"runtemplate_id": self.templates[name]}

        def ask() -> httpx.Response:
            return self.installation.rest.post("/job/", json=body, headers=key)

        answer = insist(ask, refusable=name == "paused")
        if not answer.is_success:
            return None
        job: int = answer.json()["id"]
        self.posted[name].append(job)
        return job

    def cancel(self, job: int) -> None:
        """Cancel a job that was posted; where it is lost, what follows it."""
        answer = self._cancel(job)
        while answer.status_code == httpx.codes.CONFLICT and (following := self._following(job)):
            answer = self._cancel(following)
        self.cancelled.append(job)

    def _cancel(self, job: int) -> httpx.Response:
        body = {"id": job, "state": "cancelled"}
        return insist(lambda: self.installation.rest.post("/job/", json=body), refusable=True)

    def _following(self, job: int) -> int | None:
        """The live attempt after a job."""
        query = {"retry_of": job, "state": "scheduled,running"}
        answer = insist(lambda: self.installation.rest.get("/jobs.json", params=query))
        return next((follower["id"] for follower in answer.json().values()), None)

    def change(self) -> None:
        """Add a change that the rule is about."""
        self.changes += 1
        self.adapter.add(self.changes)

    def pause(self, paused: bool) -> None:
        """Click pause or resume of the pool and of a deployment; Prefect may be away."""
        installation = self.installation
        word = "pause_deployment" if paused else "resume_deployment"
        insist(lambda: installation.prefect.post(f"/deployments/{self.pausable}/{word}"))
        insist(lambda: installation.prefect.patch("/work_pools/town", json={"is_paused": paused}))

    @contextlib.contextmanager
    def running(self, *, pausing: bool = True) -> Iterator[None]:
        """All of it at once, in threads, until the block ends; then nothing is paused."""
        over = threading.Event()
        threads = [
            threading.Thread(target=self._until, args=(over, *what))
            for what in (
                (self.turn, lambda: self.post("posted")),
                (4 * self.turn, lambda: self.post("failing")),
                (4 * self.turn, lambda: self.post("paused")),
                (3 * self.turn, self.change),
                (6 * self.turn, self._post_and_cancel),
                *([(20 * self.turn, self._pause_for_a_while)] if pausing else []),
            )
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def _until(self, over: threading.Event, every: float, work: Callable[[], Any]) -> None:
        while not over.wait(every):
            try:
                work()
            except (AssertionError, DBAPIError, httpx.HTTPError) as error:
                self.errors.append(f"{type(error).__name__}: {error}")

    def _post_and_cancel(self) -> None:
        job = self.post("long")
        if job is not None:
            time.sleep(self.turn)
            self.cancel(job)

    def _pause_for_a_while(self) -> None:
        self.pause(True)
        time.sleep(2 * self.turn)
        self.pause(False)


def insist(ask: Callable[[], httpx.Response], *, refusable: bool = False) -> httpx.Response:
    """Ask until it is answered; a client that loses an answer asks again.

    Args:
        refusable: an answer of 4xx is one, too, unless it says when to ask again.
    """
    until = time.monotonic() + LONGEST
    while True:
        with contextlib.suppress(httpx.TransportError):
            answer = ask()
            is_refused = answer.is_client_error and "Retry-After" not in answer.headers
            if answer.is_success or (refusable and is_refused):
                return answer
            assert answer.status_code in BUSY or answer.is_server_error, answer.text
        assert time.monotonic() < until, "nobody answered"
        time.sleep(0.2)


def _made(rest: httpx.Client, path: str, body: dict[str, Any]) -> int:
    made: int = rest.post(path, json=body).raise_for_status().json()["id"]
    return made
