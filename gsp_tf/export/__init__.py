"""Export of trained models as SavedModel, ONNX or `.keras` files with metadata."""

from gsp_tf.export.metadata import verify_export
from gsp_tf.export.pretrained import from_pretrained, save_pretrained
from gsp_tf.export.runs import export_run

__all__ = ["export_run", "from_pretrained", "save_pretrained", "verify_export"]
