"""A model that breaks the contract is refused before it is trained, by an error that says how."""

import re

import numpy as np
import pytest
import torch

from assent.data.problem import make_problem
from assent.data.simulate import simulate
from assent.models import MF, Draws, Evidence, MFSettings, Recommender, Sizes, model_class, model_name
from assent.models.checks import check_contract, make_model
from assent.support.errors import AssentError
from assent.training import TrainingSettings, disclose, train
from tests.models import broken

SIZES = Sizes(users=5, items=7, rows=3, negatives=2)
EVIDENCE = Evidence(torch.tensor([0, 0, 4]), torch.tensor([1, 6, 2]), torch.ones(3))

BROKEN: list[tuple[type[Recommender], str]] = [
    (broken.NoMatrix, "forward gave logits of shape [3] for users [3] and items [3, 4]; expected [3, 4]"),
    (broken.NoPair, "forward gave a Tensor; expected a pair (logits, penalties)"),
    (broken.NumberedLogits, "forward gave logits of type torch.int64; expected floating point"),
    (broken.NoPenalties, "forward gave penalties of type NoneType; expected a tensor"),
    (
        broken.InfinitePenalties,
        "forward gave penalties that are not finite for users [3] and items [3, 4]",
    ),
    (broken.Detached, "forward gave logits that depend on no parameter; expected them to require gradients"),
    (broken.NoUnknown, "forward raised IndexError: index 5 is out of bounds"),
    (broken.TwoArguments, "forward raised TypeError: "),
    (broken.OtherScores, "score_all disagrees with forward on user "),
    (
        broken.FewScores,
        "score_all gave scores of shape [3, 7] for users [3] and 7 items; expected [3, 8]",
    ),
    (broken.OtherVectors, "the products of vectors differ from score_all by up to "),
    (broken.OneLoss, "losses gave losses of shape [] for users [3] and items [3, 3]; expected [3, 3]"),
    (broken.SteepLosses, "losses gave a gradient of user_table that is not finite"),
    (broken.Uninitialised, "initialise left values in user_table that are not finite"),
    (broken.DividingFinish, "finish left values in item_table that are not finite"),
    (broken.FailingFinish, "finish raised KeyError: 'mean'"),
    (broken.FailingPrepare, "prepare raised RuntimeError: no graph"),
    (broken.FailingConstructor, "the constructor raised ValueError: dimension must be even"),
    (broken.FailingInitialise, "initialise raised TypeError: no draws wanted"),
    (broken.NoParameters, "has no parameters; accepted: at least one nn.Parameter"),
]


@pytest.mark.parametrize(("kind", "message"), BROKEN, ids=[kind.name for kind, _ in BROKEN])
def test_what_is_wrong_is_named(kind: type[Recommender], message: str) -> None:
    with pytest.raises(AssentError, match=f"^model {kind.name}: {re.escape(message)}") as caught:
        check_contract(make_model(kind, SIZES, MFSettings(dimension=3), Draws.numbered(SIZES)), EVIDENCE)
    assert "\n" not in str(caught.value)


def test_the_trainer_asks_before_its_first_step() -> None:
    problem = make_problem(simulate(preference="learnable", users=30, items=40, seed=0), "full", negatives=5)
    data = disclose(problem, np.ones(len(problem.train), dtype=np.bool_))
    for kind in (broken.OtherScores, broken.FailingConstructor):
        with pytest.raises(AssentError, match=rf"^model {kind.name}: "):
            train(
                data,
                model=model_name(kind),
                model_settings=MFSettings(dimension=3),
                settings=TrainingSettings(epochs=1),
                seed=0,
            )


@pytest.mark.parametrize(
    ("sizes", "evidence"),
    [
        (SIZES, EVIDENCE),
        (Sizes(1, 1, 1, 1), Evidence(torch.tensor([0]), torch.tensor([0]), torch.ones(1))),
        (Sizes(0, 0, 0, 1), Evidence(torch.arange(0), torch.arange(0), torch.ones(0))),
        (Sizes(3, 9, 0, 1), Evidence(torch.arange(0), torch.arange(0), torch.ones(0))),
    ],
    ids=["some", "one", "nothing", "no rows"],
)
def test_a_model_that_keeps_the_contract_is_left_as_it_was(sizes: Sizes, evidence: Evidence) -> None:
    model = make_model(MF, sizes, MFSettings(dimension=3), Draws.numbered(sizes)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    generator = torch.get_rng_state()
    check_contract(model, evidence)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), generator)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


class Noisy(MF):
    """Draws from torch's generator wherever it is asked, but only in training mode, as dropout does."""

    def forward(
        self, users: torch.Tensor, items: torch.Tensor, prepared: None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        noise = torch.rand(items.shape)
        logits, penalties = super().forward(users, items)
        return logits + noise * self.training, penalties


def test_models_are_checked_as_they_are_asked_later_on() -> None:
    model = make_model(Noisy, SIZES, MFSettings(dimension=3), Draws.numbered(SIZES)).train()
    generator = torch.get_rng_state()
    check_contract(model, EVIDENCE)
    assert torch.equal(torch.get_rng_state(), generator)


def test_a_model_that_fails_is_left_as_it_was_too() -> None:
    model = make_model(broken.DividingFinish, SIZES, MFSettings(dimension=3), Draws.numbered(SIZES))
    with pytest.raises(AssentError):
        check_contract(model, EVIDENCE)
    assert all(value.isfinite().all() for value in model.parameters())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "tests.models.broken:Unfinished",
            "does not define finish, score_all; every recommender must",
        ),
        ("tests.models.broken:Nameless", "has no name; expected a class attribute such as name = 'mine'"),
        ("tests.models.broken:WithoutSettings", "has no Settings; expected a subclass of assent.models.Mod"),
        ("tests.models.broken:MFSettings", "not a subclass of assent.Recommender"),
        ("tests.models.broken:torch", "not a subclass of assent.Recommender"),
        ("tests.models.broken:Absent", "module 'tests.models.broken' has no attribute 'Absent'; accepted: "),
        ("tests.models.absent:Mine", "No module named 'tests.models.absent'; accepted: "),
        (":Mine", "Empty module name; accepted: "),
        (".mine:Mine", "importing it raised TypeError: "),
    ],
)
def test_a_class_that_is_no_recommender_is_refused(name: str, message: str) -> None:
    with pytest.raises(AssentError, match=f"^model {re.escape(name)}: {re.escape(message)}"):
        model_class(name)


class Outer:
    class Inner(MF):
        name = "inner"


def test_a_class_within_a_class_is_found() -> None:
    assert model_class(model_name(Outer.Inner)) is Outer.Inner
