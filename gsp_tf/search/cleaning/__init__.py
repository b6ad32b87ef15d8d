"""Duplicates, leaks and label errors among images; nothing is ever moved or deleted."""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.search.cleaning.altered_copies import DuplicateDistance, calibrate_on_copies
    from gsp_tf.search.cleaning.duplicates import Duplicates, find_duplicates
    from gsp_tf.search.cleaning.wrong_labels import LabelErrors, find_label_errors

__all__ = [
    "DuplicateDistance",
    "Duplicates",
    "LabelErrors",
    "calibrate_on_copies",
    "find_duplicates",
    "find_label_errors",
]

import_lazily(__name__)
