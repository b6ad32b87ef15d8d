"""The problems of a training, by the measures of `HealthCheck`."""

import math

import numpy as np

from gsp_tf.losses import CrossBatchMemory, ProxyPairsLoss, is_pair_loss

_ADVICE = {
    "one_class": (
        "every image of the batch has the same class, so there is nothing to tell apart. Shuffle "
        "the images, or draw batches with ClassBalancedSampler (data.classes_per_batch)."
    ),
    "no_positives": (
        "no two images of the batch have the same class, and the loss compares pairs. Draw at "
        "least two images per class with ClassBalancedSampler (data.images_per_class)."
    ),
    "collapse": (
        "the embeddings of different classes have nearly one direction (mean similarity "
        "{similarity:.3f}, effective rank {effective_rank:.1f}), and the loss {loss:.4g} stays at "
        "its value for equal embeddings, {collapsed_loss:.4g}. Lower the learning rate, take a "
        "miner without the hardest negatives (SemiHardNegativeMiner, DistanceWeightedMiner), or "
        "start with a proxy loss."
    ),
    "no_active_pairs": (
        "no pair or triplet of the batch costs anything, so nothing is learned from it. Take more "
        "classes per batch, CrossBatchMemory, or a larger margin."
    ),
    "slow_proxies": (
        "samples have similarity {own_proxy_similarity:.2f} to the proxies of their class, and the "
        "proxies hardly turn ({proxy_turn:.2g} rad since the last check). Raise their learning "
        "rate: training.learning_rate_multipliers={{proxies: 100}}, or "
        "with_learning_rate_multipliers."
    ),
    "fast_proxies": (
        "the proxies turned by {proxy_turn:.2f} rad since the last check, and samples have "
        "similarity {own_proxy_similarity:.2f} to those of their class. Lower the factor of "
        "proxies in training.learning_rate_multipliers, or the learning rate."
    ),
    "between_proxies": (
        "samples of different classes have similarity {similarity:.2f}, and to the nearest proxy "
        "of their class only {own_proxy_similarity:.2f}: they gather between the proxies, beyond a "
        "margin from which nothing pushes them apart. Start from a trained run (initial_run), or "
        "take MultiSimilarityLoss, which has no such margin."
    ),
    "float16_overflow": (
        "gradients overflow float16 even with a loss scale of {loss_scale:.3g}; such steps are "
        "left out. Train with training.precision=mixed_bfloat16 or float32, or clip the "
        "activations that grow."
    ),
    "high_learning_rate": (
        "the weights of the embedder have {embedder_growth:.3g} times their norm at the start, and "
        "a step changes them by {embedder_update:.2%} of it; 1 and 0.1 % are common. Divide the "
        "learning rate by 10, or clip the gradients (training.clip_norm)."
    ),
}
"""The problem and what to do, by the name of a finding."""


def findings(loss, labels, now, since, is_early=False):
    """The problems that a check sees and what to do; `since` are steps since the check before."""
    # Early in training embeddings are alike and proxies far from them, in runs that go well too.
    found = []
    _, counts = np.unique(labels, return_counts=True)
    if len(counts) == 1:
        found.append("one_class")
    elif counts.max() == 1 and is_pair_loss(loss):
        found.append("no_positives")
    elif "loss" in now:
        is_at_margin = abs(now["loss"] - now["collapsed_loss"]) <= 0.05 * abs(now["collapsed_loss"])
        may_pass = is_early and not (is_pair_loss(loss) and now["effective_rank"] < 2)
        if now["similarity"] > 0.95 and is_at_margin and not may_pass:
            found.append("collapse")
        # The pairs with a memory are not looked at.
        elif now["active_share"] == 0 and not isinstance(loss, CrossBatchMemory):
            found.append("no_active_pairs")
    # CCP chooses other proxies when a problem begins.
    if isinstance(loss, ProxyPairsLoss):
        if now.get("similarity", -1.0) > now.get("own_proxy_similarity", 1.0) and not is_early:
            found.append("between_proxies")
    elif "proxy_turn" in now:
        own, turn = now["own_proxy_similarity"], now["proxy_turn"]
        if own < 0.2 and turn < 2.5e-4 * since and not is_early:
            found.append("slow_proxies")
        if own < 0.5 and turn > 0.75:
            found.append("fast_proxies")
    if now.get("loss_scale", math.inf) <= 1:
        found.append("float16_overflow")
    if now.get("embedder_update", 0.0) > 0.3 or now.get("embedder_growth", 0.0) > 20:
        found.append("high_learning_rate")
    return {name: _ADVICE[name].format(**now) for name in found}
