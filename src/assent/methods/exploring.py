"""What selections that were tried out led to: everybody's true validation loss, a training each."""

import time
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path

import numpy as np

from assent.data.problem import Problem
from assent.evaluation.evaluate import validation_losses
from assent.support.arrays import Bools, Floats
from assent.support.errors import AssentError
from assent.support.files import write_with
from assent.training import Trained
from assent.training.stored import files_of, load, save
from assent.workbench import Workbench


def check_wishes(method: str, problem: Problem) -> None:
    """Refuse wishes, which a method that tries selections out does not know."""
    if not problem.wishes.are_plain:
        accepted = "random, threshold, occurrence, ifrqe and ifrqe++"
        raise AssentError(
            f"{method}: does not know wishes (budgets, floors, ...); methods that do: {accepted}"
        )


@dataclass
class Explorer:
    """Trains on one selection after another and keeps what that showed.

    Losses are the binary cross-entropy of validation rows, in the form of the reward. They stay in the folder
    of the workbench, if it has one, so that a run that was killed and is given again trains nothing twice; so
    does the last model, where trainings start from it. With `warm_epochs` the losses of a selection depend on
    all that were explored before it.
    """

    bench: Workbench
    label: str
    warm_epochs: int | None = None
    trainings: int = 0
    """Selections explored, each of which took a training, now or earlier."""
    owed: float = 0.0
    """Seconds that those took which were found done."""
    _path: list[tuple[str, Bools]] = field(default_factory=list)
    _last: tuple[str, Trained] | None = None

    def __post_init__(self) -> None:
        check_wishes(self.label, self.bench.problem)

    def losses(self, selection: Bools) -> Floats:
        """Everybody's loss after training on `selection[Z]`, as it counts in the reward: [n_users]."""
        self._path.append((self._name(selection), selection))
        self.trainings += 1
        file = self._file(f"explored-{self._path[-1][0]}.npy")
        if file and file.exists():
            kept: Floats = np.load(file, allow_pickle=False)
            self.owed += float(kept[-1])
            return kept[:-1] * self.bench.weights
        start = time.perf_counter()
        losses = validation_losses(self.bench.problem, self._model())
        if file:
            now = np.append(losses, time.perf_counter() - start)
            write_with(file, partial(np.save, arr=now, allow_pickle=False))
        return losses * self.bench.weights

    def _name(self, selection: Bools) -> str:
        """A short name for all that determines what training on a selection shows."""
        before = self._path[-1][0] if self.warm_epochs and self._path else ""
        described = f"{self.bench.mark}/{self.warm_epochs}/{before}/".encode()
        return blake2b(described + np.packbits(selection).tobytes(), digest_size=16).hexdigest()

    def _model(self) -> Trained:
        """The model of the last selection of the path."""
        if not self.warm_epochs:
            return self.bench.explore(self._path[-1][1], self._title(len(self._path)))
        known, model = self._latest()
        for number, (name, selection) in enumerate(self._path[known:], known + 1):
            model = self.bench.explore(selection, self._title(number), after=model, epochs=self.warm_epochs)
            self._keep(name, model)
        assert model is not None
        return model

    def _latest(self) -> tuple[int, Trained | None]:
        """How much of the path a model is known for, and the model."""
        for number in range(len(self._path), 0, -1):
            name = self._path[number - 1][0]
            if self._last is not None and self._last[0] == name:
                return number, self._last[1]
            file = self._file(f"explored-{name}")
            if file and files_of(file)[1].exists():
                return number, load(file)
        return 0, None

    def _keep(self, name: str, model: Trained) -> None:
        """Remember the model of the path's selection `name`, in place of the one before."""
        before, self._last = self._last, (name, model)
        if file := self._file(f"explored-{name}"):
            save(model, file)
            if before is not None:
                for old in files_of(file.with_name(f"explored-{before[0]}")):
                    old.unlink(missing_ok=True)

    def _title(self, number: int) -> str:
        return f"{self.label}: selection {number}"

    def _file(self, name: str) -> Path | None:
        return self.bench.folder and self.bench.folder / name
