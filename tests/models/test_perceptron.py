import pytest
import torch

from assent.models import Draws, Sizes
from assent.models.layers import Perceptron


def draws() -> Draws:
    return Draws.numbered(Sizes(users=1, items=1, rows=1, negatives=1))


@pytest.mark.parametrize("hidden", [(2,), (5,), (4, 3), (6, 4, 2)])
def test_the_centre_carries_the_sum_of_inputs_through_every_layer(hidden: tuple[int, ...]) -> None:
    layers = Perceptron((7, *hidden, 1), constant=0.25, carried=slice(2, 6))
    layers.initialise(draws(), 0.0)
    x = torch.randn(50, 7, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(layers(x).squeeze(-1), 0.25 + x[:, 2:6].sum(1))
    assert layers.drift() == 0


def test_drift_is_the_squared_distance_from_the_centre() -> None:
    layers = Perceptron((3, 2, 1), constant=1, carried=slice(0, 3)).double()
    layers.initialise(draws(), 0.0)
    with torch.no_grad():
        layers.weights[0][1, 2] += 3
        layers.biases[1][0] -= 4
    assert layers.drift().item() == pytest.approx(25)


def test_the_size_of_initial_weights_follows_the_inputs() -> None:
    layers = Perceptron((400, 100, 1))
    layers.initialise(draws(), 2.0)
    assert layers.weights[0].std().item() == pytest.approx(2 / 20, rel=0.05)
    assert layers.weights[1].std().item() == pytest.approx(2 / 10, rel=0.3)


def test_what_a_saved_perceptron_holds_is_its_parameters() -> None:
    layers = Perceptron((3, 2, 1), carried=slice(0, 3))
    assert set(layers.state_dict()) == {name for name, _ in layers.named_parameters()}
