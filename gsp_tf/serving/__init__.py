"""Models that serve: export of a run for programs without this library."""

from gsp_tf.serving.export import export_run
from gsp_tf.serving.export_metadata import verify_export

__all__ = ["export_run", "verify_export"]
