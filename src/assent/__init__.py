"""assent: recommendation that asks before it uses.

The way of the data, in the order in which these names are met:

    read_interactions → assign (unwillingness) → make_problem → Workbench → make_method → final → evaluate
"""

from assent.data.interactions import Interactions
from assent.data.problem import Problem, Protocol
from assent.data.readers import from_frame, read_interactions
from assent.data.rules import read_wishes
from assent.data.simulate import simulate
from assent.data.split import make_problem, make_problem_from_parts
from assent.data.unwillingness import assign
from assent.data.wishes import Wishes
from assent.evaluation.evaluate import HeldOut, evaluate
from assent.game.estimates import Objective
from assent.game.prices import break_even_prices, price_path
from assent.methods import METHODS, Choice, Method, make_method
from assent.models import MODELS, Recommender
from assent.runs.compare import compare
from assent.runs.frontier import frontier
from assent.runs.lds import LdsPlan, predict_orders
from assent.runs.run import Run, RunPlan, fit, open_run
from assent.settings import Settings
from assent.support.errors import AssentError
from assent.training import Trained
from assent.workbench import Workbench

__all__ = [
    "METHODS",
    "MODELS",
    "AssentError",
    "Choice",
    "HeldOut",
    "Interactions",
    "LdsPlan",
    "Method",
    "Objective",
    "Problem",
    "Protocol",
    "Recommender",
    "Run",
    "RunPlan",
    "Settings",
    "Trained",
    "Wishes",
    "Workbench",
    "assign",
    "break_even_prices",
    "compare",
    "evaluate",
    "fit",
    "from_frame",
    "frontier",
    "make_method",
    "make_problem",
    "make_problem_from_parts",
    "open_run",
    "predict_orders",
    "price_path",
    "read_interactions",
    "read_wishes",
    "simulate",
]
