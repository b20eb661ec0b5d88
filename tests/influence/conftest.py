import pytest


@pytest.fixture(params=[2**18, 7], ids=["one block", "many blocks"])
def at_once(request: pytest.FixtureRequest) -> int:
    """Samples per block, which must not matter."""
    assert isinstance(request.param, int)
    return request.param
