"""What influence costs, against training one anchor: for every model, and with the game for MF.

python benchmarks/bench_influence_cost.py [MODEL ...]
"""

import sys
from collections.abc import Callable
from functools import partial

from assent.settings import Settings
from assent.workbench import Workbench

from assent.game.estimates import Objective
from assent.game.solve import solve
from assent.influence.estimate import own_influence, social_influence
from assent.models import MODELS
from common import PAPERS_GAME, load, seconds, verdict

DATA = ("diginetica", "steam", "amazon_video_games")


def game_cost(name: str) -> None:
    """MF: influence at all anchors plus the game, against training one anchor."""
    bench = Workbench(load(name), Settings(value=PAPERS_GAME), seed=0)
    anchors = bench.settings.anchors
    bench.anchor(0)  # warms up
    training = seconds(lambda: bench.anchor(anchors - 1)) / (anchors - 1)
    influence = seconds(lambda: bench.estimates(anchors))
    estimates = bench.estimates(anchors)
    for objective in Objective:
        total = influence + seconds(partial(solve, estimates, objective=objective, price=0.1))
        verdict(f"{name}, mf, {anchors} anchors + {objective} game / training one", total / training, 1, "")


def model_cost(name: str, model: str) -> None:
    """Own and social influence of all interactions at one anchor, against training it."""
    settings = Settings.model_validate({"model": model, "value": PAPERS_GAME.model_dump()})
    bench = Workbench(load(name), settings, seed=0)
    bench.anchor(0)  # warms up
    training = seconds(lambda: bench.anchor(1))
    for level, compute, limit in (("social", social_influence, 1), ("own", own_influence, 5)):
        took = seconds(partial(_influence, compute, bench))
        verdict(f"{name}, {model}, {level} / training", took / training, limit, "")


def _influence(compute: Callable[..., object], bench: Workbench) -> None:
    compute(bench.linearise(1), bench.settings.influence, 0)


if __name__ == "__main__":
    chosen = sys.argv[1:] or list(MODELS)
    for data in DATA:
        if "mf" in chosen:
            game_cost(data)
        for each in chosen:
            model_cost(data, each)
