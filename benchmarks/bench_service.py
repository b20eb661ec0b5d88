"""The service under load, and killed under load: on the loopback, with a PostgreSQL of its own and fsync.

    bench_service.py --cases load                    rates and 99th percentiles, beside a plain ping
    bench_service.py --cases load --run FOLDER       with the people and the model of a run folder
    bench_service.py --run FOLDER --filled PLACE     the same, kept in PLACE to measure again
    bench_service.py --cases kill --kills 60         kill -9 of web process, worker and database
    bench_service.py --cases honour                  the time from a wish to each of its states
    bench_service.py --cases soak --minutes 60       memory, errors and the time to honour, for an hour

load  One web process. Requests go over as many connections as --connections, for --seconds each: a ping, a
      person's page of 50 entries, the same as JSON, recommendations, wishes with receipts, alone and ten in a
      request. The pages are those of people who have 50 entries, or, where nobody has, of those with most.
kill  While wishes are being said and jobs asked for, one of the three is killed at a random moment and
      started again. At the end: every wish that was acknowledged is there with its receipt and served, the
      ledger verifies, no job is lost or published twice, what failed for good was done by a later job, and
      the model in service, like all that may go back into it, is whole.
honour  People say never, and withdraw. How long it takes until lists are made without it, and until it is
      decided, trained and served; how many updates that needs.
soak  Wishes, pages and recommendations go on for --minutes, and a worker updates all the time. Every tenth
      of the time the memory of web process and worker is printed. At the end all is checked as after kills.
"""

import asyncio
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psycopg
from sqlalchemy import and_, or_, select, text

from assent.data.door import assign
from assent.runs.folder import Run, open_run
from assent.runs.verify import verify
from assent.service import interactions, jobs, ledger, models, security, wishes
from assent.service.database import Database
from assent.service.interactions import NewInteraction
from assent.service.ledger_check import check_ledger
from assent.service.settings import ServiceSettings
from assent.service.tables import Job, Model, Publication, Wish
from assent.service.trainings import write_model
from assent.service.worker import work_once
from common import ROOT, Option, load_log, read_options, verdict

sys.path.insert(0, str(ROOT))
from tests.service import postgres

PAGE = 50
PATIENCE = 600.0
"""Seconds until a service that does not answer has failed; a busy machine is slow to start."""
REQUESTS = ("ping", "a person's page", "the same as JSON", "recommendations", "wishes", "ten wishes")
DATABASE, FACTS = "database", "facts.json"
"""Where a filled service is kept: the server's folder, and what the benchmark knows of it."""
TOGETHER = 10
"""Wishes in one request, where there are several."""


@dataclass
class Service:
    """A service with its own database, and the processes that run it."""

    settings: ServiceSettings
    port: int
    key: str = ""
    users: list[str] = field(default_factory=list)
    """Half of all people: those with most interactions."""
    readers: list[str] = field(default_factory=list)
    """Those of them whose first page is full; if nobody's is, those with most interactions."""
    entries: float = 0.0
    """On such a page, on average."""
    items: list[str] = field(default_factory=list)

    @property
    def database(self) -> Database:
        """A connection of the benchmark's own."""
        return Database(self.settings.database)

    def start(self, kind: str) -> "subprocess.Popen[bytes]":
        """Start a web process or a worker."""
        file = self.settings.data / "service.yaml"
        file.write_text(self.settings.model_dump_json(exclude={"database", "data"}))
        where = ["--data", str(self.settings.data), "--settings", str(file)]
        more = ["--port", str(self.port)] if kind == "serve" else []
        return subprocess.Popen(
            [sys.executable, "-m", "assent", kind, *where, *more],
            env={**os.environ, "ASSENT_DATABASE": self.settings.database, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )


@contextmanager
def made(
    dataset: str, run: Path | None = None, filled: Path | None = None, *, quick: bool
) -> Iterator[tuple[Service, postgres.Postgres]]:
    """Yield a service with a trained model, and the server of its database.

    Where one is kept in `filled`, a copy of it; otherwise what is made is kept there.
    """
    is_kept = filled is not None and (filled / FACTS).is_file()
    before = filled if is_kept else None
    with (
        tempfile.TemporaryDirectory(prefix="assent-bench-") as folder,
        postgres.running(in_memory=False, copied=before / DATABASE if before else None) as server,
    ):
        settings = ServiceSettings(
            database=f"{server.url}/assent",
            data=Path(folder) / "service",
            secure_cookies=False,
            seeds=1,
            method="threshold",
            update_after=2.0,
            train_after=1e9,
            train_every=1e9,
        )
        service = Service(settings, postgres.free_port())
        if before is not None:
            shutil.copytree(before / "service", settings.data)
            for name, value in json.loads((before / FACTS).read_text()).items():
                setattr(service, name, value)
        else:
            with psycopg.connect(f"{server.url}/postgres", autocommit=True) as connection:
                connection.execute("create database assent")
            if run is None:
                fill(service, dataset, quick=quick)
            else:
                fill_from(service, open_run(run))
            if filled is not None:
                keep(service, server, filled)
        yield service, server


def keep(service: Service, server: postgres.Postgres, place: Path) -> None:
    """Copy a service that was just filled, to be measured again."""
    with psycopg.connect(service.settings.database, autocommit=True) as connection:
        connection.execute("checkpoint")  # or each copy would begin with all that was written
    server.stop()
    shutil.copytree(server.folder / "data", place / DATABASE, dirs_exist_ok=True)
    server.start()
    shutil.copytree(service.settings.data, place / "service", dirs_exist_ok=True)
    facts = {name: getattr(service, name) for name in ("key", "users", "readers", "entries", "items")}
    (place / FACTS).write_text(json.dumps(facts))  # last: a place without it holds nothing whole


def fill(service: Service, dataset: str, *, quick: bool) -> None:
    """Add a log to the database, train a first model, and make a key."""
    log = assign(load_log(dataset, quick=quick), "random", 0)
    rows = log.minded.join(log.table.select("user", "item", "time"), on=["user", "item"])
    database = bring(service, rows)
    with database.writing() as session:
        jobs.enqueue(session, "train", by="benchmark")
    began = time.time()
    work_once(database, service.settings, worker="benchmark")
    with database.reading() as session:
        [job] = jobs.page(session)[0]
    if job.state != "done":
        sys.exit(f"the first training failed: {job.error}")
    print(f"first model trained in {time.time() - began:.0f} s", flush=True)
    database.close()


def fill_from(service: Service, run: Run) -> None:
    """Add the people of a run to the database, and put its model into service."""
    rows = pl.concat([each.select("user", "item", "unwillingness") for each in (run.selection, run.sealed)])
    database = bring(service, rows.with_row_index("time"))
    began = time.time()
    shutil.copytree(run.folder, service.settings.runs / run.folder.name)
    with database.writing() as session:
        jobs.enqueue(session, "train", by="benchmark")
        taken = jobs.take(session, "benchmark")
        upto = ledger.last_number(session)
    assert taken is not None
    model = write_model(database, run, taken, upto=upto)
    with database.writing() as session:
        models.publish(session, service.settings, model, by="benchmark")
        jobs.finish(session, taken, {"model": model})
    print(f"decisions added in {time.time() - began:.0f} s", flush=True)
    database.close()


def bring(service: Service, rows: pl.DataFrame) -> Database:
    """Add interactions to the database, make a key, and return the database."""
    database, began = Database.open(service.settings.database), time.time()
    for some in rows.select("user", "item", "unwillingness", "time").iter_slices(10_000):
        with database.writing() as session:
            interactions.add(
                session,
                [
                    NewInteraction(user, item, float(at or 0), f"Item {item}", None, minded)
                    for user, item, minded, at in some.iter_rows()
                ],
            )
    with database.writing() as session:
        service.key = security.create_key(session, "benchmark", security.SCOPES[:-1])
        session.execute(text("ANALYZE"))
    print(f"{rows.height:,} interactions added in {time.time() - began:.0f} s", flush=True)
    counts = rows.group_by("user").len().sort("len", "user", descending=[True, False])
    service.users = counts["user"].to_list()[: max(100, counts.height // 2)]
    full = counts.filter(pl.col("len") >= min(PAGE, counts["len"].max()))  # type: ignore[type-var]
    service.readers, service.entries = full["user"].to_list(), full["len"].clip(0, PAGE).mean()  # type: ignore[assignment]
    service.items = rows["item"].unique().sort().to_list()
    return database


Request = Callable[[random.Random], bytes]


class Client:
    """One connection that is kept open; the least of HTTP that is needed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Send a request, and return the status and the body."""
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            return int(head.split()[1]), await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]).encode()


def put_wish(service: Service, lots: random.Random, number: int = 1) -> bytes:
    said = [
        {"scope": "item", "target": item, "unwillingness": lots.choice([0, 0.25, 0.5, 1])}
        for item in lots.sample(service.items, number)
    ]
    return put(service, "PUT", "/v1/wishes", {"user": lots.choice(service.users), "wishes": said})


async def hammer(service: Service, request: Request, seconds: float, connections: int) -> tuple[float, float]:
    """Return the requests per second and the 99th percentile of their milliseconds; an error ends it."""
    took: list[float] = []
    end = time.monotonic() + seconds

    async def one(number: int) -> None:
        client, lots = Client(service.port), random.Random(number)
        while time.monotonic() < end:
            began = time.monotonic()
            status, body = await client.send(request(lots))
            if status != 200:
                raise SystemExit(f"status {status}: {body[:300]!r}")
            took.append(time.monotonic() - began)
        client.close()

    await asyncio.gather(*(one(number) for number in range(connections)))
    return len(took) / seconds, float(np.percentile(took, 99)) * 1000


async def ready(service: Service, processes: "dict[str, subprocess.Popen[bytes]]") -> None:
    """Wait until the service answers; processes that ended, such as for want of a database, start again."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for kind, each in processes.items():
            if each.poll() is not None:
                processes[kind] = service.start(kind)
        client = Client(service.port)
        try:
            status, _ = await client.send(get("/health/ready"))
            if status == 200:
                return
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            client.close()
        await asyncio.sleep(0.2)
    sys.exit("the service does not answer")


def cpu_seconds(*processes: int) -> float:
    """Return the seconds of CPU that processes have used, those that have ended left out."""
    used = 0
    for each in processes:
        with suppress(OSError):
            stat = Path(f"/proc/{each}/stat").read_text()
            used += sum(map(int, stat.rpartition(")")[2].split()[11:13]))
    return used / os.sysconf("SC_CLK_TCK")


def under_load(service: Service, server: postgres.Postgres) -> None:
    """Print rates and percentiles."""
    database, lots = service.database, random.Random(0)
    with database.writing() as session:
        people = lots.sample(service.readers, min(50, len(service.readers)))
        cookies = [f"Cookie: assent={security.start_visit(session, person=each)}" for each in people]
        session.execute(text("ANALYZE"))
    database.close()
    print(f"{service.entries:.0f} entries on a page", flush=True)
    bearer = f"Authorization: Bearer {service.key}"
    cases: dict[str, Request] = {
        "ping": lambda _: get("/health/live"),
        "a person's page": lambda lots: get("/me/entries", lots.choice(cookies)),
        "the same as JSON": lambda lots: get(
            f"/v1/interactions?user={lots.choice(people)}&limit={PAGE}", bearer
        ),
        "recommendations": lambda lots: get(
            f"/v1/recommendations?user={lots.choice(service.users)}&k=10", bearer
        ),
        "wishes": lambda lots: put_wish(service, lots),
        "ten wishes": lambda lots: put_wish(service, lots, TOGETHER),
    }
    web = service.start("serve")
    try:
        asyncio.run(ready(service, {"serve": web}))
        rates = {}
        for name in REQUESTS:
            if name not in given.requests:
                continue
            request = cases[name]
            asyncio.run(hammer(service, request, 1.0, given.connections))
            before = cpu_seconds(web.pid), cpu_seconds(*server.processes()), time.process_time()
            rates[name], slowest = asyncio.run(hammer(service, request, given.seconds, given.connections))
            after = cpu_seconds(web.pid), cpu_seconds(*server.processes()), time.process_time()
            each = [
                (then - now) / (rates[name] * given.seconds) * 1000
                for now, then in zip(before, after, strict=True)
            ]
            share = rates[name] / rates.get("ping", math.nan)
            told = f"{share:5.2f} of ping  p99 {slowest:6.1f} ms"
            cpu = "{:.2f} ms of CPU each, database {:.2f}, this client {:.2f}".format(*each)
            print(f"{name:18} {rates[name]:8.0f}/s  {told}  {cpu}", flush=True)
            if name in ("a person's page", "recommendations"):
                verdict(f"{name}: share of ping's rate", share, 0.2, at_most=False)
                verdict(f"{name}: p99 in ms", slowest, 50.0)
            if name == "wishes":
                verdict("wishes per second", rates[name], 1000.0, at_most=False)
                verdict("wishes: p99 in ms", slowest, 100.0)
            if name == "ten wishes":
                print(f"{rates[name] * TOGETHER:.0f} wishes per second, {TOGETHER} in a request")
    finally:
        web.terminate()
        web.wait()


async def ask(service: Service, request: bytes) -> Any:
    """Return the answer to a request over a connection of its own; an error ends the benchmark."""
    client = Client(service.port)
    try:
        status, body = await client.send(request)
    finally:
        client.close()
    if status != 200:
        sys.exit(f"status {status}: {body[:300]!r}")
    return json.loads(body)


def put(service: Service, method: str, path: str, content: dict[str, object]) -> bytes:
    """Return a request with a body."""
    body = json.dumps(content)
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {service.key}"]
    more = ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, *more, "", body]).encode()


async def honoured(service: Service, user: str, *, withdraws: bool) -> tuple[float, int] | None:
    """Return the seconds until lists are made without what somebody withdraws or calls never, and the wish.

    None if nothing that they disclose speaks for their list.
    """
    bearer = f"Authorization: Bearer {service.key}"
    lists = get(f"/v1/recommendations?user={user}&k=10", bearer)

    async def speaking() -> set[str]:
        found = await ask(service, lists)
        return {each["item"] for one in found["items"] for each in one["because"]}

    before = sorted(await speaking())
    if not before:
        return None
    if withdraws:
        said, gone = put(service, "POST", "/v1/wishes/withdraw", {"user": user}), set(before)
    else:
        wish = {"scope": "item", "target": before[0], "unwillingness": 1.0}
        said, gone = put(service, "PUT", "/v1/wishes", {"user": user, "wishes": [wish]}), {before[0]}
    began = time.monotonic()
    [stored] = (await ask(service, said))["wishes"]
    while gone & await speaking():
        await asyncio.sleep(0.01)
    return time.monotonic() - began, int(stored["wish"])


def honours(service: Service) -> None:
    """Print how long wishes take to each state."""
    lots = random.Random(given.seed)
    running = {kind: service.start(kind) for kind in ("serve", "work")}
    database = service.database

    async def story() -> None:
        await ready(service, running)
        waited: dict[str, list[float]] = {"never": [], "withdrawal": []}
        for number in range(given.wishes):
            for name, took in waited.items():
                with database.reading() as session:
                    updates = jobs.counts(session)["done"]
                found = None
                while found is None:
                    found = await honoured(
                        service, lots.choice(service.users), withdraws=name == "withdrawal"
                    )
                took.append(found[0])
                states = await served(database, found[1])
                with database.reading() as session:
                    updates = jobs.counts(session)["done"] - updates
                told = ", ".join(f"{state} {seconds:.1f} s" for state, seconds in states.items())
                print(
                    f"{name} {number + 1}: in lists {found[0]:.3f} s, {told}; {updates} updates", flush=True
                )
        for name, took in waited.items():
            verdict(f"{name} in serving, worst of {len(took)} in seconds", max(took), 1.0)

    try:
        asyncio.run(story())
    finally:
        for each in running.values():
            each.terminate()
            each.wait()
    with database.reading() as session:
        kinds = [each.kind for each in jobs.page(session, limit=200)[0] if each.state == "done"]
        waiting = sum(each.waiting for each in wishes.times_to_honour(session))
    verdict("wishes that are not served", waiting, 0)
    verdict("updates for each wish", kinds.count("update") / (2 * given.wishes), 1.0)
    database.close()


async def served(database: Database, wish: int) -> dict[str, float]:
    """Wait until a wish is served, and return the seconds from its request to each state."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with database.reading() as session:
            found = session.get_one(Wish, wish)
            times = {state: getattr(found, state) for state in ("decided", "trained", "served")}
            requested = found.requested
        if None not in times.values():
            return {state: at - requested for state, at in times.items()}
        await asyncio.sleep(0.1)
    sys.exit(f"wish {wish} is not served after {PATIENCE:.0f} s")


def resident(process: int) -> float:
    """Return the memory of a process in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def soak(service: Service) -> None:
    """Print memory and errors over time, and check what is left."""
    acknowledged: list[dict[str, object]] = []
    running = {kind: service.start(kind) for kind in ("serve", "work")}
    bearer = f"Authorization: Bearer {service.key}"
    memory: dict[str, list[float]] = {kind: [] for kind in running}
    failed: list[str] = []

    async def read(over: asyncio.Event, number: int) -> None:
        client, lots = Client(service.port), random.Random(number)
        while not over.is_set():
            user = lots.choice(service.users)
            path = lots.choice(["interactions?limit=50&", "recommendations?", "wishes/history?"])
            try:
                status, _ = await client.send(get(f"/v1/{path}user={user}", bearer))
            except (OSError, asyncio.IncompleteReadError, ValueError) as error:
                failed.append(type(error).__name__)
                continue
            if status != 200:
                failed.append(f"{path} {status}")

    async def story() -> None:
        await ready(service, running)
        over = asyncio.Event()
        talking = [asyncio.create_task(say_wishes(service, over, acknowledged, n)) for n in range(2)]
        talking += [asyncio.create_task(read(over, n)) for n in range(2)]
        for tenth in range(1, 11):
            await asyncio.sleep(given.minutes * 6)
            for kind, each in running.items():
                memory[kind].append(resident(each.pid))
            told = ", ".join(f"{kind} {found[-1]:.0f} MB" for kind, found in memory.items())
            print(
                f"after {given.minutes * tenth / 10:.1f} min: {told}; {len(acknowledged):,} wishes, "
                f"{len(failed)} errors",
                flush=True,
            )
        over.set()
        await asyncio.gather(*talking)

    try:
        asyncio.run(story())
    finally:
        ended = [kind for kind, each in running.items() if each.poll() is not None]
        for each in running.values():
            each.terminate()
            each.wait()
    with service.database.reading() as session:
        for honoured in wishes.times_to_honour(session):
            median, worst = honoured.median or 0, honoured.worst or 0
            print(f"{honoured.state}: median {median:.1f} s, worst {worst:.1f} s")
    settled(service)
    verdict("requests that failed", len(failed), 0)
    verdict("processes that ended", len(ended), 0)
    for kind, found in memory.items():
        verdict(f"memory of {kind}: growth over the last half", found[-1] / found[4] - 1, 0.1)
    checked(service, acknowledged)


async def say_wishes(
    service: Service, over: asyncio.Event, kept: list[dict[str, object]], number: int
) -> None:
    """Say wishes until it is over, whatever is killed; keep what was acknowledged."""
    client, lots = Client(service.port), random.Random(number)
    while not over.is_set():
        try:
            status, body = await asyncio.wait_for(client.send(put_wish(service, lots)), 20)
        except (OSError, asyncio.IncompleteReadError, ValueError, TimeoutError):
            client.close()
            await asyncio.sleep(0.1)
            continue
        if status == 200:
            kept.extend(json.loads(body)["wishes"])
        else:
            await asyncio.sleep(0.1)


def kills(service: Service, server: postgres.Postgres) -> None:
    """Kill web process, worker and database at random moments, and check what is left."""
    lots = random.Random(given.seed)
    acknowledged: list[dict[str, object]] = []
    running = {kind: service.start(kind) for kind in ("serve", "work")}

    async def story() -> None:
        await ready(service, running)
        over = asyncio.Event()
        talking = [asyncio.create_task(say_wishes(service, over, acknowledged, n)) for n in range(8)]
        for number in range(given.kills):
            await ready(service, running)
            await asyncio.sleep(lots.uniform(0, 2 * given.pause))
            victim = lots.choice(["serve", "work", "database"])
            if victim == "database":
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            else:
                running[victim].send_signal(signal.SIGKILL)
                running[victim].wait()
                running[victim] = service.start(victim)
            print(f"kill {number + 1}: {victim}; {len(acknowledged):,} wishes acknowledged", flush=True)
        await ready(service, running)
        over.set()
        await asyncio.gather(*talking)

    asyncio.run(story())
    for each in running.values():
        each.terminate()
        each.wait()
    settled(service)
    checked(service, acknowledged)


def settled(service: Service) -> None:
    """Let one last worker do what is left, and an update for whatever a job that failed for good had left."""
    database, end = service.database, time.monotonic() + 300
    with database.writing() as session:
        jobs.enqueue(session, "update", by="benchmark")
    while time.monotonic() < end:
        with database.reading() as session:
            counted = jobs.counts(session)
        if not counted["queued"] and not counted["running"]:
            break
        if not work_once(database, service.settings, worker="last"):
            time.sleep(1)
    database.close()


def checked(service: Service, acknowledged: list[dict[str, object]]) -> None:
    """Print what was found to be wrong."""
    database = service.database
    receipts = {str(each["wish"]): each["receipt"] for each in acknowledged}
    with database.snapshot() as session:
        there = {str(each) for each in session.scalars(select(Wish.id))}
        summary, findings = check_ledger(ledger.export_lines(session), "ledger", receipts)
        counted = jobs.counts(session)
        by_job = set(session.scalars(select(Model.job_id)))
        done = session.scalars(select(Job.id).where(Job.state == "done")).all()
        failed = session.scalars(select(Job.id).where(Job.state == "failed")).all()
        by = Counter(session.scalars(select(Publication.by).where(Publication.by.like("job %"))))
        now = models.in_service_id(session)
        serving = or_(
            Model.id == now, and_(Model.id.in_(select(Publication.model_id)), Model.pruned.is_(None))
        )
        published = session.scalars(select(Model.folder).where(serving)).all()
        unserved = set(map(str, session.scalars(select(Wish.id).where(Wish.served.is_(None)))))
    folders = [service.settings.runs / each for each in published]
    broken = [each for each in folders if not each.is_dir() or verify(each)]
    left = [each for each in failed if each > max(done, default=0)]
    print(f"{len(acknowledged):,} wishes acknowledged; {summary.leaves:,} events in {summary.seals:,} seals")
    print(f"jobs: {counted}; models looked at: {len(published)}")
    verdict("acknowledged wishes that are missing", len(set(receipts) - there), 0)
    verdict("findings in ledger and receipts", len(findings), 0)
    verdict("jobs that are neither done nor failed", counted["queued"] + counted["running"], 0)
    verdict("jobs done without a model", len(set(done) - by_job), 0)
    verdict("jobs that published twice", sum(number > 1 for number in by.values()), 0)
    verdict("jobs that failed for good, and none was done since", len(left), 0)
    verdict("acknowledged wishes that are not served", len(set(receipts) & unserved), 0)
    verdict("models in service, or that were, without whole files", len(broken), 0)
    database.close()


if __name__ == "__main__":
    given = read_options(
        __doc__,
        cases=Option(("load", "kill", "honour", "soak"), "what to do"),
        dataset=Option("simulation", "the log: simulation, or a data set"),
        run=Option("", "a run folder, in place of the log"),
        filled=Option("", "a folder to keep the filled service in; one that is there is used again"),
        requests=Option(REQUESTS, "which requests; shares need the ping"),
        connections=Option(16, "connections at once"),
        seconds=Option(10.0, "seconds of each measurement", quick=1.0),
        kills=Option(60, "how often something is killed", quick=3),
        wishes=Option(5, "people who say never, and as many who withdraw", quick=1),
        minutes=Option(10.0, "of the soak", quick=0.5),
        pause=Option(2.0, "seconds of work between kills, on average"),
        seed=Option(0, "of what is killed when"),
    )
    if postgres.initdb() is None:
        sys.exit("skipped: no PostgreSQL here")
    of, at = (Path(each) if each else None for each in (given.run, given.filled))
    with made(given.dataset, of, at, quick=given.quick) as (running_service, running_server):
        if "load" in given.cases:
            under_load(running_service, running_server)
        if "kill" in given.cases:
            kills(running_service, running_server)
        if "honour" in given.cases:
            honours(running_service)
        if "soak" in given.cases:
            soak(running_service)
