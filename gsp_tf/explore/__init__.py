"""A local page on which a trained model is explored in the browser, from the extra `[explore]`."""

try:
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "The page to explore a run needs Starlette and uvicorn: from the folder of the library, "
        f'pip install ".[explore]" ({error}).'
    ) from error

from gsp_tf.explore.app import explore_app
from gsp_tf.explore.server import explore_run

__all__ = ["explore_app", "explore_run"]
