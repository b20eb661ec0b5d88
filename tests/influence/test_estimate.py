from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from assent.errors import AssentError
from assent.evaluation import validation_losses
from assent.influence.estimate import (
    Estimator,
    InfluenceSettings,
    influence,
    inverse_product,
    prepare,
    valid_gradient,
)
from assent.losses import Loss
from assent.models import MF
from influence.cases import CASES, STAR_CASES, Case, Oracle, learnable_case, settled_case

both_losses = pytest.mark.parametrize("loss", Loss)
every_case = pytest.mark.parametrize("case", CASES, ids=str)
