"""Embedding of a user's images; interrupted work can be resumed."""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.search.embedding.batch_embedder import BatchEmbedder
    from gsp_tf.search.embedding.collection import Collection
    from gsp_tf.search.embedding.embed import embed_images
    from gsp_tf.search.embedding.folder import EmbeddingsFolder, Shard
    from gsp_tf.search.embedding.run_model import RunModel
    from gsp_tf.search.embedding.workers import embed_collection

__all__ = [
    "BatchEmbedder",
    "Collection",
    "EmbeddingsFolder",
    "RunModel",
    "Shard",
    "embed_collection",
    "embed_images",
]

import_lazily(__name__)
