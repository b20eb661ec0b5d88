"""Requests at random: none is a fault of the service, and every answer is as the description says."""

import asyncio
import json
import os
import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from httpx import ASGITransport, AsyncClient
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from assent.service import access
from assent.service.ledger_check import check_ledger
from tests.service.site import ANN, open_site

TIMES = int(os.environ.get("ASSENT_FUZZ", "1"))
"""How many times as many requests are sent."""
EXAMPLES = 10 * TIMES
"""Of each operation, for schemathesis, on each database."""
REQUESTS = 1500 * TIMES
"""On each database, which get different ones."""


def test_schemathesis_finds_nothing(
    tmp_path: Path, place: Callable[[], str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(access.FAILURES, "most", 10**6)  # it tries wrong keys, too
    with open_site(tmp_path, url=place()) as site:
        schema = schemathesis.openapi.from_asgi("/v1/openapi.json", site.app)
        found: list[Any] = list(schema.get_all_operations())
        operations = [each.ok() for each in found]
        assert len(operations) > 25
        for operation in operations:
            check_operation(operation, {"Authorization": f"Bearer {site.keys['all']}"})


def check_operation(operation: Any, headers: dict[str, str]) -> None:
    """Send examples of one operation, the same every time, and check the answers against the description.

    What fits the description may be refused all the same: an item that nobody has, a time before 1970.
    """

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(case=operation.as_strategy())
    def check(case: Any) -> None:
        case.call_and_validate(headers=headers, excluded_checks=[positive_data_acceptance])

    check()


TEXTS = [
    "", "0", "1", "-1", "none", "null", "ann-the-first", "ann-only-item", "Comedy", "item", "category",
    "everything", "\x00", "\x1b[2J", "\ud800", "\u202e", "😀" * 50, "a" * 300, "' or 1=1 --", "%", "_",
    "../../etc/passwd", "<script>", "{{7*7}}", "1e999", "nan", "9" * 40,
    "2026-01-01T00:00:00Z", "1~2", "train", "\n", " ", "true",
]  # fmt: skip


def at_random(draws: random.Random, depth: int = 0) -> Any:
    kinds = ["text", "number", "nothing", "truth"] + ["list", "object"] * (depth < 2)
    match draws.choice(kinds):
        case "text":
            return draws.choice(TEXTS)
        case "number":
            return draws.choice(
                [0, 1, -1, 0.5, 2**63, 2**70, -(2**70), 1e308, float("nan"), float("inf"), 0.75]
            )
        case "nothing":
            return None
        case "truth":
            return draws.random() < 0.5
        case "list":
            return [at_random(draws, depth + 1) for _ in range(draws.randrange(4))]
        case _:
            names = [*FIELDS, draws.choice(string.ascii_letters)]
            return {draws.choice(names): at_random(draws, depth + 1) for _ in range(draws.randrange(6))}


FIELDS = [
    "user", "item", "time", "title", "categories", "unwillingness", "interactions", "wishes", "scope",
    "target", "wish", "k", "kind", "name", "scopes", "expires", "cursor", "limit", "category", "search",
    "state", "choice", "was", "csrf", "link", "key", "who", "model", "said", "event", "proof",
    "dpv:hasRecordOfActivity", "leaf",
]  # fmt: skip


def test_no_request_at_random_is_a_fault(tmp_path: Path, place: Callable[[], str | None]) -> None:
    """Some thousand requests: random methods, paths, queries, headers and bodies, with and without rights."""
    with open_site(tmp_path, url=place()) as site:
        draws = random.Random(20261118 + site.database.is_sqlite)
        person, operator = site.person(ANN), site.operator()
        paths = [
            *site.client().get("/v1/openapi.json").json()["paths"],
            "/me",
            "/enter",
            "/demo",
            "/leave",
            "/",
            "/nothing",
        ]
        paths += [
            f"/me/{name}" for name in ("entries", "entry", "category", "categories", "everything", "preview")
        ]
        paths += ["/me/entries/preview", "/me/categories/preview", "/me/ledger.jsonl"]
        paths += [
            f"/me/{name}"
            for name in ("history", "data", "withdraw", "recommendations", "export.json", "receipts/x")
        ]
        paths += [
            f"/operator/{name}" for name in ("jobs", "models", "models/publish", "audit", "frontier", "enter")
        ]
        cookies = {"person": person.cookies, "operator": operator.cookies}
        tokens = {"person": site.csrf(person), "operator": site.csrf(operator)}

        async def send(count: int) -> list[tuple[int, str]]:
            transport = ASGITransport(app=site.app, raise_app_exceptions=False)
            found = []
            async with AsyncClient(transport=transport, base_url="http://testserver") as client:
                for _ in range(count):
                    found.append(await one(client))
            return found

        async def one(client: AsyncClient) -> tuple[int, str]:
            path = draws.choice(paths)
            for name in ("run", "model", "receipt", "key"):
                path = path.replace(
                    "{" + name + "}", draws.choice(["1", "x", "0", "%00", "9" * 30, "0" * 12])
                )
            who = draws.choice(["person", "operator"])
            method = draws.choice(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
            headers = {"authorization": f"Bearer {site.keys['all']}"} if draws.random() < 0.8 else {}
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in cookies[who].items())
            if draws.random() < 0.2:
                headers["idempotency-key"] = draws.choice(
                    ["a", "b", "ä".encode().decode("latin-1"), "x" * 300]
                )
            query: list[tuple[str, str | int | float | bool | None]] = [
                (draws.choice(FIELDS), draws.choice(TEXTS).encode("utf-8", "replace").decode())
                for _ in range(draws.randrange(4))
            ]
            content: bytes | None = None
            if method in ("POST", "PUT", "PATCH") and draws.random() < 0.9:
                if path.startswith("/v1"):
                    content = json.dumps(at_random(draws)).encode()
                    headers["content-type"] = draws.choice(["application/json", "text/plain", "x", ""])
                    if draws.random() < 0.1:
                        content = draws.randbytes(30)
                else:
                    pairs = [
                        (draws.choice(FIELDS), str(at_random(draws, 2))) for _ in range(draws.randrange(6))
                    ]
                    pairs.append(("csrf", tokens[who]))
                    content = str(
                        httpx.QueryParams([(k, v.encode("utf-8", "replace").decode()) for k, v in pairs])
                    ).encode()
                    headers["content-type"] = draws.choice(
                        ["application/x-www-form-urlencoded"] * 5
                        + ["multipart/form-data", "multipart/form-data; boundary=x"]
                    )
            request = client.build_request(
                method, path, params=httpx.QueryParams(query), content=content,
                headers={name.encode(): value.encode("latin-1") for name, value in headers.items()},
            )  # fmt: skip
            answer = await client.send(request)
            return answer.status_code, f"{method} {request.url} {content!r}"

        found = asyncio.run(send(REQUESTS))
        faults = [what for status, what in found if status >= 500]
        assert not faults, faults[:5]
        assert {200, 303, 401, 403, 404, 405, 422} <= {status for status, _ in found}
        _, findings = check_ledger(site.platform().get("/v1/ledger").text.splitlines(), "ledger")
        assert not findings
