"""A problem with what has been learnt about it so far: anchors are trained once and shared by the methods."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import numpy as np

from assent.data.problem import Problem
from assent.game.estimates import Estimates, Objective
from assent.influence.estimate import linearise
from assent.influence.linearised import Linearised
from assent.influence.settings import InfluenceSettings
from assent.models import code_of
from assent.settings import Settings
from assent.support.arrays import Bools, Floats, Ints
from assent.support.files import read_json, write_json
from assent.support.hashing import short_name
from assent.support.progress import SILENT, Progress
from assent.training import Disclosed, Trained, TrainingSettings, disclose, train
from assent.training.checkpoint import seconds_of
from assent.training.stored import files_of, load, save
from assent.valuers import AtEachAnchor, AtPlace, Pooling, Valuer


@dataclass
class Workbench:
    """Trains models on a problem for one seed, and values its interactions at the anchors.

    With `folder`, finished anchors and the state of running trainings are kept there, so that a killed run
    goes on where it was. They know withheld interactions: `clear` removes them when the run is done.
    """

    problem: Problem
    settings: Settings
    seed: int
    progress: Progress = SILENT
    folder: Path | None = None
    trainings: int = 0
    """How many models were trained so far."""
    anchor_seconds: list[float] = field(default_factory=list)
    """What training and valuing at each anchor took, by the wall clock; loading one costs what it costs."""
    anchor_owed: list[float] = field(default_factory=list)
    """What training each anchor took that `anchor_seconds` lacks: in a killed process, or for other ends."""
    _anchors: list[tuple[Bools, Trained]] = field(default_factory=list)

    def final(self, selection: Bools, label: str = "final model") -> Trained:
        """Train on a selection, knowing nothing of the rest."""
        return self._train(disclose(self.problem, selection), label, "final")

    def explore(
        self, selection: Bools, label: str, *, after: Trained | None = None, epochs: int | None = None
    ) -> Trained:
        """Train on a selection to learn its rewards: a model that is looked at and thrown away.

        As `final` does, or with `after` from the parameters of that model, for `epochs`. Such models have the
        vocabulary of all rows, and so does the first of them, for which there are `epochs` but no `after`.
        """
        if epochs is None:
            return self._train(disclose(self.problem, selection), label, None)
        settings = self.settings.training
        if after is not None:
            settings = settings.model_copy(update={"epochs": epochs})
        data = disclose(self.problem, selection, vocabulary=np.ones_like(selection))
        return self._train(data, label, None, settings=settings, after=after)

    @cached_property
    def weights(self) -> Floats:
        """What one unit of each user's summed validation loss counts in her reward: [n_users]."""
        return self.settings.reward.weights(self.problem.valid_samples())

    def estimates(
        self, anchors: int, objective: Objective = Objective.WELFARE, *, effects: bool = False
    ) -> Estimates:
        """The game's input at the first `anchors` anchors; trains and values those that are new.

        Sources of values are weighed by what they are good for where people play for `objective`. With
        `effects`, the effects on every single user are included, which predicting her loss needs.
        """
        return self._valuer.estimates(anchors, objective, effects=effects)

    def estimates_at(self, selection: Bools, *, effects: bool = False) -> AtPlace:
        """The game's input at an anchor of its own, at `selection[Z]`; not where values are pooled."""
        return self._valuer.at(selection, effects=effects)

    def errors(self, estimates: Estimates, objective: Objective) -> Floats | None:
        """How far the truth may be from each value of `estimates` (a standard deviation): [Z], or None."""
        return self._valuer.errors(estimates, objective)

    def resting_on(self, anchors: int, objective: Objective = Objective.WELFARE) -> Sequence[int]:
        """The numbers of the anchors that the estimates at the first `anchors` rest on."""
        return self._valuer.resting_on(anchors, objective)

    def trust(
        self, anchors: int, objective: Objective = Objective.WELFARE, placed: Sequence[AtPlace] = ()
    ) -> dict[str, object]:
        """How far the estimates at these anchors can be trusted: residuals, and reliability if known."""
        return self._valuer.trust(anchors, objective, placed)

    @cached_property
    def _valuer(self) -> Valuer:
        return Pooling(self) if self.settings.value.is_pooled else AtEachAnchor(self)

    def clear(self) -> None:
        """Delete what `folder` holds."""
        if self.folder is not None and self.folder.exists():
            for file in self.folder.iterdir():
                file.unlink()
            self.folder.rmdir()

    def anchor(self, t: int) -> tuple[Bools, Trained]:
        """The t-th anchor and its model: known already, from the folder, or trained now.

        Where they lie and what they are trained with is the valuer's to say.
        """
        while len(self._anchors) <= t:
            took = self._make_anchor()
            self.anchor_owed[-1] += took
        return self._anchors[t]

    def uncounted_anchor(self, t: int) -> tuple[Bools, Trained]:
        """The same for a caller who counts the seconds of its training by `anchor_seconds`."""
        while len(self._anchors) <= t:
            self._make_anchor()
        return self._anchors[t]

    @cached_property
    def mark(self) -> str:
        """A short name for all that anchors depend on, so that nobody else's are taken from the folder."""
        how = self.settings.model_dump(mode="json", include={"model", "model_settings", "training"})
        how |= {"code": code_of(self.settings.model), "layout": self._valuer.layout}
        about = [version("assent"), self.problem.fingerprint(), how, self.seed]
        return short_name(json.dumps(about).encode())

    def _make_anchor(self) -> float:
        """Load or train the next anchor: the seconds that training it took just now."""
        t = len(self._anchors)
        drawn, seed = self._valuer.place(t), self._valuer.seed_of(t)
        trained, owed, took = self.train_anchor(drawn, f"anchor-{t}", f"anchor {t + 1}", seed=seed)
        self._anchors.append((drawn, trained))
        self.anchor_owed.append(owed)
        return took

    def try_out(self, selection: Bools, label: str) -> Trained:
        """Train on a selection as `final` does, to learn what it is good for; its seconds are an anchor's."""
        name = f"trial-{short_name(selection.tobytes())}"
        trained, owed, took = self.train_anchor(selection, name, label, seed=self.seed, vocabulary=selection)
        self.anchor_seconds.append(took)
        self.anchor_owed.append(owed)
        return trained

    def train_anchor(
        self, selection: Bools, name: str, label: str, *, seed: int, vocabulary: Bools | None = None
    ) -> tuple[Trained, float, float]:
        """The model of an anchor, kept under `name`: from the folder, or trained now.

        It knows the users and items of all rows, or of `vocabulary[Z]`. With the seconds of its training that
        were spent before, and those spent now.
        """
        start, path = time.perf_counter(), self.folder and self.folder / f"{name}-{self.mark}"
        if path and files_of(path)[1].exists() and seconds_of(path).exists():
            return load(path), float(read_json(seconds_of(path))), 0.0
        known = np.ones_like(selection) if vocabulary is None else vocabulary
        trained = self._train(disclose(self.problem, selection, vocabulary=known), label, name, seed=seed)
        took = time.perf_counter() - start
        if path:
            write_json(seconds_of(path), took + trained.seconds_before)
            save(trained, path)
        return trained, trained.seconds_before, took

    def linearise(
        self, t: int, settings: InfluenceSettings | None = None, *, targets: Ints | None = None
    ) -> Linearised:
        """The model of the t-th anchor, ready to be differentiated; with `settings` instead of its own.

        The training rows `targets` serve as further validation rows.
        """
        selection, trained = self.uncounted_anchor(t)
        return self.linearise_at(selection, trained, settings, seed=self._valuer.seed_of(t), targets=targets)

    def linearise_at(
        self,
        selection: Bools,
        trained: Trained,
        settings: InfluenceSettings | None = None,
        *,
        seed: int,
        targets: Ints | None = None,
    ) -> Linearised:
        """The same for a model that was trained on `selection[Z]`, as anchors are."""
        return linearise(
            self.problem,
            selection,
            trained,
            negatives=self.settings.training.negatives,
            settings=settings or self.settings.linearisation,
            seed=seed,
            targets=targets,
        )

    def _train(
        self,
        data: Disclosed,
        label: str,
        name: str | None,
        *,
        settings: TrainingSettings | None = None,
        after: Trained | None = None,
        seed: int | None = None,
    ) -> Trained:
        """Train, by default with the workbench's own settings and seed.

        A training with a `name` is kept as it goes, if there is a folder.
        """
        self.trainings += 1
        return train(
            data,
            model=self.settings.model,
            model_settings=self.settings.model_settings,
            settings=settings or self.settings.training,
            seed=self.seed if seed is None else seed,
            progress=self.progress,
            label=label,
            checkpoint=self.folder / f"{name}.progress" if self.folder and name else None,
            start=None if after is None else after.model,
        )
