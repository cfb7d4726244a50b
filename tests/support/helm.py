"""A stand-in for `helm` that writes down how it was called and answers as it is told."""

import json
import os
import stat
import time
from pathlib import Path
from typing import Any

PROGRAM = """#!/usr/bin/env python3
import json, os, sys, time
place = os.path.dirname(os.path.abspath(__file__))
call = {"argv": ["helm", *sys.argv[1:]], "cwd": os.getcwd(), "environment": dict(os.environ)}
answers = os.path.join(place, "answers")
names = sorted(os.listdir(answers))
answer = {}
for name in names:
    try:
        os.rename(os.path.join(answers, name), os.path.join(place, name))
    except OSError:
        continue
    with open(os.path.join(place, name)) as file:
        answer = json.load(file)
    break
call["begun"] = time.time_ns()
print("Release \\"x\\" has been upgraded. Happy Helming!", flush=True)
print(answer.get("stderr", "a warning"), file=sys.stderr, flush=True)
time.sleep(answer.get("seconds", 0))
call["ended"] = time.time_ns()
with open(os.path.join(place, f"call-{time.time_ns()}-{os.getpid()}.new"), "w") as file:
    json.dump(call, file)
os.rename(file.name, file.name[:-4] + ".json")
sys.exit(answer.get("code", 0))
"""


class Helm:
    """Put `place` on a PATH."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "answers").mkdir(parents=True)
        program = place / "helm"
        program.write_text(PROGRAM)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    @property
    def path(self) -> str:
        """PATH with the stand-in first."""
        return f"{self.place}:{os.environ['PATH']}"

    def answer(self, **answer: Any) -> None:
        """What the next call that has no answer yet gets: code, stderr, seconds."""
        (self.place / "answers" / f"{time.time_ns()}").write_text(json.dumps(answer))

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Those that have ended: argv, cwd, environment, begun and ended (nanoseconds)."""
        return [json.loads(file.read_text()) for file in sorted(self.place.glob("call-*.json"))]
