"""Feed damaged files, rules, settings and run folders to assent: an answer or one line, never a traceback.

    fuzz_inputs.py --cases 20000
    fuzz_inputs.py --only readers --first 1234 --cases 1     # a case that failed

A case is drawn from its number alone. Cases run in a process of their own, which is started anew after a case
that ends it; a case that takes more than ten seconds, or 6 GB of memory, counts as failed.
"""

import gzip
import json
import os
import random
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import polars as pl
from typer.testing import CliRunner

from assent.cli.app import app
from assent.cli.how import read_asked
from assent.data.columns import Scale
from assent.data.door import assign
from assent.data.interactions import Interactions
from assent.data.problem import make_problem
from assent.data.readers import from_frame, read_interactions
from assent.data.rules import read_rules, read_wishes
from assent.methods import METHODS
from assent.support.errors import AssentError
from common import Option, read_options, verdict

SECONDS, MEMORY = 10, 6 * 2**30
ODD: Final = (
    b"", b"\0", b'"', b'""', b"'", b"\n", b"\r\n", b",", b";", b"\t", b"|", b"*", b"%", b"0,8", b"\xff",
    b"\xef\xbb\xbf", b"nan", b"inf", b"-1", b"1e999", b"5e-324", b"9" * 400, b"\x1b[31m", b"\xe2\x80\xae",
    b"\xc2\xa0", b"{", b"}", b"[" * 2000, b"null", b"true", b": ", b"&a ", b"*a", b"!!str ", b"<<: ",
    b"---\n", b"2024-02-30", b"9999-12-31T23:59:59+99:99",
)  # fmt: skip
"""Pieces that readers may stumble over."""
KEYS: Final = (
    "training", "epochs", "model_settings", "dimension", "tune", "model", "worth", "source", "folds",
    "influence", "estimator", "ifrqe++", "anchors", "reward", "strategy", "learning_rate", "batch_size", "",
    "*", "é", "__class__",
)  # fmt: skip
"""Parts of names of settings, and of none."""
VALUES: Final = (
    "0", "-1", "1", "5", "1.5", "nan", "inf", "1e999", "true", "null", "", " ", "[]", "{}", "mf", "ials",
    "\0", "os:system", "evil:X", "9" * 400, "quick", "none", "lissa", "mean", "\ud800", "é",
)  # fmt: skip


def table(rng: random.Random) -> pl.DataFrame:
    """A small log."""
    people = rng.sample(["ann", "bob", "007", "7", "8.0", " cem"], rng.randint(1, 3))
    users = [rng.choice(people) for _ in range(rng.choice([1, 12, 12, 20]))]
    columns: dict[str, Any] = {
        "user": users,
        "item": [f"i{n}" for n in range(len(users))],
        "time": [rng.choice([1.5, 2, 1e9]) for _ in users],
        "unwillingness": [rng.choice([0, 0.25, 1, 5e-324]) for _ in users],
        "title": [rng.choice(["One", "", "a|b"]) for _ in users],
        "category": [rng.choice(["Drama", "Crime|Drama", ""]) for _ in users],
        "split": [rng.choice(["train", "valid", "test"]) for _ in users],
    }
    kept = ["user", "item", *(name for name in list(columns)[2:] if rng.random() < 0.6)]
    return pl.DataFrame({name: columns[name] for name in kept}, strict=False)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes with a few pieces cut out, put in or turned round."""
    for _ in range(rng.choice([0, 0, 1, 1, 2, 4])):
        place, length = rng.randint(0, len(data)), rng.choice([0, 0, 1, 1, 2, 8, 64])
        new = rng.choice([*ODD, rng.randbytes(rng.randint(0, 9)), data[place : place + 9]])
        data = data[:place] + new + data[place + length :]
    return data[: rng.randint(0, len(data))] if rng.random() < 0.1 else data


def written(log: pl.DataFrame, path: Path) -> bytes:
    """A log as the bytes of a file called like this."""
    match path.name.removesuffix(".gz").rpartition(".")[2]:
        case "parquet":
            log.write_parquet(path)
            return path.read_bytes()
        case "jsonl":
            return log.write_ndjson().encode()
        case suffix:
            return log.write_csv(separator="," if suffix == "csv" else "\t").encode()


def readers(rng: random.Random, folder: Path) -> None:
    """A log from a file, then everything that is made of it before a model is trained."""
    name = rng.choice(
        ["log.csv", "log.tsv", "log.inter", "log.parquet", "log.jsonl", "log.csv.gz", "log.jsonl.gz"]
    )
    path = folder / name
    data = damaged(written(table(rng), path), rng)
    if rng.random() < 0.05:
        data = rng.randbytes(rng.randint(0, 400))
    if name.endswith(".gz"):
        data = damaged(gzip.compress(data), rng) if rng.random() < 0.5 else gzip.compress(data)
    path.write_bytes(data)
    used(
        read_interactions(path, duplicates=rng.choice(["error", "first", "last"]), gaps=rng.random() < 0.3),
        rng,
    )


def frames(rng: random.Random, _: Path) -> None:
    """A log from a data frame with cells of any type."""
    cells: list[Any] = [
        None, 0, 1, -1, 2**53, 2**70, 0.5, 1e300, float("nan"), True, "a", " a", "", "\0", b"a",
        [1], ["x"], {"k": 1},
    ]  # fmt: skip
    usual: dict[str, list[Any]] = {"user": ["a", "b"] * 5, "item": [*range(10)], "time": [*range(10)]}
    usual |= {"beta": [0.5] * 10, "title": ["One"] * 10, "category": [["x"], []] * 5}
    columns = {
        name: values for name, values in usual.items() if name in ("user", "item") or rng.random() < 0.6
    }
    for name in rng.sample(list(columns), rng.randint(0, 2)):
        odd = rng.choice(cells)
        columns[name] = [odd if rng.random() < 0.5 else value for value in columns[name]]
    try:
        frame = pl.DataFrame(columns, strict=False)
    except (pl.exceptions.PolarsError, TypeError, OverflowError):  # no data frame can hold them
        return
    used(from_frame(frame, gaps=rng.random() < 0.3), rng)


def used(log: Interactions, rng: random.Random) -> None:
    """Use a log as a fit does: unwillingness, split."""
    sources = ["constant:0.5", "user:ann=1,*=0.5", "category:Drama=1,*=0.5", "random"]
    source = "column" if "unwillingness" in log.table.columns else rng.choice(sources)
    make_problem(assign(log, source, rest="0.5"), rng.choice(["paper-tables", "full"]), negatives=1)


def rules(rng: random.Random, folder: Path) -> None:
    """Rules and wishes from texts and files."""
    names, values = (
        ["ann", "bob", "010", "8.0", "*", "yes", " ann", "1:30"],
        ["0", "1", "0.5", "2", "-1", "nan", ""],
    )
    entries = [(rng.choice(names), rng.choice(values)) for _ in range(rng.randint(0, 4))]
    suffix = rng.choice([".yaml", ".json", ".csv", ".jsonl", ""])
    match suffix:
        case ".yaml":
            content = "\n".join(f"{name!r}: {value}" for name, value in entries)
        case ".json":
            content = json.dumps(dict(entries))
        case ".jsonl":
            content = "\n".join(json.dumps({"user": name, "budget": value}) for name, value in entries)
        case ".csv":
            content = "user,budget\n" + "\n".join(f"{name},{value}" for name, value in entries)
        case _:
            content = ",".join(f"{name}={value}" for name, value in entries)
    data = damaged(content.encode(), rng)
    text = data.decode("utf-8", "surrogateescape").replace("\n", "")
    if suffix:
        text = str(folder / f"rules{suffix}")
        Path(text).write_bytes(data)
    log = LOG[0]
    what = rng.choice(["user_budget", "user_floor", "prior", "unwillingness", "source"])
    match what:
        case "unwillingness":
            read_rules(text, rng.choice(["user", "category"]))
        case "source":
            kind = rng.choice(["user", "category", "file", "constant", "simulated", ""])
            rest, scale = rng.choice([None, "mean", "0.5", text]), rng.choice(list(Scale))
            assign(log, f"{kind}:{text}", rest=rest, scale=scale)
        case _:
            asked: dict[str, Any] = {what: text}
            read_wishes(
                log, make_problem(log, "full", negatives=1), **asked, allow_unmatched=rng.random() < 0.5
            )


def settings(rng: random.Random, _: Path) -> None:
    """Pairs as of --set."""
    pairs = []
    for _pair in range(rng.randint(1, 3)):
        key = ".".join(rng.choice(KEYS) for _part in range(rng.choice([1, 1, 2, 2, 3, 9])))
        key = rng.choice([key, "training.epochs", "worth.folds", "model_settings.dimension", "anchors"])
        pairs.append(f"{key}{rng.choice(['=', '=', '=', ' = ', '==', ''])}{rng.choice(VALUES)}")
    asked = read_asked(rng.choice(["mf", "ials", "lightgcn"]), pairs)
    asked.check([asked.method(rng.choice(list(METHODS)))])


def runs(rng: random.Random, folder: Path) -> None:
    """A run folder with a damaged, missing or exchanged file, as `explain` and `recommend` read it."""
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(folder / "whole", run)
    files = sorted(file for file in run.iterdir() if file.is_file() and file.suffix != ".html")
    file = rng.choice(files)
    match rng.choice(["damage", "damage", "damage", "json", "json", "missing", "exchanged", "empty"]):
        case "missing":
            file.unlink()
        case "exchanged":
            file.write_bytes(rng.choice(files).read_bytes())
        case "empty":
            file.write_bytes(b"")
        case "json" if file.suffix == ".json":
            file.write_text(json.dumps(changed(json.loads(file.read_text()), rng)))
        case _:
            file.write_bytes(damaged(file.read_bytes(), rng))
    command = [rng.choice(["explain", "recommend"]), str(run), "--user", rng.choice(["ann", "nobody", "\0"])]
    done = CliRunner().invoke(app, command)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception


def make_run(folder: Path) -> None:
    """Make the run folder to damage."""
    if (folder / "whole").exists():
        return
    LOG[0].table.write_csv(folder / "log.csv")
    quick = ["--model", "mf", "--tune", "none", "--method", "threshold", "--set", "training.epochs=1"]
    quick += ["--set", "model_settings.dimension=2", "--negatives", "1", "--jobs", "1"]
    done = CliRunner().invoke(app, ["fit", str(folder / "log.csv"), "--out", str(folder / "whole"), *quick])
    if done.exit_code:
        raise RuntimeError(f"the run to damage failed: {done.exception!r} {done.output}")


def changed(value: Any, rng: random.Random) -> Any:
    """JSON with something in it exchanged or left out."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        rest = {name: each for name, each in value.items() if name != key}
        return rest if rng.random() < 0.3 else rest | {key: changed(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        return [*value[:place], changed(value[place], rng), *value[place + 1 :]]
    return rng.choice([None, True, -1, 1e300, "", "x", "evil:X", [], {}, [None], 2**70])


TARGETS: Final[dict[str, Callable[[random.Random, Path], None]]] = {
    each.__name__: each for each in (readers, frames, rules, settings, runs)
}
SHARES: Final = {"readers": 0.4, "frames": 0.1, "rules": 0.3, "settings": 0.15, "runs": 0.05}
"""Of all cases."""
LOG: Final[list[Interactions]] = []
"""The log of rules and runs, made by the process that needs it."""


def small_log() -> Interactions:
    """The log of rules and runs."""
    people = enumerate(("ann", "bob", "8"))
    rows = [(name, f"i{(n + k) % 9}", 0.25 * (k % 4)) for n, name in people for k in range(6)]
    return from_frame(pl.DataFrame(rows, schema=["user", "item", "unwillingness"], orient="row"))


def work(target: str, numbers: Sequence[int], folder: Path, said: Connection) -> None:
    """Run cases, and say of each its number and how it ended."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _too_slow)
    with (folder / "stderr").open("a") as errors:  # polars tells there of its panics
        os.dup2(errors.fileno(), 2)
    LOG.append(small_log())
    if target == "runs":
        make_run(folder)
    for number in numbers:
        signal.alarm(SECONDS)
        try:
            TARGETS[target](random.Random(f"{target}/{number}"), folder)
            outcome = "read"
        except (AssentError, OSError) as error:
            outcome = "refused" if "\n" not in str(error) else f"several lines: {error!r}"
        except Exception:
            outcome = traceback.format_exc()
        finally:
            signal.alarm(0)
        said.send((number, outcome))
    said.close()


def _too_slow(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} seconds")


def fuzz(target: str, numbers: range, folder: Path) -> dict[int, str]:
    """How each case ended."""
    found: dict[int, str] = {}
    while len(found) < len(numbers):
        left = [number for number in numbers if number not in found]
        ours, theirs = get_context("spawn").Pipe(duplex=False)
        process = get_context("spawn").Process(target=work, args=(target, left, folder, theirs))
        process.start()
        theirs.close()
        try:
            while True:
                number, outcome = ours.recv()
                found[number] = outcome
        except EOFError:
            process.join()
        if process.exitcode:
            ended = next(number for number in left if number not in found)
            found[ended] = f"the process ended with code {process.exitcode}"
    return found


def main(cases: int, first: int, only: str | None, folder: Path) -> None:
    failed = 0
    for target, share in SHARES.items():
        if only not in (None, target):
            continue
        start, count = time.perf_counter(), cases if only else round(share * cases)
        own = folder / target
        own.mkdir()
        found = fuzz(target, range(first, first + count), own)
        counts = Counter(
            outcome if outcome in ("read", "refused") else "failed" for outcome in found.values()
        )
        panics = (own / "stderr").read_text(errors="replace").count("panicked at")
        print(
            f"{target}: {count} cases, {dict(counts)}, {panics} panics, {time.perf_counter() - start:.0f} s"
        )
        failed += counts["failed"]
        kinds: dict[str, list[int]] = {}
        for number, outcome in found.items():
            if outcome not in ("read", "refused"):
                kinds.setdefault("\n".join(outcome.strip().splitlines()[-3:]), []).append(number)
        for numbers in kinds.values():
            print(
                f"-- {target}, {len(numbers)} cases, such as --only {target} --first {numbers[0]} --cases 1"
            )
            print(found[numbers[0]], flush=True)
    verdict(f"cases of {cases} without an answer", failed, 0)


if __name__ == "__main__":
    given = read_options(
        __doc__,
        cases=Option(20_000, "number of cases", quick=400),
        first=Option(0, "number of the first case"),
        only=Option(None, f"one of {', '.join(SHARES)}", type=str),
    )
    with tempfile.TemporaryDirectory() as temporary:
        main(given.cases, given.first, given.only, Path(temporary))
