"""A problem with what has been learnt about it so far: anchors are trained once and shared by the methods."""

import json
import time
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import numpy as np

from assent.arrays import Bools, Floats
from assent.data.problem import Problem
from assent.errors import AssentError
from assent.game.anchors import draw_anchors
from assent.game.estimates import Estimates
from assent.influence.estimate import Influence, influence, linearise
from assent.influence.linearised import Linearised
from assent.influence.mf.curvature import Curvature
from assent.influence.mf.effects import effect_matrix
from assent.influence.settings import InfluenceSettings
from assent.metrics import RewardForm
from assent.models import code_of
from assent.progress import SILENT, Progress
from assent.settings import Settings
from assent.sparse import SparseMatrix
from assent.training import Disclosed, Trained, TrainingSettings, disclose, train
from assent.training.storage import files_of, load, save


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
    _anchors: list[tuple[Bools, Trained]] = field(default_factory=list)
    _influences: list[Influence] = field(default_factory=list)
    _effects: list[SparseMatrix] = field(default_factory=list)

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
        return self._train(data, label, None, settings, after)

    @cached_property
    def weights(self) -> Floats:
        """What one unit of each user's summed validation loss counts in her reward: [n_users]."""
        return self.settings.reward.weights(self.problem.valid_samples())

    def estimates(self, anchors: int, *, effects: bool = False) -> Estimates:
        """The game's input at the first `anchors` anchors; trains and values those that are new.

        With `effects`, the effects on every single user are included, which predicting her loss needs.
        """
        while len(self._influences) < anchors:
            start = time.perf_counter()
            linearised = self.linearise(len(self._influences))
            with self.progress.task(f"influence at anchor {len(self._influences) + 1}", 1):
                found = influence(linearised, self.settings.influence, self.seed, self.weights)
            self._influences.append(found)
            self.anchor_seconds.append(time.perf_counter() - start)
        while effects and len(self._effects) < anchors:
            with self.progress.task(f"effects on others at anchor {len(self._effects) + 1}", 1):
                self._effects.append(self._value_others(len(self._effects)))
        known = self._influences[:anchors]
        return Estimates(
            owners=self.problem.train.users,
            n_users=self.problem.n_users,
            unwillingness=self.problem.unwillingness,
            anchors=np.array([self.anchor(t)[0] for t in range(anchors)]),
            own=np.array([each.own for each in known]) * self.weights[self.problem.train.users],
            social=np.array([each.social for each in known]),
            losses=np.array([each.losses for each in known]) * self.weights,
            effects=tuple(self._effects[:anchors]) if effects else (),
            wishes=self.problem.wishes,
        )

    def influences(self) -> list[Influence]:
        """The influence at each anchor that has been valued so far."""
        return list(self._influences)

    def clear(self) -> None:
        """Delete what `folder` holds."""
        if self.folder is not None and self.folder.exists():
            for file in self.folder.iterdir():
                file.unlink()
            self.folder.rmdir()

    def anchor(self, t: int) -> tuple[Bools, Trained]:
        """The t-th anchor and its model: known already, from the folder, or trained now.

        All anchors start from the same parameters, so that their losses differ by their selections alone.
        """
        while len(self._anchors) <= t:
            self._anchors.append(self._make_anchor(len(self._anchors)))
        return self._anchors[t]

    @cached_property
    def mark(self) -> str:
        """A short name for all that anchors depend on, so that nobody else's are taken from the folder."""
        how = self.settings.model_dump(
            mode="json", include={"model", "model_settings", "training", "anchor_rate"}
        )
        described = json.dumps([self.problem.fingerprint(), how, code_of(self.settings.model), self.seed])
        return blake2b(described.encode(), digest_size=6).hexdigest()

    def _make_anchor(self, t: int) -> tuple[Bools, Trained]:
        rows = len(self.problem.train)
        drawn = draw_anchors(rows, t + 1, rate=self.settings.anchor_rate, seed=self.seed)[t]
        path = self.folder and self.folder / f"anchor-{t}-{self.mark}"
        if path and files_of(path)[1].exists():
            return drawn, load(path)
        everything = np.ones(rows, dtype=np.bool_)
        data = disclose(self.problem, drawn, vocabulary=everything)
        trained = self._train(data, f"anchor {t + 1}", f"anchor-{t}")
        if path:
            save(trained, path)
        return drawn, trained

    def linearise(self, t: int, settings: InfluenceSettings | None = None) -> Linearised:
        """The model of the t-th anchor, ready to be differentiated; with `settings` instead of its own."""
        selection, trained = self.anchor(t)
        return linearise(
            self.problem,
            selection,
            trained,
            negatives=self.settings.training.negatives,
            settings=settings or self.settings.influence,
            seed=self.seed,
        )

    def _value_others(self, t: int) -> SparseMatrix:
        curvature = self.linearise(t)
        if not isinstance(curvature, Curvature):
            raise AssentError(
                f"effects on single others: not available for model {self.settings.model}; accepted: mf"
            )
        effects = effect_matrix(self.problem, curvature, self._influences[t].own, self.settings.influence)
        return effects if self.settings.reward is RewardForm.SUM else effects.scaled(self.weights)

    def _train(
        self,
        data: Disclosed,
        label: str,
        name: str | None,
        settings: TrainingSettings | None = None,
        after: Trained | None = None,
    ) -> Trained:
        """Train; a training with a `name` is kept as it goes, if there is a folder."""
        self.trainings += 1
        return train(
            data,
            model=self.settings.model,
            model_settings=self.settings.model_settings,
            settings=settings or self.settings.training,
            seed=self.seed,
            progress=self.progress,
            label=label,
            checkpoint=self.folder / f"{name}.progress" if self.folder and name else None,
            start=None if after is None else after.model,
        )
