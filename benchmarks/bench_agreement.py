"""How far two anchors agree on what interactions are worth: the correlation of influence between them.

Anchors differ by a tenth of their rows; what they disagree on is noise of the estimate. The loss and the
damping of the default were chosen with this and with `assent lds`.
"""

import itertools

import numpy as np
from assent.settings import Settings
from assent.workbench import Workbench

from assent.influence.settings import InfluenceSettings
from assent.models.losses import Loss
from common import PAPERS_GAME, load

if __name__ == "__main__":
    for name in ("diginetica", "steam", "amazon_video_games"):
        trained = Workbench(load(name), Settings(value=PAPERS_GAME), seed=0)
        for loss, damping in itertools.product(Loss, (0.05, 0.5)):
            settings = Settings(influence=InfluenceSettings(loss=loss, damping=damping), value=PAPERS_GAME)
            bench = Workbench(trained.problem, settings, seed=0, _anchors=[trained.anchor(t) for t in (0, 1)])
            found = bench.estimates(2)
            own, social = (np.corrcoef(*values)[0][1] for values in (found.own, found.social))
            print(f"{name}, {loss} loss, damping {damping}: own {own:.2f}, social {social:.2f}")
