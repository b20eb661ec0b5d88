import pytest


@pytest.fixture(params=[2**18, 7], ids=["one block", "many blocks"])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many samples are handled at once must not matter."""
    monkeypatch.setattr("assent.influence.mf_curvature._CHUNK", request.param)
