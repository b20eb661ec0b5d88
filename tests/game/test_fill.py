import numpy as np
import pytest

from assent.data.wishes import Wishes
from assent.game.players import Players, by_score, floors_alone
from assent.support.errors import AssentError

OWNERS = np.array([0, 0, 0, 1, 1, 1])
UNWILLINGNESS = np.array([0.5, 0.25, 0.25, 0.75, 0.5, 0.125])
SCORES = np.array([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])


def people(wishes: Wishes) -> Players:
    return Players(OWNERS, 2, UNWILLINGNESS, 0.0, wishes)


def test_the_highest_scores_come_first_and_own_budgets_are_kept() -> None:
    chosen = by_score(people(Wishes(budget=np.array([0.75, np.inf]))), SCORES)
    assert chosen.tolist() == [True, True, False, True, True, True]
    chosen = by_score(people(Wishes(budget=np.array([0.75, np.inf]))), SCORES, allowed=1.5)
    assert chosen.tolist() == [True, True, False, True, False, False]
    chosen = by_score(people(Wishes(budget=np.array([0.75, 0.7]))), SCORES, least=3)
    assert chosen.tolist() == [True, True, False, False, False, False]


def test_floors_come_first_with_what_is_minded_least() -> None:
    wishes = Wishes(floor=np.array([1, 2]))
    alone = floors_alone(people(wishes))
    assert alone.sum() == 3
    assert UNWILLINGNESS[alone].sum() == 0.875
    assert alone[[4, 5]].all()
    chosen = by_score(people(wishes), SCORES, allowed=1.4)
    assert chosen[[0, 4, 5]].all()
    with pytest.raises(AssentError, match=r"budget 0.211: everybody's floor alone discloses 0.368 of All's"):
        by_score(people(wishes), SCORES, allowed=0.5)


def test_what_belongs_together_is_taken_or_left_together() -> None:
    wishes = Wishes(groups=np.array([0, 0, 1, 2, 3, 3]))
    chosen = by_score(people(wishes), SCORES, allowed=1.0)
    assert chosen.tolist() == [True, True, True, False, False, False]
