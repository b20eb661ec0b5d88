"""What every recommender has to do, as tests under pytest."""

import itertools
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

from assent.evaluation.evaluate import evaluate, ranked_metrics
from assent.models import Evidence, Sizes
from assent.models.checks import check_contract
from assent.testing.influence import InfluenceContract
from assent.testing.subject import (
    CHANGES,
    Change,
    KilledError,
    Killer,
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
from assent.training import checkpoint, disclose
from assent.training.stored import evidence_of, load, save

_LOTS = itertools.count()
"""Changes of withheld rows are never the same: a model that remembers them cannot have seen them all."""


class RecommenderContract(InfluenceContract):
    """Subclass it as `Test...`, set `model`, and pytest runs the tests below on that recommender.

    Set a test to None in the subclass if your model breaks it on purpose.
    """

    def test_methods_give_what_they_should(self) -> None:
        """Shapes, types, finite values, gradients; score_all is forward; also where little is known."""
        data = disclose(planted_problem(), everything(planted_problem()))
        check_contract(self.initial(), evidence_of(data.rows))
        for users, items in ((0, 0), (1, 1), (2, 30), (30, 2)):
            model = self.initial(sizes=Sizes(users, items, 0, 1))
            check_contract(model, evidence_of(data.rows[:0]))

    def test_a_trained_model_still_gives_what_it_should(self) -> None:
        """The same after training."""
        trained, data = self.learnt()
        check_contract(trained.model, evidence_of(data.rows))

    def test_it_learns_more_than_popularity(self) -> None:
        """Planted tastes are found: NDCG@5 on test rows is above popularity's by 3 standard errors."""
        problem = planted_problem()
        gain = ranked_metrics(problem, self.learnt()[0])["ndcg"] - popularity_ndcg(problem)
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        advice = "set `training` if it needs more epochs"
        assert gain.mean() > 3 * error, (
            f"NDCG@5 is {gain.mean():+.3f} ± {error:.3f} above popularity; {advice}"
        )

    def test_the_same_seed_gives_the_same_bytes(self) -> None:
        """Whatever else has drawn random numbers in between."""
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
        """`finish` takes the trained parameters alone: it is called at every look at the validation rows."""
        model = self.learnt()[0].model
        before = parameters(model)
        model.finish()
        assert parameters(model) == before

    def test_a_saved_model_scores_the_same(self, tmp_path: Path) -> None:
        """Everything that the scores depend on is in the parameters, the settings and the evidence."""
        trained = self.learnt()[0]
        save(trained, tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert answers(loaded) == answers(trained)
        assert loaded.model.settings == trained.model.settings

    def test_a_resumed_training_ends_with_the_same_bytes(self, tmp_path: Path) -> None:
        """Everything that training depends on is in the parameters: nothing is counted elsewhere."""
        data = disclosed_part()
        with patch.object(checkpoint, "_SECONDS_BETWEEN_SAVES", 0), pytest.raises(KilledError):
            self.quickly(data, progress=Killer(), path=tmp_path / "progress")
        assert answers(self.quickly(data, path=tmp_path / "progress")) == answers(self.quickly(data))

    def test_unknown_users_and_items_are_scored(self) -> None:
        """Index n_users and n_items: finite, and the same in forward and in score_all."""
        trained, data = self.learnt()
        users = torch.tensor([0, data.n_users])
        scores = trained.scores_of_all(users)
        assert scores.isfinite().all()
        every = torch.arange(data.n_items + 1).expand(2, -1)
        torch.testing.assert_close(trained.scores(users, every), scores, rtol=1e-4, atol=1e-4)

    def test_a_user_who_withholds_everything_is_served(self) -> None:
        """Nothing is known of her in a final model; an anchor knows her without an interaction."""
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
        """Change withheld rows, train again: files and scores are the same, byte by byte.

        Before each final model one is trained on all rows, as methods do: nothing of it may live on.
        """
        table = split_log(seed=0, share=0.6)
        changed = change(table, np.random.default_rng(next(_LOTS)))
        before = self.final(table, tmp_path / "before")
        after = self.final(changed, tmp_path / "after")
        assert before == after, f"{change.__name__}: the final model knows of withheld rows"

    def test_evidence_of_weight_0_is_absent(self) -> None:
        """A row of weight 0 gives the logits and penalties that the same evidence gives without the row."""
        trained, data = self.learnt()
        evidence, is_kept = half_weighted(data)
        absent = Evidence(evidence.users[is_kept], evidence.items[is_kept], evidence.weights[is_kept])
        full = evidence_of(data.rows)
        found, expected, whole = (outputs(trained.model, each) for each in (evidence, absent, full))
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4, msg=_felt)
        if trained.model.reads_evidence:
            assert not torch.equal(found[0], whole[0]), "prepare is given, but what it reads changes no score"

    def test_scores_can_be_differentiated_by_the_weights_of_evidence(self) -> None:
        """Where rows weigh 1 and where they weigh 0, also for a user all of whose rows weigh 0."""
        trained, data = self.learnt()
        if trained.model.reads_evidence:
            evidence, _ = half_weighted(data)
            evidence.weights.requires_grad_()
            (gradient,) = torch.autograd.grad(outputs(trained.model, evidence)[0].sum(), evidence.weights)
            assert gradient.isfinite().all(), "the gradient by the weights is not finite"
            assert gradient.any(), "the weights change no score"

    def test_scoring_draws_no_random_numbers(self) -> None:
        """Dropout and the like are off: the same question has the same answer."""
        trained, data = self.learnt()
        assert not trained.model.training
        first, again = (outputs(trained.model, evidence_of(data.rows)) for _ in range(2))
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(first, again, strict=True))


def _felt(how: str) -> str:
    return f"a row of weight 0 changes what the model says: {how}"
