"""The table of small problems that all of influence is tested on, and dense oracles for each of them.

The oracles know a model by its `forward` and the losses by `assent.losses`; the rest is automatic
differentiation and dense linear algebra in double precision.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, jacfwd, jacrev

from assent.arrays import Bools, Ints
from assent.data.problem import Problem, Protocol, Rows
from assent.data.simulator import simulate
from assent.data.split import make_problem
from assent.influence.curvature import Curvature
from assent.influence.estimate import Estimator, InfluenceSettings, prepare
from assent.influence.samples import TrainSamples, ValidSamples
from assent.losses import Loss, sample_losses
from assent.models import MF, MFSettings, Sizes
from assent.settings import Settings
from assent.training import Trained, TrainingSettings
from assent.workbench import Workbench


@dataclass(frozen=True, eq=False)
class Case:
    """A problem, an anchor and a model in double precision, with what `prepare` asks for besides."""

    name: str
    problem: Problem
    anchor: Bools
    trained: Trained
    negatives: int
    draws: int
    seed: int = 0

    @property
    def model(self) -> MF:
        assert isinstance(self.trained.model, MF)
        return self.trained.model

    @property
    def arguments(self) -> dict[str, Any]:
        """What `influence`, `prepare`, `Predictor.at` and `effect_matrix` take besides the settings."""
        return {
            "problem": self.problem,
            "anchor": self.anchor,
            "trained": self.trained,
            "negatives": self.negatives,
            "seed": self.seed,
        }

    def settings(self, estimator: Estimator, **changes: Any) -> InfluenceSettings:
        """Settings with which every solver runs to the end; no default is relied on."""
        values: dict[str, Any] = {
            "estimator": estimator,
            "loss": Loss.PAIRWISE,
            "damping": 0.1,
            "draws": self.draws,
            "truncation": 2000,
            "tolerance": 1e-12,
            "iterations": 2000,
            "lissa_steps": 20,
        }
        return InfluenceSettings(**values | changes)

    def oracle(self, settings: InfluenceSettings) -> "Oracle":
        """What `prepare` gives for these settings, with dense derivatives of it."""
        known_users = np.unique(self.problem.train.users)
        return Oracle(*prepare(**self.arguments, settings=settings), settings, known_users)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Oracle:
    """Dense derivatives at the parameters θ of a curvature's model: P = (n_users + n_items) d numbers."""

    curvature: Curvature
    valid: ValidSamples
    settings: InfluenceSettings
    known_users: Ints
    """The problem's index of each user of the model."""

    @property
    def model(self) -> MF:
        return self.curvature.model

    @property
    def samples(self) -> TrainSamples:
        return self.curvature.samples

    @property
    def theta(self) -> Tensor:
        """The embeddings of the known users, then those of the known items: [P]."""
        users, items = self.model.user_table.detach(), self.model.item_table.detach()
        return torch.cat([users[:-1], items[:-1]]).flatten()

    def train_losses(self, theta: Tensor) -> Tensor:
        """ℓ_k of every training row: [Z]."""
        return sample_losses(*self._train_forward(theta)) @ self.samples.weights

    def anchor_loss(self, theta: Tensor) -> Tensor:
        """F = Σ_k õ_k ℓ_k."""
        return self.samples.anchor @ self.train_losses(theta)

    def valid_losses(self, theta: Tensor) -> Tensor:
        """L of every validation row: [n]."""
        return self.settings.loss.of(self._forward(theta, self.valid.users, self.valid.items)[0])

    def sum_per_user(self, rows: Tensor) -> Tensor:
        """Sum `rows[n, ...]` of the validation rows over their owners: [problem users, ...]."""
        return rows.new_zeros(self.valid.n_users, *rows.shape[1:]).index_add_(0, self.valid.owners, rows)

    @cached_property
    def train_gradients(self) -> Tensor:
        """∇ℓ_k of every training row: [Z, P]."""
        return jacobian(self.train_losses, self.theta)

    @cached_property
    def user_gradients(self) -> Tensor:
        """∇L_u of every user of the problem: [problem users, P]."""
        return self.sum_per_user(jacobian(self.valid_losses, self.theta))

    @cached_property
    def matrix(self) -> Tensor:
        """The Gauss-Newton matrix for the estimator of that name, else the Hessian; with damping: [P, P]."""
        is_gauss_newton = self.settings.estimator is Estimator.GAUSS_NEWTON
        return self.gauss_newton() if is_gauss_newton else self.hessian()

    def hessian(self) -> Tensor:
        """∇²F + damping."""
        return hessian(self.anchor_loss, self.theta) + self._damping()

    def gauss_newton(self) -> Tensor:
        """Jᵀ W J of the logits, with W the second derivatives of the losses by them, + ridge."""

        def logits(theta: Tensor) -> Tensor:
            return self._train_forward(theta)[0].flatten()

        sigma = torch.sigmoid(logits(self.theta))
        weights = (self.samples.anchor[:, None] * self.samples.weights).flatten()
        J = jacobian(logits, self.theta)
        return J.T @ ((weights * sigma * (1 - sigma)).unsqueeze(1) * J) + self.ridge()

    def ridge(self) -> Tensor:
        """The Hessian of the penalties + damping."""

        def penalty(theta: Tensor) -> Tensor:
            return self.samples.anchor @ self._train_forward(theta)[1] @ self.samples.weights

        return hessian(penalty, self.theta) + self._damping()

    def star(self, user: int) -> Tensor:
        """H⁻¹ ∇_{p_u} L_u in the star around a user of the model, 0 outside of it: [P].

        Of H it has the rows and columns of p_u and of the items of her samples; an item's block is diagonal.
        """
        items = torch.from_numpy(np.unique(self.samples.items[self.samples.users == user]))
        own, others = self.places(torch.tensor([user])), self.places(self.model.n_users + items)
        places = torch.cat([own, others])
        system = self.matrix[places][:, places]
        system[len(own) :, len(own) :] = torch.diag(self.matrix.diagonal()[others])
        b = torch.zeros(len(places), dtype=system.dtype)
        b[: len(own)] = self.user_gradients[self.known_users[user], own]
        x = torch.zeros_like(self.theta)
        x[places] = torch.linalg.solve(system, b)
        return x

    def places(self, rows: Tensor) -> Tensor:
        """Where the numbers of some rows of the tables are in a flattened vector."""
        d = self.model.settings.dimension
        return (rows[:, None] * d + torch.arange(d)).flatten()

    def table(self, vector: Tensor) -> Tensor:
        """`vector[P]` in the shape that `Curvature` works with."""
        return vector.reshape(-1, self.model.settings.dimension)

    def _damping(self) -> Tensor:
        return self.settings.damping * torch.eye(len(self.theta), dtype=self.theta.dtype)

    def _train_forward(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        return self._forward(theta, self.samples.users, self.samples.items)

    def _forward(self, theta: Tensor, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """The model's forward with θ in place of its parameters; the unknown user and item stay."""
        known, n_users = self.table(theta), self.model.n_users
        tables = {
            "user_table": torch.cat([known[:n_users], self.model.user_table.detach()[-1:]]),
            "item_table": torch.cat([known[n_users:], self.model.item_table.detach()[-1:]]),
        }
        logits, penalties = functional_call(self.model, tables, (users, items))
        return logits, penalties


def jacobian(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """The derivatives of a vector, or of a number, by θ: [..., P]."""
    derivatives: Tensor = jacrev(function)(at)
    return derivatives


def hessian(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """The second derivatives of a vector, or of a number, by θ: [..., P, P]."""
    derivatives: Tensor = jacfwd(jacrev(function))(at)
    return derivatives


def minimise(loss: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """A local minimum near `start`, as exactly as comparing values of the loss can tell."""
    theta = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [theta],
        max_iter=1000,
        history_size=50,
        tolerance_grad=1e-6,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(theta)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return theta.detach()


def random_case(
    name: str,
    *,
    items: int = 8,
    rate: float = 1.0,
    strength: float = 0.65,
    scale: float = 0.7,
    negatives: int = 1,
    draws: int = 1,
    seed: int = 0,
) -> Case:
    """A model with random parameters on a random log of 7 users, with 3 training rows each.

    The first user and the first item have no training row, so that the model's indices are not the problem's.
    The second user has two validation rows, the last one none.
    """
    users, per_user = 7, 3
    rng = np.random.default_rng(7)
    taken = np.stack([1 + rng.permutation(items - 1)[:per_user] for _ in range(users - 1)])
    owners = np.array([0, 1, 1, *range(2, users - 1)])
    candidates = np.stack([rng.permutation(items)[:4] for _ in owners])
    problem = Problem(
        name=name,
        protocol="by hand",
        seed=0,
        user_ids=np.array([f"u{u:02}" for u in range(users)]),
        item_ids=np.array([f"i{i:02}" for i in range(items)]),
        train=Rows(np.repeat(np.arange(1, users), per_user), taken.flatten()),
        valid=Rows(owners, candidates[:, 0]),
        test=Rows(owners[:0], candidates[:0, 0]),
        unwillingness=rng.random(taken.size),
        valid_candidates=candidates,
        test_candidates=None,
    )
    anchor = rng.random(taken.size) < rate
    known_users, known_items = np.unique(problem.train.users), np.unique(problem.train.items)
    sizes = Sizes(len(known_users), len(known_items), int(anchor.sum()), negatives)
    model = MF(sizes, MFSettings(dimension=3, strength=strength, initial_scale=scale)).double()
    model.initialise(torch.Generator().manual_seed(7))
    model.finish()
    trained = Trained(model, problem.user_ids[known_users], problem.item_ids[known_items], 0, 1, None)
    return Case(name, problem, anchor, trained, negatives, draws, seed)


@cache
def learnable_case(*, users: int, items: int, dimension: int) -> Case:
    """A trained model on a simulated log in which there is something to learn."""
    log = simulate(preference="learnable", users=users, items=items, seed=1)
    problem = make_problem(log, Protocol.PAPER_TABLES, negatives=10)
    settings = Settings(
        model_settings=MFSettings(dimension=dimension, strength=0.65),
        training=TrainingSettings(epochs=60, evaluate_every=60, negatives=1),
        anchor_rate=0.9,
    )
    anchor, trained = Workbench(problem, settings, seed=0).anchor(0)
    trained.model.double()
    return Case(f"learnable {users} x {items}", problem, anchor, trained, negatives=1, draws=4)


def trained_case() -> Case:
    """A small model as training leaves it, with a loss that the negatives influence draws do not minimise."""
    return learnable_case(users=40, items=30, dimension=3)


@cache
def settled_case() -> Case:
    """The same at a minimum of the loss with the negatives that influence draws, where Theorem 1 holds."""
    case = trained_case()
    oracle = case.oracle(case.settings(Estimator.TRUNCATED))
    theta = oracle.table(minimise(oracle.anchor_loss, oracle.theta))
    model = MF(case.model.sizes, case.model.settings).double()
    with torch.no_grad():
        model.user_table[:-1] = theta[: model.n_users]
        model.item_table[:-1] = theta[model.n_users :]
    model.finish()
    return replace(case, name="settled", trained=replace(case.trained, model=model))


CASES = (
    random_case("everything disclosed"),
    random_case("some rows withheld", rate=0.6, draws=4, negatives=2),
    random_case("no penalty", rate=0.8, strength=0.0),
    random_case("saturated scores", rate=0.8, scale=3.0, draws=2),
    # With these seeds no item is twice among the samples of a user.
    random_case("items apart", items=30, rate=0.8, strength=2.0, negatives=2, seed=3),
    random_case("items apart, all disclosed", items=20, strength=2.0, seed=5),
)
"""Every operator is compared with its dense oracle on each of these."""

STAR_CASES = CASES[-2:]
"""Those for which a user's system in her star is the one that `own` documents, and definite."""
