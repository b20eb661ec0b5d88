"""Dockerfile, compose file, units and settings of deploy/: what they name exists. No engine is needed."""

import configparser
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from assent.service.settings import read_settings
from tests.docs.test_commands import options_of

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
UNITS = sorted(DEPLOY.glob("*.service"))


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, with lines that go on joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in text.splitlines() if line.strip()]


def check_command(words: list[str]) -> None:
    """Whether `assent WORDS` names a command and options that there are, with a value for each."""
    options = options_of(tuple(words))
    assert options is not None, words
    used = [word for word in words if word.startswith("--")]
    assert used
    assert set(used) <= options


def test_the_image_is_built_from_files_that_exist_and_runs_a_command() -> None:
    found = instructions()
    for kind, what in found:
        if kind == "COPY" and not what.startswith("--from"):
            for source in what.split()[:-1]:
                assert (ROOT / source).exists(), source
    stages = [what.split(" AS ")[-1] for kind, what in found if kind == "FROM"]
    copied = [re.search(r"--from=(\w+)", what) for kind, what in found if kind == "COPY"]
    assert all(name[1] in stages for name in copied if name)
    assert PROJECT["scripts"] == {"assent": "assent.cli:main"}
    assert json.loads(dict(found)["ENTRYPOINT"]) == ["assent"]
    check_command(json.loads(dict(found)["CMD"]))
    installed = next(what for kind, what in found if what.startswith("pip install"))
    assert "'.[service]'" in installed
    assert "service" in PROJECT["optional-dependencies"]
    python = re.findall(r"FROM python:([\d.]+)", (DEPLOY / "Dockerfile").read_text())
    assert {tuple(map(int, each.split("."))) >= (3, 11) for each in python} == {True}


def test_the_image_does_not_run_as_root_and_knows_how_it_is() -> None:
    found = instructions()
    kinds = [kind for kind, _ in found]
    assert kinds.index("USER") < kinds.index("ENTRYPOINT")
    assert dict(found)["USER"] != "root"
    health = dict(found)["HEALTHCHECK"]
    compile(json.loads(health[health.index("[") :])[2], "healthcheck", "exec")
    assert "/health/ready" in health


def test_compose_names_what_exists() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        if "build" in service:
            context = (DEPLOY / service["build"]["context"]).resolve()
            assert (context / service["build"]["dockerfile"]).is_file()
        for other in service.get("depends_on", {}):
            assert "healthcheck" in services[other], f"{name} waits for {other}"
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in COMPOSE["volumes"] or (DEPLOY / source).exists(), volume
        if "command" in service:
            check_command(service["command"])
    assert {"database", "web", "worker"} == set(services)
    assert services["web"]["ports"] == ["127.0.0.1:8000:8000"]  # the loopback: https is in front


def test_compose_has_no_password_and_few_rights() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    for line in text.splitlines():
        if "PASSWORD:" in line:
            assert "${ASSENT_DATABASE_PASSWORD:?" in line
    for name in ("web", "worker"):
        service = COMPOSE["services"][name]
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"] is True
        assert service["environment"]["ASSENT_DATABASE"].startswith("postgresql://")


def test_the_settings_are_accepted() -> None:
    settings = read_settings(DEPLOY / "service.yaml", database="sqlite:///x.db", data=Path("data"))
    assert settings.public_url.startswith("https://")
    assert settings.secure_cookies
    assert not settings.demo
    assert settings.unsaid == 1  # nobody's consent is invented


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_run_commands_that_exist(unit: Path) -> None:
    parsed = configparser.ConfigParser(strict=True, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their capitals
    parsed.read(unit)
    program, *words = shlex.split(parsed["Service"]["ExecStart"])
    assert program.endswith("/bin/assent")
    check_command(words)
    for key, value in (("User", "assent"), ("NoNewPrivileges", "yes"), ("UMask", "0077")):
        assert parsed["Service"][key] == value


def test_there_is_a_unit_for_web_processes_and_one_for_workers() -> None:
    assert [unit.name for unit in UNITS] == ["assent-web.service", "assent-worker@.service"]
