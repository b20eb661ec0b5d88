"""The wheel: built from the repository, installed where nothing of assent is, and tried."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("pyproject.toml", "README.md", "LICENSE", "src")


def run(*command: object, cwd: Path) -> str:
    """Run a command without this repository on its path; returns what it printed."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the repository: building leaves files behind."""
    folder = tmp_path_factory.mktemp("wheel")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(
                ROOT / part, folder / part, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__")
            )
        else:
            shutil.copy(ROOT / part, folder / part)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-index"]
    run(*pip, "--no-build-isolation", "--wheel-dir", folder / "dist", ".", cwd=folder)
    [built] = (folder / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def bin_folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment that has the wheel, and sees the libraries of this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    here = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (Path(here) / "libraries.pth").write_text("\n".join(libraries))
    run(
        sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python,
        "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", wheel,
        cwd=folder,
    )  # fmt: skip
    return folder / "bin"


def test_the_command_works(bin_folder: Path, tmp_path: Path) -> None:
    assert run(bin_folder / "assent", "--version", cwd=tmp_path).startswith("assent ")
    run(bin_folder / "assent", "simulate", "--users", 30, "--items", 40, "--to", "log.csv", cwd=tmp_path)
    assert (tmp_path / "log.csv").read_text().startswith("user,item,")


def test_the_package_is_the_installed_one_and_has_its_data(bin_folder: Path, tmp_path: Path) -> None:
    code = (
        "import assent; from importlib.resources import files; from pathlib import Path; "
        "print(Path(assent.__file__).parent); assent.make_method('worth'); "
        "print([(files('assent') / name).is_file() for name in "
        "('py.typed', 'report/style.css', 'reproduce/paper.json')])"
    )
    place, data = run(bin_folder / "python", "-c", code, cwd=tmp_path).splitlines()
    assert Path(place).is_relative_to(bin_folder.parent)
    assert data == "[True, True, True]"
