"""Tests of everything that a recommender must do, to subclass under pytest."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from assent.data.problem import Problem, make_problem
from assent.data.simulate import simulate
from assent.evaluation.evaluate import evaluate, ranked_metrics
from assent.evaluation.metrics import ranking_metrics, top_hits
from assent.influence.estimate import linearise, own_by_groups, social_influence
from assent.influence.inverse import InfluenceSettings
from assent.influence.linearised import Linearised
from assent.lab.lab import everything
from assent.models import Draws, Evidence, Recommender, Sizes, model_class, model_name
from assent.models.checks import check_contract, checked_class, make_model
from assent.support.arrays import Floats
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Advance, Progress
from assent.testing.subject import CHANGES, Change, problem_of, split_log
from assent.training import Disclosed, Settings, Trained, disclose, train
from assent.training.stored import evidence_of, load, save

LEARNING: Mapping[str, Any] = {"epochs": 30, "batch_size": 128}
"""Training settings of `learnt`, which `training` overrides; the rest are the model's defaults."""
MOMENT: Mapping[str, Any] = {"epochs": 4, "batch_size": 64, "evaluate_every": 2}
"""Training settings of `quickly`, which override `training`."""
_STEP = 1e-4
"""Step of the finite differences, whose error is of second order."""
_MOST_PARAMETERS = 3000
"""Parameters for which a dense matrix takes a few seconds."""
_SEED = 0
_LOTS = itertools.count()
"""Seeds of changes of withheld rows: no two changes are the same, so a model cannot remember them."""


class RecommenderContract:
    """Subclass it as `Test...` and set `model`: pytest then runs the tests below on that recommender.

    Set a test to None in the subclass if the model breaks it on purpose.
    """

    model: ClassVar[type[Recommender] | str]
    """The class, which must be at the top level of a module, or its name as in `assent.Settings.model`."""
    settings: ClassVar[Mapping[str, Any]] = {}
    """Model settings that differ from its defaults."""
    training: ClassVar[Mapping[str, Any]] = {}
    """Training settings that differ from `LEARNING` and the model's defaults."""
    tiny: ClassVar[Mapping[str, Any]] = {"dimension": 3}
    """Settings that make the model small enough for dense matrices; unknown names are ignored."""

    @classmethod
    @cache
    def learnt(cls) -> tuple[Trained, Disclosed]:
        """Return the model trained on the planted problem, once for all tests, and its training input."""
        data = disclose(_planted(), everything(_planted()))
        return cls._train(data, {**LEARNING, **cls.training}), data

    def quickly(self, data: Disclosed, *, progress: Progress = SILENT, path: Path | None = None) -> Trained:
        """Return the model trained on `data` for a few epochs, with a checkpoint at `path` after each."""
        options = {"progress": progress, "checkpoint": path, "save_every": 0}
        return self._train(data, {**self.training, **MOMENT}, **options)

    def initial(self, seed: int = 0, sizes: Sizes | None = None) -> Recommender:
        """Return the model before training, by default of the planted problem's sizes."""
        problem, chosen = _planted(), self._chosen(self.training)
        sizes = sizes or Sizes(problem.n_users, problem.n_items, len(problem.train), 1)
        return make_model(
            model_class(chosen.model), sizes, chosen.model_settings, Draws.numbered(sizes, seed)
        )

    def final(self, table: pl.DataFrame, folder: Path) -> dict[str, str]:
        """Return hashes of the scores and files of a model trained on the disclosed rows of `table`.

        A model of all training rows is trained before it.
        """
        problem, selection = problem_of(table)
        self.quickly(disclose(problem, everything(problem)))
        trained = self.quickly(disclose(problem, selection))
        save(trained, folder / "model")
        files = {file.name: _hash(file.read_bytes()) for file in folder.iterdir()}
        return {"answers": _answers(trained), **files}

    @classmethod
    def _chosen(cls, training: Mapping[str, Any]) -> Settings:
        if not hasattr(cls, "model"):
            raise AssentError(f"{cls.__name__}: has no model; expected model = the class under test")
        model = cls.model
        kind = model_class(model) if isinstance(model, str) else checked_class(model, str(model))
        values = {"model": model_name(kind), "model_settings": dict(cls.settings), "training": dict(training)}
        return Settings.model_validate(values)

    @classmethod
    def _train(cls, data: Disclosed, training: Mapping[str, Any], **options: Any) -> Trained:
        how = cls._chosen(training)
        return train(
            data, model=how.model, model_settings=how.model_settings, settings=how.training, seed=0, **options
        )

    def test_methods_give_what_they_should(self) -> None:
        """Shapes, types, finite values and gradients; score_all equals forward; also without any rows."""
        data = disclose(_planted(), everything(_planted()))
        check_contract(self.initial(), evidence_of(data.rows))
        for users, items in ((0, 0), (1, 1), (2, 30), (30, 2)):
            model = self.initial(sizes=Sizes(users, items, 0, 1))
            check_contract(model, evidence_of(data.rows[:0]))

    def test_a_trained_model_still_gives_what_it_should(self) -> None:
        """The contract also holds after training."""
        trained, data = self.learnt()
        check_contract(trained.model, evidence_of(data.rows))

    def test_it_learns_more_than_popularity(self) -> None:
        """NDCG@5 on test rows is above popularity's by 3 standard errors, where tastes are planted."""
        problem = _planted()
        gain = ranked_metrics(problem, self.learnt()[0])["ndcg"] - _popularity_ndcg(problem)
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        advice = "set `training` if it needs more epochs"
        assert gain.mean() > 3 * error, (
            f"NDCG@5 is {gain.mean():+.3f} ± {error:.3f} above popularity; {advice}"
        )

    def test_the_same_seed_gives_the_same_bytes(self) -> None:
        """Other draws from torch's generator in between change nothing."""
        data = _disclosed_part()
        first = _answers(self.quickly(data))
        torch.rand(3)
        assert _answers(self.quickly(data)) == first, "something is drawn from elsewhere than the seed"

    def test_another_seed_starts_elsewhere(self) -> None:
        """`initialise` draws from what it is given."""
        first, again, other = (_parameters(self.initial(seed)) for seed in (0, 0, 1))
        assert first == again, "initialise draws from elsewhere than `draws`"
        assert first != other, "initialise does not draw from `draws`"

    def test_everybody_starts_alike_whoever_else_there_is(self) -> None:
        """The last user and item of a larger model leave the initial parameters of the others as they are."""
        sizes, more = Sizes(5, 7, 20, 1), Sizes(6, 8, 20, 1)
        known, larger = (self.initial(sizes=each).state_dict() for each in (sizes, more))
        for name, values in known.items():
            few = values if values.shape == larger[name].shape else values[: min(5, len(values))]
            same = torch.equal(few, larger[name][: len(few)] if few.dim() else larger[name])
            assert same, f"initialise draws {name} by position; accepted: draws.users, draws.items"

    def test_finishing_twice_changes_nothing(self) -> None:
        """`finish` depends on the trained parameters alone, since it is called many times."""
        model = self.learnt()[0].model
        before = _parameters(model)
        model.finish()
        assert _parameters(model) == before

    def test_a_saved_model_scores_the_same(self, tmp_path: Path) -> None:
        """The scores depend on nothing but parameters, settings and evidence."""
        trained = self.learnt()[0]
        save(trained, tmp_path / "model")
        loaded = load(tmp_path / "model", self._chosen({}).model)
        assert _answers(loaded) == _answers(trained)
        assert loaded.model.settings == trained.model.settings

    def test_a_resumed_training_ends_with_the_same_bytes(self, tmp_path: Path) -> None:
        """Training depends on no state but the parameters."""
        data = _disclosed_part()
        with pytest.raises(KilledError):
            self.quickly(data, progress=Killer(), path=tmp_path / "progress")
        assert _answers(self.quickly(data, path=tmp_path / "progress")) == _answers(self.quickly(data))

    def test_unknown_users_and_items_are_scored(self) -> None:
        """The scores at index n_users and n_items are finite, and the same in forward and in score_all."""
        trained, data = self.learnt()
        users = torch.tensor([0, data.n_users])
        scores = trained.scores_of_all(users)
        assert scores.isfinite().all()
        every = torch.arange(data.n_items + 1).expand(2, -1)
        torch.testing.assert_close(trained.scores(users, every), scores, rtol=1e-4, atol=1e-4)

    def test_a_user_who_withholds_everything_is_served(self) -> None:
        """A final model does not know such a user; an anchor knows the user without any interaction."""
        problem, selection = problem_of(split_log(seed=0, share=0.6))
        silent = np.setdiff1d(problem.train.users, problem.train.users[selection])
        assert len(silent)
        final = self.quickly(disclose(problem, selection))
        assert not set(problem.user_ids[silent]) & set(final.user_ids)
        anchor = self.quickly(disclose(problem, selection, vocabulary=everything(problem)))
        scores = anchor.scores_of_all(torch.from_numpy(silent))
        assert scores.isfinite().all(), "the scores of a user without an interaction are not finite"
        nothing = self.quickly(disclose(problem, ~everything(problem)))
        assert nothing.scores_of_all(torch.tensor([0])).isfinite().all()
        for trained in (final, anchor, nothing):
            figures = evaluate(problem, trained, selection, price=0.1)
            assert np.isfinite(list(figures.values())).all()

    @pytest.mark.parametrize("change", CHANGES)
    def test_what_is_withheld_leaves_no_trace(self, change: Change, tmp_path: Path) -> None:
        """Training again after a change of withheld rows gives the same bytes of files and scores.

        Before each final model, one is trained on all rows, as methods do; the final model must not know it.
        """
        table = split_log(seed=0, share=0.6)
        changed = change(table, np.random.default_rng(next(_LOTS)))
        before = self.final(table, tmp_path / "before")
        after = self.final(changed, tmp_path / "after")
        assert before == after, f"{change.__name__}: the final model knows of withheld rows"

    def test_evidence_of_weight_0_is_absent(self) -> None:
        """Logits and penalties with rows of weight 0 equal those without these rows."""
        trained, data = self.learnt()
        evidence, is_kept = _half_weighted(data)
        absent = Evidence(evidence.users[is_kept], evidence.items[is_kept], evidence.weights[is_kept])
        full = evidence_of(data.rows)
        found, expected, whole = (_outputs(trained.model, each) for each in (evidence, absent, full))
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4, msg=_felt)
        if trained.model.reads_evidence:
            assert not torch.equal(found[0], whole[0]), (
                "prepare is defined, but what it reads changes no score"
            )

    def test_scores_can_be_differentiated_by_the_weights_of_evidence(self) -> None:
        """The gradient is finite at weights 1 and 0, also for a user whose rows all have weight 0."""
        trained, data = self.learnt()
        if trained.model.reads_evidence:
            evidence, _ = _half_weighted(data)
            evidence.weights.requires_grad_()
            (gradient,) = torch.autograd.grad(_outputs(trained.model, evidence)[0].sum(), evidence.weights)
            assert gradient.isfinite().all(), "the gradient by the weights is not finite"
            assert gradient.any(), "the weights change no score"

    def test_scoring_draws_no_random_numbers(self) -> None:
        """Dropout and the like are off: the same call gives the same scores."""
        trained, data = self.learnt()
        assert not trained.model.training
        first, again = (_outputs(trained.model, evidence_of(data.rows)) for _ in range(2))
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(first, again, strict=True))

    def test_influence_is_the_dense_implicit_derivative(self) -> None:
        """Own and social influence equal the implicit derivative with a dense Hessian.

        −dL/do_k = ∇_θLᵀ H⁻¹ ∂²F/∂θ∂o_k − ∂L/∂o_k
        """
        log = simulate(preference="learnable", users=5, items=20, seed=_SEED)
        problem = make_problem(log, "paper-tables", negatives=2)
        items = problem.item_ids[np.unique(problem.train.items)]
        model = self._tiny_model(Sizes(problem.n_users, len(items), len(problem.train), 1))
        trained = Trained(model, problem.user_ids, items, _SEED, 1, None)
        # With shares of interactions, sums are not integers, where a model may have a kink.
        anchor = np.random.default_rng(_SEED).uniform(0.1, 0.9, len(problem.train))
        settings = InfluenceSettings(truncation=5000, tolerance=1e-11, draws=1, groups=problem.n_users)
        at = linearise(problem, anchor, trained, negatives=1, settings=settings, seed=_SEED)
        dense = Dense(at)
        at = replace(at, damping=dense.enough_damping)
        effects = dense.effects(at.damping)
        of_owner = at.valid.users[:, None] == at.samples.users
        size = float(effects.abs().max())
        assert size > 1e-6, "no interaction has any effect"
        found = social_influence(at, settings, _SEED)[0], own_by_groups(at, settings, _SEED)[0]
        expected = effects.sum(0), (effects * of_owner).sum(0)
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4 * size)

    def _tiny_model(self, sizes: Sizes) -> Recommender:
        chosen = self._chosen({})
        kind = model_class(chosen.model)
        fitting = {key: value for key, value in self.tiny.items() if key in kind.Settings.model_fields}
        settings = chosen.model_settings.model_copy(update=fitting)
        model = make_model(kind, sizes, settings, Draws.numbered(sizes, _SEED)).double().eval()
        size = sum(parameter.numel() for parameter in model.parameters())
        if size > _MOST_PARAMETERS:
            pytest.fail(f"{size} parameters are too many for a dense matrix; set `tiny` to smaller settings")
        return model


@cache
def _planted() -> Problem:
    """Return a problem of 120 users with planted tastes for 60 items, without noise."""
    log = simulate(preference="learnable", users=120, items=60, noise=0, seed=0)
    return make_problem(log, "full", negatives=5)


def _popularity_ndcg(problem: Problem) -> Floats:
    """Return NDCG@5 on the test rows for every user, with items ranked by their number of training rows."""
    counts = np.bincount(problem.train.items, minlength=problem.n_items).astype(np.float64)
    scores = np.tile(counts, (problem.n_users, 1))
    for part in (problem.train, problem.valid):
        scores[part.users, part.items] = -np.inf
    relevant = np.zeros(scores.shape, dtype=np.bool_)
    relevant[problem.test.users, problem.test.items] = True
    hits = top_hits(scores, relevant, np.arange(problem.n_users), k=5, seed=0)
    return ranking_metrics(hits, relevant.sum(axis=1))["ndcg"]


def _disclosed_part() -> Disclosed:
    return disclose(*problem_of(split_log(seed=0, share=0.6)))


def _parameters(model: Recommender) -> str:
    """Return a hash of a model's saved state."""
    return _hash(*(value.contiguous().numpy().tobytes() for value in model.state_dict().values()))


def _answers(trained: Trained) -> str:
    """Return a hash of the parameters and of all scores of all users, the unknown included."""
    scores = trained.scores_of_all(torch.arange(len(trained.user_ids) + 1))
    return _hash(_parameters(trained.model).encode(), scores.contiguous().numpy().tobytes())


def _hash(*parts: bytes) -> str:
    return blake2b(b"".join(parts), digest_size=8).hexdigest()


def _half_weighted(data: Disclosed) -> tuple[Evidence, Tensor]:
    """Return evidence in which half of the rows and all of the first user's weigh 0, and which weigh 1."""
    full = evidence_of(data.rows)
    is_kept = torch.from_numpy(np.random.default_rng(0).random(len(data.rows)) < 0.5) & (full.users != 0)
    return Evidence(full.users, full.items, full.weights * is_kept), is_kept


def _outputs(model: Recommender, evidence: Evidence) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores of all items for all users, and logits and penalties of some pairs, given `evidence`."""
    users = torch.arange(model.n_users + 1)
    items = torch.arange(model.n_items + 1).expand(len(users), -1)
    prepared = model.prepare(evidence)
    return model.score_all(users, prepared), *model(users, items[:, ::7], prepared)


def _felt(how: str) -> str:
    return f"a row of weight 0 changes what the model says: {how}"


class KilledError(Exception):
    """Stands for the end of a killed process."""


class Killer:
    """A progress that ends a training after its third epoch."""

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        """Raise after three epochs."""
        done = itertools.count(1)

        def advance() -> None:
            if next(done) == 3:
                raise KilledError

        yield advance


@dataclass(frozen=True)
class Dense:
    """Dense derivatives of a small model at its parameters θ and a selection o.

    First derivatives by θ come from autograd, all others from finite differences.
    """

    at: Linearised

    @cached_property
    def hessian(self) -> Tensor:
        """∂²F/∂θ² without damping: [P, P]."""
        parameters, anchor = list(self.at.model.parameters()), self.at.samples.anchor

        def gradient(theta: Tensor) -> Tensor:
            vector_to_parameters(theta, parameters)
            return self._by_parameters(self.at.training_loss(anchor))

        theta = parameters_to_vector(parameters).detach().clone()
        matrix = _differences(gradient, theta)
        vector_to_parameters(theta, parameters)
        return (matrix + matrix.T) / 2

    @property
    def enough_damping(self) -> float:
        """A damping that makes the Hessian definite."""
        return 1 - 2 * min(0.0, float(torch.linalg.eigvalsh(self.hessian)[0]))

    def effects(self, damping: float) -> Tensor:
        """Return −dL_n/do_k of every validation row: [n, Z]."""
        anchor = self.at.samples.anchor
        mixed = _differences(lambda o: self._by_parameters(self.at.training_loss(o)), anchor)
        direct = _differences(lambda o: self._valid_losses(o).detach(), anchor)
        rows = torch.stack([self._by_parameters(each) for each in self._valid_losses(anchor)])
        damped = self.hessian + damping * torch.eye(len(mixed), dtype=mixed.dtype)
        effects: Tensor = rows @ torch.linalg.solve(damped, mixed) - direct
        return effects

    def _valid_losses(self, o: Tensor) -> Tensor:
        """Return L_n(θ, o) of every validation row: [n]."""
        valid = self.at.valid
        return self.at.loss.of(self.at.model(valid.users, valid.items, self._prepare(o))[0])

    def _prepare(self, o: Tensor) -> Any:
        samples = self.at.samples
        return self.at.model.prepare(Evidence(samples.users, samples.items[:, 0], o))

    def _by_parameters(self, value: Tensor) -> Tensor:
        """Return the gradient of a number by the parameters: [P]."""
        inputs = tuple(self.at.model.parameters())
        found = torch.autograd.grad(value, inputs, retain_graph=True, materialize_grads=True)
        return parameters_to_vector(found)


def _differences(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """Return the derivatives of `function(x)[m]` by every x_k, at x = `at[n]`: [m, n]."""
    steps = _STEP * torch.eye(len(at), dtype=at.dtype)
    return torch.stack([(function(at + s) - function(at - s)) / (2 * _STEP) for s in steps], dim=1)
