import numpy as np
import pytest
import torch

from assent.data.door import assign
from assent.data.problem import make_problem
from assent.data.simulate import simulate
from assent.influence.estimate import own_influence, predicted_losses, social_influence
from assent.influence.inverse import InfluenceSettings
from assent.influence.linearised import Linearised
from assent.lab import Lab, Store
from assent.lab.anchors import linearised, random_anchors
from assent.support.runtime import are_flushed
from assent.training import Settings


@pytest.mark.parametrize("model", ["mf", "neumf"])
def test_influence_does_not_reckon_with_them(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Solutions decay towards 0 where nothing leads: such numbers make a solve several times slower."""
    log = assign(simulate(preference="learnable", users=40, items=30, seed=0), "random", 0)
    problem = make_problem(log, "paper-tables", seed=0, negatives=5)
    chosen = Settings.model_validate({"model": model, "training": {"epochs": 2}})
    lab, settings = Lab(problem, chosen, 0, Store.temporary()), InfluenceSettings()
    [anchor] = random_anchors(lab, 1, rate=0.9)
    at = linearised(lab, anchor, lab.train([anchor])[0], settings)
    kind, seen = type(at), []
    of_rows = kind.along

    def watch(self: Linearised, x: torch.Tensor) -> torch.Tensor:
        seen.append(are_flushed())
        return of_rows(self, x)

    monkeypatch.setattr(kind, "along", watch)
    social_influence(at, settings, 0)
    if model != "mf":  # which solves for stars
        own_influence(at, settings, 0)
    assert seen
    assert all(seen)
    everything = np.ones((1, len(problem.train)), dtype=np.bool_)
    assert np.isfinite(predicted_losses(at, everything, settings, 0)).all()
    assert not are_flushed()
