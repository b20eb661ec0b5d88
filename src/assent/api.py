"""The public names of assent, in the order in which they are used:

read_interactions (with unwillingness) → make_problem → Lab → make_method → Training → evaluate
"""

from assent.data.door import assign
from assent.data.interactions import Interactions
from assent.data.live import live_problem
from assent.data.problem import Problem, Protocol, make_problem, make_problem_from_parts
from assent.data.readers import from_frame, read_interactions
from assent.data.rules import read_wishes
from assent.data.simulate import simulate
from assent.data.wishes import Wishes
from assent.evaluation.evaluate import HeldOut, evaluate
from assent.game.budget import Budget
from assent.game.estimates import Objective
from assent.game.prices import break_even_prices, price_path
from assent.lab import Lab, Processes, Store, Training
from assent.lab.tuning import tuned
from assent.methods import METHODS, Choice, Method, make_method
from assent.models import MODELS, Recommender
from assent.runs.changes import Changes
from assent.runs.compare import compare, frontier, parse_methods
from assent.runs.drift import Drift, drift
from assent.runs.export import export
from assent.runs.folder import Run, open_run
from assent.runs.lds import LdsPlan, predict_orders
from assent.runs.plan import RunPlan
from assent.runs.prompt import Vectors, prompt_update
from assent.runs.recommend import write_recommendations
from assent.runs.run import fit
from assent.runs.served import Applied, Served
from assent.runs.verify import Finding, verify
from assent.support.errors import AssentError
from assent.training import Settings, Trained

__all__ = [
    "METHODS",
    "MODELS",
    "Applied",
    "AssentError",
    "Budget",
    "Changes",
    "Choice",
    "Drift",
    "Finding",
    "HeldOut",
    "Interactions",
    "Lab",
    "LdsPlan",
    "Method",
    "Objective",
    "Problem",
    "Processes",
    "Protocol",
    "Recommender",
    "Run",
    "RunPlan",
    "Served",
    "Settings",
    "Store",
    "Trained",
    "Training",
    "Vectors",
    "Wishes",
    "assign",
    "break_even_prices",
    "compare",
    "drift",
    "evaluate",
    "export",
    "fit",
    "from_frame",
    "frontier",
    "live_problem",
    "make_method",
    "make_problem",
    "make_problem_from_parts",
    "open_run",
    "parse_methods",
    "predict_orders",
    "price_path",
    "prompt_update",
    "read_interactions",
    "read_wishes",
    "simulate",
    "tuned",
    "verify",
    "write_recommendations",
]
