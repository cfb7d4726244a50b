"""Whole jobs: real processes, a recorded facade."""

import asyncio
import contextlib
import json
import os
import resource
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from jobauto_prefect.errors import Conflict, FacadeUnavailable, Forbidden, Unauthorized
from jobauto_prefect.runtime.facade_client import FacadeClient
from jobauto_prefect.runtime.job import Job
from jobauto_prefect.runtime.protocol import (
    ArtifactPattern,
    ClaimAnswer,
    Ending,
    InputFile,
    OutputLines,
    Renewal,
)
from jobauto_prefect.runtime.worker_context import WorkerContext, open_worker
from jobauto_prefect.runtime.workspace import WorkerWorkspace
from tests.support.launches import TOKEN, Opened, launch, left_in, plan
from tests.support.processes import is_alive
from tests.support.recorder import Recorder
from tests.support.waits import until


async def test_output_artifacts_and_report_reach_the_facade_in_this_order(
    worker: WorkerContext, facade: Recorder
) -> None:
    request = launch(
        worker,
        "echo out; echo err >&2; echo '{}' > result.json; echo x > a.txt; exit 3",
        result_file="result.json",
        artifacts=[ArtifactPattern(name="texts", path=r".*\.txt", type="text/plain")],
    )
    outcome = await worker.runner.run(request)
    assert outcome.answer is not None
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.EXITED, 3)
    sent = [one for one in facade.requests if one.path.startswith("jobs/1/")]
    assert {one.token for one in sent} == {f"Bearer {TOKEN}"}
    assert sorted(text for _, _, text in facade.lines(1)) == ["err", "out"]
    assert [one.query for one in sent if one.method == "PUT"] == [
        {"claim_id": str(request.claim_id), "path": path, "name": name, "type": kind}
        for path, name, kind in (
            ("result.json", "RESULT_FILE", "file"),
            ("a.txt", "texts", "text/plain"),
        )
    ]
    assert [one.body for one in sent if one.method == "PUT"] == [b"{}\n", b"x\n"]
    assert sent[-1].path == "jobs/1/report"
    assert sent[-1].body["lines"] == 2
    assert sent[-1].body["worker"] == "w/1"
    assert left_in(worker) == []


async def test_what_a_launch_tells_stands_before_the_output(
    worker: WorkerContext, facade: Recorder
) -> None:
    told = "values were left out because the definition does not declare these names: X"
    outcome = await worker.runner.run(launch(worker, "echo out", notices=[told]))
    assert [line[1:] for line in facade.lines(1)] == [("notice", told), ("stdout", "out")]
    assert outcome.report.notices == [told]


INPUT = InputFile(artifact_id=7, path="tmp/inputs/KEY/stock.json")


async def test_a_job_finds_its_input_which_is_no_artifact_of_its_own(
    worker: WorkerContext, facade: Recorder
) -> None:
    facade.answers["jobs/1/inputs/7"] = lambda _request: (200, {"count": 3})
    anything = ArtifactPattern(name="all", path=".*", type="file")
    request = launch(worker, f"cat {INPUT.path}", inputs=[INPUT], artifacts=[anything])
    outcome = await worker.runner.run(request)
    assert outcome.report.exit_code == 0
    assert [text for _, _, text in facade.lines(1)] == ['{"count": 3}']
    (asked,) = [one for one in facade.requests if one.path == "jobs/1/inputs/7"]
    assert asked.query == {"claim_id": str(request.claim_id)}
    assert [one for one in facade.requests if one.method == "PUT"] == []
    assert left_in(worker) == []


async def test_a_job_whose_input_is_gone_does_not_start(
    worker: WorkerContext, facade: Recorder
) -> None:
    facade.answers["jobs/1/inputs/7"] = lambda _request: (404, {"message": "no such file"})
    outcome = await worker.runner.run(launch(worker, "echo started", inputs=[INPUT]))
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.NOT_STARTED, 126)
    assert outcome.report.message == f"its input {INPUT.path} can't be fetched: no such file"
    assert left_in(worker) == []


async def test_a_job_that_waits_for_its_input_can_be_stopped(
    worker: WorkerContext, facade: Recorder
) -> None:
    facade.answers["jobs/1/inputs/7"] = lambda _request: (503, {"message": "away"})
    running = asyncio.create_task(worker.runner.run(launch(worker, "echo x", inputs=[INPUT])))
    await until(lambda: facade.bodies("jobs/1/inputs/7"))
    assert worker.runner.stop(1, "enough")
    outcome = await running
    assert (outcome.report.ending, outcome.report.message) == (Ending.CANCELLED, "enough")
    assert left_in(worker) == []


async def test_a_job_gets_its_environment_and_nothing_of_the_workers(
    worker: WorkerContext, facade: Recorder
) -> None:
    os.environ["JOBAUTO_SECRET_OF_THE_SERVICE"] = "x"
    await worker.runner.run(
        launch(worker, ["env"], environment={"NAME": "ž ${A} 'x'", "TZ": "CET"})
    )
    del os.environ["JOBAUTO_SECRET_OF_THE_SERVICE"]
    got = dict(text.split("=", 1) for _, _, text in facade.lines(1))
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    directory = f"{worker.work_directory}/job-1"
    assert got == inherited | {
        "JOBAUTO_JOB_DIR": directory,
        "TMPDIR": f"{directory}/tmp",
        "NAME": "ž ${A} 'x'",
        "TZ": "CET",
    }


async def test_a_job_works_in_its_own_closed_directory(
    worker: WorkerContext, facade: Recorder
) -> None:
    await worker.runner.run(launch(worker, "pwd; stat -c %a . $TMPDIR; ls"))
    assert [text for _, _, text in facade.lines(1)] == [
        f"{worker.work_directory}/job-1",
        "700",
        "700",
        "tmp",
    ]


async def test_secrets_are_masked_in_output_and_messages(
    worker: WorkerContext, facade: Recorder
) -> None:
    script = "printf hun; sleep 0.1; printf 'ter2\\nline1\\nline2\\n'; sleep 0.1; echo hunter2 >&2"
    await worker.runner.run(launch(worker, script, secrets=["hunter2", "line1\nline2"]))
    await worker.runner.run(launch(worker, ["/no/hunter2"], job=2, secrets=["hunter2"]))
    told = json.dumps([one.body for one in facade.requests], default=str)
    assert "hunter2" not in told
    assert "line1" not in told
    assert [text for _, stream, text in facade.lines(1) if stream == "stdout"] == ["********"] * 2


async def test_a_prompt_is_seen_while_the_job_waits(
    worker: WorkerContext, facade: Recorder
) -> None:
    running = asyncio.create_task(worker.runner.run(launch(worker, "printf 'ready? '; sleep 60")))
    await until(lambda: facade.lines(1) == [(1, "stdout", "ready? ")])
    worker.runner.stop(1, "enough")
    await running


async def test_what_cannot_be_started_is_told_with_a_line_in_its_output(
    worker: WorkerContext, facade: Recorder
) -> None:
    outcome = await worker.runner.run(launch(worker, ["no-such-program"]))
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.NOT_STARTED, 127)
    (line,) = facade.lines(1)
    assert line[1] == "notice"
    assert line[2].startswith("no-such-program is not found on PATH")
    assert "install it where the worker runs" in line[2]


async def test_a_job_for_an_executor_that_is_not_here_is_refused_at_the_ledger(
    worker: WorkerContext, facade: Recorder
) -> None:
    await worker.runner.run(launch(worker, "true", executor="Slurm"))
    (report,) = facade.reports(1)
    assert report["ending"] == "not_started"
    assert report["message"].startswith("this worker has no executor Slurm; it has Docker, ")


async def test_a_timeout_ends_the_job(worker: WorkerContext, tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/child; wait"
    outcome = await worker.runner.run(launch(worker, script, timeout_seconds=2))
    assert outcome.report.ending is Ending.TIMEOUT
    assert outcome.report.message == "it ran longer than 2 s"
    assert not is_alive(int((tmp_path / "child").read_text()))


async def test_a_job_that_ignores_term_is_killed_after_the_stop_seconds(
    worker: WorkerContext, facade: Recorder
) -> None:
    script = "trap 'echo no' TERM; echo ready; while :; do sleep 0.05; done"
    running = asyncio.create_task(worker.runner.run(launch(worker, script)))
    await until(lambda: facade.lines(1))
    assert worker.runner.stop(1, "from the UI")
    outcome = await asyncio.wait_for(running, 20)
    assert outcome.report.ending is Ending.CANCELLED
    assert (outcome.report.message, outcome.report.exit_code) == ("from the UI", 137)
    assert not worker.runner.stop(1, "again")


async def test_a_job_cancelled_before_its_start_never_starts(
    worker: WorkerContext, tmp_path: Path
) -> None:
    request = launch(worker, f"touch {tmp_path}/started")
    execution = worker.runner._executors["Native"].execution(request)
    job = Job(request, execution, worker.client, worker="w", stop_seconds=1)
    job.stop("changed my mind")
    outcome = await job.run()
    assert outcome.report.ending is Ending.CANCELLED
    assert outcome.report.started_at is None
    assert not (tmp_path / "started").exists()


async def test_a_job_cancelled_while_it_is_started_ends(worker: WorkerContext) -> None:
    running = asyncio.create_task(worker.runner.run(launch(worker, "sleep 60")))
    await asyncio.sleep(0)
    worker.runner.stop(1, "changed my mind")
    outcome = await asyncio.wait_for(running, 20)
    assert outcome.report.ending is Ending.CANCELLED


def _descriptors_of(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


@pytest.mark.parametrize("room", [0, 1, 3])
async def test_a_worker_without_room_for_processes_says_so_and_costs_no_attempt(
    opened: Opened, facade: Recorder, room: int
) -> None:
    facade.lease_seconds = 4
    worker = await opened()
    assert (await worker.runner.run(launch(worker, "true"))).report.exit_code == 0
    watchdog = await worker.runner._executors["Native"].watchdogs.get()
    used = _descriptors_of(watchdog.pid)
    before = resource.prlimit(watchdog.pid, resource.RLIMIT_NOFILE)
    # At most for the two of its output, and not for what a start takes.
    resource.prlimit(watchdog.pid, resource.RLIMIT_NOFILE, (used + room, before[1]))
    outcome = await worker.runner.run(launch(worker, "true"))
    assert (outcome.report.ending, outcome.report.worker_unable) == (Ending.LOST, True)
    assert not worker.fitness.is_able
    assert left_in(worker) == []
    resource.prlimit(watchdog.pid, resource.RLIMIT_NOFILE, before)
    await until(lambda: worker.fitness.is_able)
    assert (await worker.runner.run(launch(worker, "true"))).report.exit_code == 0


async def test_a_job_without_room_for_its_directory_is_the_workers_trouble(
    worker: WorkerContext,
) -> None:
    records = Path(worker.work_directory) / "records"
    records.rmdir()
    records.write_text("in the way")  # also root can't make anything there
    outcome = await worker.runner.run(launch(worker, "true"))
    assert (outcome.report.ending, outcome.report.worker_unable) == (Ending.LOST, True)
    assert "can't create a job directory" in outcome.report.message
    records.unlink()
    records.mkdir()


async def test_what_the_ledger_says_at_a_renewal_is_done(opened: Opened, facade: Recorder) -> None:
    facade.lease_seconds = 4
    worker = await opened()
    await until(lambda: facade.bodies("renewals"))
    facade.answers["renewals"] = lambda renewal: (
        200,
        {"now": facade.now(), "stop": dict.fromkeys(renewal.body["jobs"], "no")},
    )
    request = launch(worker, "sleep 60")
    outcome = await asyncio.wait_for(worker.runner.run(request), 20)
    assert (outcome.report.ending, outcome.report.message) == (Ending.CANCELLED, "no")
    renewals = facade.bodies("renewals")
    assert {"1": str(request.claim_id)} in [renewal["jobs"] for renewal in renewals]
    assert (renewals[0]["worker"], renewals[0]["jobs"]) == ("w/1", {})


async def test_jobs_run_on_and_tell_later_while_the_facade_is_away(
    worker: WorkerContext, facade: Recorder, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    script = f"echo one; until [ -e {away} ]; do sleep 0.1; done; seq 2000; exit 4"
    running = [
        asyncio.create_task(worker.runner.run(launch(worker, script, job=job)))
        for job in range(1, 11)
    ]
    await until(lambda: all(facade.lines(job) for job in range(1, 11)))
    facade.stop()
    away.touch()
    await asyncio.sleep(2)
    assert not any(task.done() for task in running)
    assert len(worker.runner.jobs) == 10
    facade.start()
    outcomes = await asyncio.wait_for(asyncio.gather(*running), 60)
    assert {outcome.report.exit_code for outcome in outcomes} == {4}
    for job in range(1, 11):
        assert [report["lines"] for report in facade.reports(job)] == [2001]
        texts = {seq: text for seq, _, text in facade.lines(job)}
        assert list(texts.values()) == ["one", *map(str, range(1, 2001))]


async def test_what_the_facade_refuses_does_not_keep_the_outcome_from_it(
    worker: WorkerContext, facade: Recorder
) -> None:
    facade.answers["jobs/1/(output|artifacts)"] = lambda _: (413, {"message": "too large"})
    request = launch(worker, "echo x; echo y > out.json", result_file="out.json")
    outcome = await worker.runner.run(request)
    assert outcome.answer is not None
    assert outcome.report.notices == ["not kept: out.json: too large"]


async def test_an_outcome_nobody_wants_is_dropped(worker: WorkerContext, facade: Recorder) -> None:
    facade.answers["jobs/1/report"] = lambda _: (409, {"message": "no such claim"})
    outcome = await worker.runner.run(launch(worker, "true"))
    assert outcome.answer is None
    assert left_in(worker) == []


async def test_the_hook_sees_all_lines_and_its_failure_costs_nothing(
    worker: WorkerContext, facade: Recorder
) -> None:
    seen: list[str] = []

    async def hook(output: list[OutputLines]) -> None:
        seen.extend(text for lines in output for text in lines.texts)
        raise RuntimeError("the log is away")

    await worker.runner.run(launch(worker, "seq 3"), hook)
    assert seen == ["1", "2", "3"]
    assert [text for _, _, text in facade.lines(1)] == seen


async def test_a_chatty_job_is_bounded_and_not_held_up(
    worker: WorkerContext, facade: Recorder
) -> None:
    script = "yes 'some text' | head -c 30000000; echo done > finished; cat finished >&2"
    before = time.monotonic()
    outcome = await worker.runner.run(launch(worker, script, output_limit_bytes=200_000))
    assert outcome.report.exit_code == 0
    assert time.monotonic() - before < 20
    lines = facade.lines(1)
    kept = sum(len(text) + 1 for _, stream, text in lines if stream == "stdout")
    assert 199_000 < kept < 201_000
    gaps = [text for _, _, text in lines if text.endswith("missing here")]
    assert gaps == ["29800005 bytes are missing here"]
    assert ("stderr", "done") in [line[1:] for line in lines]
    (notice,) = outcome.report.notices
    assert notice.startswith("the output is longer than 200000 bytes")


async def test_a_secret_is_masked_in_the_end_of_a_long_output(
    worker: WorkerContext, facade: Recorder
) -> None:
    script = "yes 's3cret-word word' | head -n 40000; printf s3cret-word"
    secrets = {"secrets": ["s3cret-word"], "output_limit_bytes": 100_000}
    await worker.runner.run(launch(worker, script, **secrets))
    text = "".join(text for _, _, text in facade.lines(1))
    assert "bytes are missing here" in text
    assert text.endswith("********")
    assert "s3cret" not in text.replace("********", "")


@pytest.mark.parametrize(
    "content",
    [
        rb'{"a": "\ud83d", "\udc00": 1}', b'{"a": 1e400}', rb'{"a": "\u0000"}', b"[" * 5000,
        b'{"a": ' * 1000, b"\xff\xfe{\0}\0", b"", b'{"n": %s}' % (b"9" * 4000), b"NaN",
    ],
)  # fmt: skip
async def test_whatever_a_job_leaves_its_exit_code_decides(
    worker: WorkerContext, facade: Recorder, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "left").write_bytes(content)
    script = f"cp {tmp_path}/left result.json; cp result.json other.json"
    declared = [{"name": "other", "path": "other.json", "type": "file"}]
    outcome = await worker.runner.run(
        launch(worker, script, result_file="result.json", artifacts=declared)
    )
    assert (outcome.report.ending, outcome.report.exit_code) == ("exited", 0)
    assert outcome.answer is not None


async def test_binary_output_becomes_lines(worker: WorkerContext, facade: Recorder) -> None:
    outcome = await worker.runner.run(launch(worker, "head -c 300000 /dev/urandom; printf '\\0'"))
    assert outcome.report.exit_code == 0
    assert facade.lines(1)
    assert "\0" not in "".join(text for _, _, text in facade.lines(1))


async def test_a_process_that_closes_its_output_is_still_waited_for(
    worker: WorkerContext, facade: Recorder
) -> None:
    outcome = await worker.runner.run(launch(worker, "exec >&- 2>&-; sleep 0.5; exit 5"))
    assert outcome.report.exit_code == 5


async def test_draining_lets_jobs_finish_and_ends_the_others_as_lost(
    worker: WorkerContext, facade: Recorder
) -> None:
    short = asyncio.create_task(worker.runner.run(launch(worker, "sleep 0.3; exit 2", job=1)))
    long = asyncio.create_task(worker.runner.run(launch(worker, "sleep 60", job=2)))
    await until(lambda: len(worker.runner.jobs) == 2)
    draining = asyncio.create_task(worker.runner.drain(60))
    assert (await short).report.exit_code == 2
    worker.runner.hurry(0.1)
    await asyncio.wait_for(draining, 60)
    report = (await long).report
    assert (report.ending, report.message) == (Ending.LOST, "shutdown")
    assert facade.reports(2)[0]["ending"] == "lost"


async def test_hurrying_shortens_the_grace_period(worker: WorkerContext) -> None:
    running = asyncio.create_task(worker.runner.run(launch(worker, "sleep 60")))
    await until(lambda: worker.runner.jobs)
    draining = asyncio.create_task(worker.runner.drain(60))
    await asyncio.sleep(0.2)
    worker.runner.hurry(0.1)
    await asyncio.wait_for(draining, 20)
    assert (await running).report.ending is Ending.LOST


async def test_an_idle_worker_drains_at_once(worker: WorkerContext) -> None:
    await asyncio.wait_for(worker.runner.drain(60), 20)


async def test_an_outcome_that_was_not_taken_stays_for_the_next_worker(
    opened: Opened, facade: Recorder
) -> None:
    worker = await opened(worker="a")
    facade.answers["jobs/1/report"] = lambda _: (401, {"message": "expired"})
    assert (await worker.runner.run(launch(worker, "exit 6"))).answer is None
    workspace = WorkerWorkspace(Path(worker.work_directory), -1)
    (record,) = workspace.records()
    assert record.report is not None
    assert record.report.exit_code == 6


async def test_a_second_living_worker_of_a_name_is_refused(opened: Opened) -> None:
    await opened(worker="same")
    with pytest.raises(Conflict, match="a worker named same already works in"):
        await opened(worker="same")
    await opened(worker="other")


def test_no_secret_is_in_the_repr_of_a_launch() -> None:
    request = launch("/work", ["run", "-p", "hunter2"], secrets=["hunter2"])
    assert "hunter2" not in repr(request) + repr(ClaimAnswer(launch=request))


async def test_an_idle_worker_leaves_nothing_behind(facade: Recorder, tmp_path: Path) -> None:
    async with open_worker(plan(facade, tmp_path)) as worker:
        await worker.runner.run(launch(worker, "true"))
    await until(lambda: not any(tmp_path.iterdir()))


async def test_a_worker_without_a_good_token_does_not_open(
    opened: Opened, facade: Recorder
) -> None:
    for status, error in ((401, Unauthorized), (403, Forbidden), (409, Conflict)):
        answer = (status, {"message": "so it is"})
        facade.answers["workers"] = lambda _, answer=answer: answer  # type: ignore[misc]
        with pytest.raises(error, match="so it is"):
            await opened()


async def test_a_worker_waits_for_a_facade_that_is_away(opened: Opened, facade: Recorder) -> None:
    facade.stop()
    opening = asyncio.ensure_future(opened())
    await asyncio.sleep(0.5)
    assert not opening.done()
    facade.start()
    await asyncio.wait_for(opening, 20)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((503, {"message": "later"}), FacadeUnavailable),
        ((429, {}), FacadeUnavailable),
        ((500, "<html>"), FacadeUnavailable),
        ((404, {"message": "none"}), Exception),
        ((200, {"stop": 5}), Exception),
    ],
)
async def test_what_the_facade_answers_becomes_an_error_of_ours(
    facade: Recorder, answer: tuple[int, Any], error: type[Exception]
) -> None:
    facade.answers["renewals"] = lambda _: answer
    async with FacadeClient(facade.url, TOKEN) as client:
        with pytest.raises(error) as raised:
            await client.renew(Renewal(worker="w", instance=uuid4(), number=1))
    assert TOKEN not in str(raised.value)


def named_by(text: bytes) -> list[Path]:
    """The variables and argument lists of this machine's processes that hold a text."""
    found = []
    for path in (*Path("/proc").glob("[0-9]*/cmdline"), *Path("/proc").glob("[0-9]*/environ")):
        with contextlib.suppress(OSError):
            if text in path.read_bytes():
                found.append(path)
    return found


async def test_no_variable_or_argument_list_holds_the_token(
    opened: Opened, facade: Recorder
) -> None:
    token = f"token-{uuid4()}"
    worker = await opened(token=token)
    marker = str(uuid4())
    running = asyncio.create_task(worker.runner.run(launch(worker, f"sleep 60; : {marker}")))
    await until(lambda: named_by(marker.encode()))
    assert named_by(token.encode()) == []
    worker.runner.stop(1, "seen")
    await running
    assert {one.token for one in facade.requests} == {f"Bearer {token}"}
