import numpy as np
import pytest
import torch
from assent.settings import Settings
from assent.workbench import Workbench

from assent.data.simulate import simulate
from assent.data.split import make_problem
from assent.data.unwillingness import assign
from assent.influence.estimate import own_influence, predicted_losses, social_influence
from assent.influence.linearised import Linearised
from assent.support.runtime import are_flushed


@pytest.mark.parametrize("model", ["mf", "neumf"])
def test_influence_does_not_reckon_with_them(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Solutions decay towards 0 where nothing leads: such numbers make a solve several times slower."""
    log = assign(simulate(preference="learnable", users=40, items=30, seed=0), "random", 0)
    settings = Settings.model_validate(
        {"model": model, "training": {"epochs": 2}, "value": {"source": "influence"}}
    )
    bench = Workbench(make_problem(log, "paper-tables", seed=0, negatives=5), settings, seed=0)
    linearised = bench.linearise(0)
    kind, seen = type(linearised), []
    of_rows = kind.along

    def watch(self: Linearised, x: torch.Tensor) -> torch.Tensor:
        seen.append(are_flushed())
        return of_rows(self, x)

    monkeypatch.setattr(kind, "along", watch)
    social_influence(linearised, settings.linearisation, 0)
    if model != "mf":  # which solves for stars
        own_influence(linearised, settings.linearisation, 0)
    assert seen
    assert all(seen)
    everything = np.ones((1, len(bench.problem.train)), dtype=np.bool_)
    assert np.isfinite(predicted_losses(linearised, everything, settings.linearisation, 0)).all()
    assert not are_flushed()
