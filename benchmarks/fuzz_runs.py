"""Damage run folders at random and read them: one clear line comes out, never a traceback.

    fuzz_runs.py --cases 5000

Each case copies a finished run, changes bytes of one of its files, and runs explain, recommend or verify on
it. In half of the cases the manifest is made to fit, so that what reads the content is reached; in the others
verify has to find the change. Prints the cases that ended otherwise, and how many there were.
"""

import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from hashlib import blake2b, sha256
from pathlib import Path

from assent.cli.app import app
from assent.data.problem import make_problem
from assent.data.simulate import simulate
from assent.methods import make_method
from assent.runs.folder import Run
from assent.runs.manifest import MANIFEST
from assent.runs.plan import RunPlan
from assent.runs.run import fit
from assent.support.errors import AssentError
from assent.training import Settings
from common import Option, read_options, verdict

PLANS = {
    "values": (RunPlan(method=make_method("ifrqe"), price=0.05), "mf"),
    "evidence": (RunPlan(method=make_method("threshold"), budget=0.5), "cdae"),
    "default": (RunPlan(method=make_method("threshold")), "ials"),
}
COMMANDS = ("explain", "recommend", "verify")


def make_runs(folder: Path) -> list[Run]:
    """Return a small finished run of each plan."""
    log = simulate(preference="learnable", users=20, items=40, seed=3)
    problem = make_problem(log, "paper-tables", negatives=5)
    runs = []
    for name, (plan, model) in PLANS.items():
        values = {
            "model": model,
            "model_settings": {"dimension": 2},
            "training": {"epochs": 1},
            "tune": "none",
        }
        runs.append(fit(log, problem, folder / name, plan, Settings.model_validate(values)))
    return runs


def mutated(content: bytes, lots: random.Random) -> bytes:
    """Return the content with a few changes of some kind."""
    changed = bytearray(content)
    for _ in range(lots.choice((1, 1, 1, 2, 5, 20))):
        at = lots.randrange(len(changed) + 1)
        match lots.randrange(7):
            case 0:
                changed[at : at + 1] = bytes([lots.randrange(256)])
            case 1:
                del changed[at : at + lots.randrange(1, 40)]
            case 2:
                changed[at:at] = lots.randbytes(lots.randrange(1, 9))
            case 3:
                changed[at:at] = lots.choice(TOKENS)
            case 4:
                digits = [place for place, byte in enumerate(changed) if 48 <= byte <= 57]
                if digits:
                    changed[lots.choice(digits)] = lots.choice(b"0123456789-e.")
            case 5:
                other = lots.randrange(len(changed) + 1)
                changed[at : at + 16] = changed[other : other + 16]
            case _:
                del changed[at:]
    return bytes(changed)


TOKENS = (
    b"null", b"true", b"-1", b"1e999", b"NaN", b'"\\ud800"', b"[]", b"{}", b'"', b"[" * 2000, b"0" * 5000,
    b"\xff", b"evil:Model", b"99999999999", b"\x00",
)  # fmt: skip


def fuzz_runs(cases: int, seed: int, folder: Path) -> Counter[str]:
    """Return how often each outcome came, by exit code or by the error that was raised."""
    lots, outcomes = random.Random(seed), Counter[str]()
    with contextlib.redirect_stderr(io.StringIO()):
        runs = make_runs(folder)
    for number in range(cases):
        run = lots.choice(runs)
        case = folder / "case"
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(run.folder, case)
        file = case / lots.choice(sorted(path.name for path in case.iterdir()))
        before = file.read_bytes()
        content = mutated(before, lots)
        file.write_bytes(content)
        is_fitted = lots.random() < 0.5
        if is_fitted and file.name != MANIFEST:
            about = json.loads((case / MANIFEST).read_bytes())
            about["files"][file.name] = sha256(content).hexdigest()
            if file.name == "model.safetensors":
                _fit_description(case, about, content)
            (case / MANIFEST).write_text(json.dumps(about))
        command = lots.choice(COMMANDS)
        user = [] if command == "verify" else ["--user", str(run.selection["user"][0])]
        outcome = _outcome([command, str(case), *user])
        is_hidden = is_fitted or file.name == MANIFEST or content == before
        if (command, outcome) == ("verify", "exit 0") and not is_hidden:
            outcome = "a change that was not found"
        outcomes[outcome] += 1
        if outcome not in ("exit 0", "exit 1", "refused"):
            print(f"case {number}: {command}, {file.name}: {outcome}", flush=True)
    return outcomes


def _fit_description(case: Path, about: dict[str, dict[str, str]], parameters: bytes) -> None:
    """Make model.json fit changed parameters."""
    described = json.loads((case / "model.json").read_bytes())
    described["parameters"] = blake2b(parameters, digest_size=16).hexdigest()
    text = json.dumps(described).encode()
    (case / "model.json").write_bytes(text)
    about["files"]["model.json"] = sha256(text).hexdigest()


def _outcome(arguments: list[str]) -> str:
    """Run a command: its exit code, `refused`, or what it raised."""
    silent = io.StringIO()
    try:
        with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            app(arguments, standalone_mode=True)
    except SystemExit as left:
        return f"exit {left.code or 0}"
    except AssentError as error:
        return "refused" if "\n" not in str(error) else f"more than a line: {error}"
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"
    return "exit 0"


if __name__ == "__main__":
    given = read_options(
        __doc__, cases=Option(5000, "damaged folders", quick=100), seed=Option(0, "seed of the damage")
    )
    os.environ["COLUMNS"] = "200"
    with tempfile.TemporaryDirectory() as temporary:
        found = fuzz_runs(given.cases, given.seed, Path(temporary))
    print(dict(found))
    wrong = sum(count for outcome, count in found.items() if outcome not in ("exit 0", "exit 1", "refused"))
    verdict(f"tracebacks, and changes not found, in {given.cases} damaged run folders", wrong, 0)
    sys.exit(wrong > 0)
