"""Losses of deep metric learning: `loss(labels, embeddings) -> scalar`."""

from gsp_tf.losses.contrastive import ContrastiveLoss
from gsp_tf.losses.proxy_nca import ProxyNCALoss
from gsp_tf.losses.zero_shot import ZeroShotLoss

__all__ = ["ContrastiveLoss", "ProxyNCALoss", "ZeroShotLoss"]
