import pytest
from served import command, printed_by, refused  # noqa: F401


@pytest.fixture(scope="module", autouse=True)
def eager_functions():
    """Runs of a few steps train without graphs, which would cost more than they save."""
    from digit_runs import eagerly

    with eagerly():
        yield
