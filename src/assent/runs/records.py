"""From a choice and its model to a flat record of figures, and to the certificate of a run."""

from collections.abc import Mapping, Sequence
from typing import Any

from assent.evaluation.evaluate import evaluate, validation_losses
from assent.evaluation.metrics import RewardForm
from assent.game.certificate import wishes_broken, with_truth
from assent.game.players import players_of
from assent.lab.anchors import loss_weights
from assent.lab.lab import Lab
from assent.methods import REFERENCES, Choice, GameMethod, Method, influence_settings
from assent.support.errors import AssentError
from assent.training import Trained

FIGURES = (
    "violation",
    "violation_share",
    "reward_sum",
    "reward_mean",
    "precision",
    "recall",
    "f1",
    "ndcg",
    "mrr",
    "hit",
    "seconds",
    "trainings",
)
"""The keys of a record that are measured; the others say what was measured."""
DEAREST = 1e100
"""The largest price: rewards stay finite."""


def check_price(price: float) -> None:
    """Refuse a price at which nothing can be decided or written down."""
    if not 0 <= price <= DEAREST:
        raise AssentError(f"price {price:g}: accepted: a number from 0 to {DEAREST:g}")


def record(
    lab: Lab,
    method: Method,
    choice: Choice,
    trained: Trained,
    *,
    price: float,
    k: Sequence[int] = (5,),
    point: float | None = None,
) -> dict[str, Any]:
    """Evaluate a method's model: dataset, model, method, objective, price, seed, then the `FIGURES`.

    `seconds` and `trainings` are those of all that the choice rests on and of the final training, whoever
    computed them. `price` is that of the rewards; `decision_price` the one at which the method decided, where
    it knows one; `point` the budget as a share of All's violation, where it had one. All records have all
    keys.
    """
    cost = choice.cost + trained.cost
    return {
        "dataset": lab.problem.name,
        "model": lab.settings.model,
        "method": method.name,
        "objective": method.plays_for,
        "price": price,
        "seed": lab.seed,
        "k": k[0],
        **evaluate(lab.problem, trained, choice.selection, price=price, k=k, progress=lab.progress),
        "seconds": cost.seconds,
        "trainings": cost.trainings,
        "decision_price": choice.price if method.plays_for else None,
        "point": point,
    }


def certificate_of(
    lab: Lab, method: Method, choice: Choice, trained: Trained, price: float
) -> dict[str, Any]:
    """Return a choice's certificate with the true reward of its model and how many wishes it breaks.

    The reward is in the loss and form that the method plays for (`reward_loss`, `reward_form`). It counts the
    price of the decision where there is one, else `price`.
    """
    model, form = lab.settings.model, getattr(method, "reward", RewardForm.SUM)
    influence = method.influence_for(model) if isinstance(method, GameMethod) else influence_settings(model)
    players = players_of(lab.problem)
    costs = lab.problem.wishes.cost(players.paid(choice.selection))
    losses = validation_losses(lab.problem, trained, influence.loss) * loss_weights(lab, form)
    at = price if choice.price is None else choice.price
    certificate = with_truth(choice.certificate, losses, costs, at)
    certificate |= {"reward_loss": influence.loss.value, "reward_form": form.value}
    return certificate | wishes_broken(players, choice.selection)


def merged(
    records: Sequence[Mapping[str, Any]], compared: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the records of a run and of its frontier, each model once.

    All and Nothing decide the same with and without a budget: where the frontier has measured them for a
    seed, its record, which has a point, replaces the run's.
    """

    def model(of: Mapping[str, Any]) -> tuple[Any, Any]:
        return of["method"], of["seed"]

    measured = {model(each) for each in compared if each["method"] in REFERENCES}
    return [dict(each) for each in records if model(each) not in measured] + [dict(each) for each in compared]
