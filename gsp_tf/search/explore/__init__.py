"""A local web page to explore a trained model; it needs the extra `[explore]`."""

from gsp_tf._console import to_install

try:
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"The page to explore a run needs Starlette and uvicorn: {to_install('explore')} ({error})."
    ) from error

from gsp_tf.search.explore.server import explore_app, explore_run

__all__ = ["explore_app", "explore_run"]
