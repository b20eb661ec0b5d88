"""Tests of everything that a recommender must do, to subclass under pytest."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from assent.data.problem import make_problem
from assent.data.simulate import simulate
from assent.evaluation.evaluate import evaluate, ranked_metrics
from assent.influence.estimate import linearise, own_by_groups, social_influence
from assent.influence.inverse import InfluenceSettings
from assent.influence.linearised import Linearised
from assent.models import Evidence, Recommender, Sizes, model_class
from assent.models.checks import check_contract, make_model
from assent.testing.subject import (
    CHANGES,
    Change,
    KilledError,
    Killer,
    Subject,
    answers,
    disclosed_part,
    everything,
    half_weighted,
    outputs,
    parameters,
    planted_problem,
    popularity_ndcg,
    problem_of,
    split_log,
)
from assent.training import Trained, disclose
from assent.training.stored import evidence_of, load, save

_STEP = 1e-4
"""Step of the finite differences, whose error is of second order."""
_MOST_PARAMETERS = 3000
"""Parameters for which a dense matrix takes a few seconds."""
_SEED = 0
_LOTS = itertools.count()
"""Seeds of changes of withheld rows: no two changes are the same, so a model cannot remember them."""


class RecommenderContract(Subject):
    """Subclass it as `Test...` and set `model`: pytest then runs the tests below on that recommender.

    Set a test to None in the subclass if the model breaks it on purpose.
    """

    tiny: ClassVar[Mapping[str, Any]] = {"dimension": 3}
    """Settings that make the model small enough for dense matrices; unknown names are ignored."""

    def test_methods_give_what_they_should(self) -> None:
        """Shapes, types, finite values and gradients; score_all equals forward; also without any rows."""
        data = disclose(planted_problem(), everything(planted_problem()))
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
        problem = planted_problem()
        gain = ranked_metrics(problem, self.learnt()[0])["ndcg"] - popularity_ndcg(problem)
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        advice = "set `training` if it needs more epochs"
        assert gain.mean() > 3 * error, (
            f"NDCG@5 is {gain.mean():+.3f} ± {error:.3f} above popularity; {advice}"
        )

    def test_the_same_seed_gives_the_same_bytes(self) -> None:
        """Other draws from torch's generator in between change nothing."""
        data = disclosed_part()
        first = answers(self.quickly(data))
        torch.rand(3)
        assert answers(self.quickly(data)) == first, "something is drawn from elsewhere than the seed"

    def test_another_seed_starts_elsewhere(self) -> None:
        """`initialise` draws from the generator that it is given."""
        first, again, other = (parameters(self.initial(seed)) for seed in (0, 0, 1))
        assert first == again, "initialise draws from elsewhere than its generator"
        assert first != other, "initialise does not draw from its generator"

    def test_finishing_twice_changes_nothing(self) -> None:
        """`finish` depends on the trained parameters alone, since it is called many times."""
        model = self.learnt()[0].model
        before = parameters(model)
        model.finish()
        assert parameters(model) == before

    def test_a_saved_model_scores_the_same(self, tmp_path: Path) -> None:
        """The scores depend on nothing but parameters, settings and evidence."""
        trained = self.learnt()[0]
        save(trained, tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert answers(loaded) == answers(trained)
        assert loaded.model.settings == trained.model.settings

    def test_a_resumed_training_ends_with_the_same_bytes(self, tmp_path: Path) -> None:
        """Training depends on no state but the parameters."""
        data = disclosed_part()
        with pytest.raises(KilledError):
            self.quickly(data, progress=Killer(), path=tmp_path / "progress")
        assert answers(self.quickly(data, path=tmp_path / "progress")) == answers(self.quickly(data))

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
        evidence, is_kept = half_weighted(data)
        absent = Evidence(evidence.users[is_kept], evidence.items[is_kept], evidence.weights[is_kept])
        full = evidence_of(data.rows)
        found, expected, whole = (outputs(trained.model, each) for each in (evidence, absent, full))
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
            evidence, _ = half_weighted(data)
            evidence.weights.requires_grad_()
            (gradient,) = torch.autograd.grad(outputs(trained.model, evidence)[0].sum(), evidence.weights)
            assert gradient.isfinite().all(), "the gradient by the weights is not finite"
            assert gradient.any(), "the weights change no score"

    def test_scoring_draws_no_random_numbers(self) -> None:
        """Dropout and the like are off: the same call gives the same scores."""
        trained, data = self.learnt()
        assert not trained.model.training
        first, again = (outputs(trained.model, evidence_of(data.rows)) for _ in range(2))
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(first, again, strict=True))

    def test_influence_is_the_dense_implicit_derivative(self) -> None:
        """Own and social influence equal the implicit derivative with a dense Hessian.

        −dL/do_k = ∇_θLᵀ H⁻¹ ∂²F/∂θ∂o_k − ∂L/∂o_k
        """
        log = simulate(preference="learnable", users=5, items=20, seed=_SEED)
        problem = make_problem(log, "paper-tables", negatives=2)
        model = self._tiny_model(
            len(problem.user_ids), len(np.unique(problem.train.items)), len(problem.train)
        )
        # With shares of interactions, sums are not integers, where a model may have a kink.
        anchor = np.random.default_rng(_SEED).uniform(0.1, 0.9, len(problem.train))
        items = problem.item_ids[np.unique(problem.train.items)]
        trained = Trained(model, problem.user_ids, items, _SEED, 1, None)

        def linearised(settings: InfluenceSettings) -> Linearised:
            return linearise(problem, anchor, trained, negatives=1, settings=settings, seed=_SEED)

        exact = {"truncation": 5000, "tolerance": 1e-11, "draws": 1, "groups": len(problem.user_ids)}
        dense = Dense(model, linearised(InfluenceSettings.model_validate(exact)), InfluenceSettings())
        settings = InfluenceSettings.model_validate({**exact, "damping": dense.enough_damping})
        at = linearised(settings)
        found = {
            "social": social_influence(at, settings, _SEED)[0],
            "own": own_by_groups(at, settings, _SEED)[0],
        }
        effects = dense.effects(settings.damping)
        owners, judged = dense.at.samples.users, dense.at.valid.users
        own = torch.stack([effects[judged == owner, k].sum() for k, owner in enumerate(owners)])
        size = float(effects.abs().max())
        assert size > 1e-6, "no interaction has any effect"
        torch.testing.assert_close(found["social"], effects.sum(0), rtol=1e-3, atol=1e-4 * size)
        torch.testing.assert_close(found["own"], own, rtol=1e-3, atol=1e-4 * size)

    def _tiny_model(self, n_users: int, n_items: int, n_rows: int) -> Recommender:
        chosen = self._chosen({})
        kind = model_class(chosen.model)
        fitting = {key: value for key, value in self.tiny.items() if key in kind.Settings.model_fields}
        settings = chosen.model_settings.model_copy(update=fitting)
        model = make_model(kind, Sizes(n_users, n_items, n_rows, 1), settings, _SEED).double().eval()
        size = sum(parameter.numel() for parameter in model.parameters())
        if size > _MOST_PARAMETERS:
            pytest.fail(f"{size} parameters are too many for a dense matrix; set `tiny` to smaller settings")
        return model


def _felt(how: str) -> str:
    return f"a row of weight 0 changes what the model says: {how}"


@dataclass(frozen=True)
class Dense:
    """Dense derivatives of a small model at its parameters θ and a selection o.

    First derivatives by θ come from autograd, all others from finite differences.
    """

    model: Recommender
    at: Linearised
    settings: InfluenceSettings

    @cached_property
    def hessian(self) -> Tensor:
        """∂²F/∂θ² without damping: [P, P]."""
        theta, o = self._theta(), self.at.samples.anchor
        columns = []
        for place in range(len(theta)):
            move = torch.zeros_like(theta)
            move[place] = _STEP
            rise = self._gradient(self._training_loss, theta + move, o)
            columns.append((rise - self._gradient(self._training_loss, theta - move, o)) / (2 * _STEP))
        self._set(theta)
        matrix = torch.stack(columns, dim=1)
        return (matrix + matrix.T) / 2

    @property
    def enough_damping(self) -> float:
        """A damping that makes the Hessian definite."""
        return 1 - 2 * min(0.0, float(torch.linalg.eigvalsh(self.hessian)[0]))

    def effects(self, damping: float) -> Tensor:
        """Return −dL_n/do_k of every validation row: [n, Z]."""
        theta, o = self._theta(), self.at.samples.anchor
        mixed = self._by_selection(lambda at: self._gradient(self._training_loss, theta, at), o)
        direct = self._by_selection(lambda at: self._valid_losses(at).detach(), o)
        rows = [self._gradient(partial(self._valid_loss, n), theta, o) for n in range(len(direct))]
        damped = self.hessian + damping * torch.eye(len(theta), dtype=theta.dtype)
        effects: Tensor = torch.stack(rows) @ torch.linalg.solve(damped, mixed) - direct
        return effects

    def _by_selection(self, function: Callable[[Tensor], Tensor], o: Tensor) -> Tensor:
        """Return the derivative of `function(o)[m]` by every o_k: [m, Z]."""
        columns = []
        for k in range(len(o)):
            more, less = o.clone(), o.clone()
            more[k] += _STEP
            less[k] -= _STEP
            columns.append((function(more) - function(less)) / (2 * _STEP))
        return torch.stack(columns, dim=1)

    def _training_loss(self, o: Tensor) -> Tensor:
        """Return F(θ, o) = Σ_k o_k ℓ_k(θ, o)."""
        samples = self.at.samples
        losses = self.model.losses(samples.users, samples.items, self._prepare(o))
        return o @ (losses @ samples.weights)

    def _valid_losses(self, o: Tensor) -> Tensor:
        """Return L_n(θ, o) of every validation row: [n]."""
        valid = self.at.valid
        return self.settings.loss.of(self.model(valid.users, valid.items, self._prepare(o))[0])

    def _valid_loss(self, n: int, o: Tensor) -> Tensor:
        return self._valid_losses(o)[n]

    def _prepare(self, o: Tensor) -> Any:
        samples = self.at.samples
        return self.model.prepare(Evidence(samples.users, samples.items[:, 0], o))

    def _gradient(self, function: Callable[[Tensor], Tensor], theta: Tensor, o: Tensor) -> Tensor:
        """Return the gradient of `function(o)` by the parameters, at `theta`: [P]."""
        self._set(theta)
        parameters = tuple(self.model.parameters())
        found = torch.autograd.grad(function(o), parameters, allow_unused=True)
        return torch.cat(
            [
                (torch.zeros_like(like) if part is None else part).flatten()
                for part, like in zip(found, parameters, strict=True)
            ]
        )

    def _theta(self) -> Tensor:
        return torch.nn.utils.parameters_to_vector(self.model.parameters()).detach().clone()

    def _set(self, theta: Tensor) -> None:
        torch.nn.utils.vector_to_parameters(theta, self.model.parameters())
