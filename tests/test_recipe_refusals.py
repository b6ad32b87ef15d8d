"""What a recipe refuses when it is read: its text and a part of the message."""

from itertools import pairwise

import pytest

from gsp_tf.recipe import load_recipe

CLASSIFIER = "trainer: classification\n"
WITHOUT = "data: {views: 2, classes_per_batch: 0, unlabelled_per_batch: 8}\n"
VIEWS = "data: {views: 2}\n"
OF_NT_XENT = "loss: {name: contrastive}\nview_loss: {name: nt_xent}\n"
FROZEN = "backbone: {frozen_to: conv2d}\n"
GROUPED = "loss: {name: class_margin}\nloss_wrapper: {name: grouped}\n"

# Eight lists of eight aliases of the list before.
MANY = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join(8 * [f'*{old}'])}]\n" for old, new in pairwise("abcdefgh")
)

REFUSED = {
    # The form of a file.
    "": "the recipe must have fields, received",
    "seed: 3\ndata:": "data must have fields, received null",
    "training: 5": "training must have fields, received 5",
    "data: other.yaml": "data must have fields, received 'other.yaml'",
    "data: {name: *d}": r"Line 1: data.name is \*d, which is not defined",
    "name: &a [*a]": r"Line 1: name contains itself, by \*a",
    "name: !!python/name:os.system x": "Line 1: a recipe has no tags",
    "seed: 1\ndata: {name: glyphs,\n  name: folder}": "Line 3: data.name is given twice",
    "{[a]: 3}": "Line 1: the keys of the recipe must be names",
    "name: " + 3000 * "[" + 3000 * "]": "Line 1: name is nested more than 50 deep",
    MANY: "Line 6: a recipe holds at most 100,000 values",
    "name: " + 1_000_000 * "x": "A recipe has at most 1,000,000 characters",
    "config: other.yaml": "config is not a field; there are name, seed, data,",
    "training: {epoch: 3}": "training.epoch is not a field; did you mean epochs",
    # Names, data and protocols.
    "name: ''": "name must be the name",
    "name: ../up": "name must be the name",
    "pooling: {transport_ration: 0.2}": "did you mean transport_ratio",
    "data: {split_fractions: [0.5, 0.0, 0.5]}": "three positive shares",
    "protocol: {name: mlrc, num_folds: 1}": "protocol.num_folds must be 2 or more, received 1",
    "protocol: {name: mlrc, fold: 4}": "protocol.fold must be null, or 0 to 3, received 4",
    "protocol: {name: tuning, num_folds: 3}": "protocol.num_folds must be 4 with",
    "protocol: {name: ablation, fold: 1}": "protocol.fold must be null with",
    "data: {name: glyphs, collage: {label: super_class}}":
        "label must be class without data.collage.*received super_class",
    # Training.
    "training: {optimizer: sgd, optimizer_arguments: {momentun: 0.5}}":
        "optimizer_arguments.momentun is not an argument of sgd; did you mean momentum",
    "training: {optimizer_arguments: {weight_decay: 0.5}}": "optimizer_arguments.weight_decay",
    "training: {optimizer_arguments: {epsilon: .inf}}": "epsilon must be .*, received inf",
    "training: {optimizer_arguments: {beta_1: 1.0}}": "beta_1 must be .*, received 1.0",
    "training: {optimizer: muon, optimizer_arguments: {ns_steps: 0}}": "ns_steps must be .* 0",
    "backbone: {lora: {alpha: 2}}": "lora.alpha must be null without a backbone.lora.rank",
    "backbone: {freeze: [conv2d], lora: {rank: 2}}": "backbone.freeze must be empty with",
    "training: {epochs: many}": "training.epochs",
    "training: {epochs: 10, warmup_epochs: 10}": "be below training.epochs, 10, received 10",
    "training: {optimizer: adamw, weight_decay: 0}": "above 0 with training.optimizer=adamw",
    "training: {weight_decay_exclusions: [bias]}": "must be empty without a training.weight_decay",
    "training: {optimizer: lion, beta_2: 0.99}": "optimizer=lion; it is for adam and adamw",
    "training: {warmup_steps: 1000, epochs: 10}": "warmup_steps must be below the 1000 steps",
    "training: {warmup_steps: 1, schedule: {name: plateau}}": "warmup_steps must be 0",
    "training: {gradient_accumulation_steps: 3}": "a divisor of training.steps_per_epoch, 100",
    "training: {optimizer: schedule_free_adamw, schedule: {name: cosine}}":
        "schedule.name must be constant with training.optimizer=schedule_free_adamw",
    "training: {optimizer: schedule_free_adamw, ema_momentum: 0.9}": "ema_momentum must be 0 with",
    "training: {learning_rate: 1e-5, schedule: {minimum: 1e-4}}":
        "minimum must be at most training.learning_rate, 1e-05, received 0.0001",
    "data: {name: glyphs, skip_unreadable: true}": "must be false with data.name=glyphs",
    # Trainers.
    CLASSIFIER + "protocol: {name: ablation}": "must be fractions with trainer=classification",
    CLASSIFIER + "head: {name: linear_grouping, num_groups: 2}\nloss_wrapper: {name: grouped}":
        "head must be null with trainer=classification",
    CLASSIFIER + "zero_shot: {weight: 0.1}\npooling: {name: gsp}": "zero_shot.weight must be 0",
    # Losses.
    "loss: {name: triplet, temperature: 0.1}": "loss.temperature is not an argument of",
    "loss: {name: proxy_nca, temperature: warm}": "loss.temperature must be a number",
    "loss: {name: triplet, normalize: 1}": "loss.normalize must be true or false",
    "loss: {name: vicreg}": "loss.normalize must be true with loss.name=vicreg, because",
    "loss: {name: sim_siam}": "data.images_per_class must be 2 with loss.name=sim_siam",
    "loss: {name: circle, reduction: none}": "loss.reduction=none gives no single number",
    "loss: {name: contrastive, distance: L2}": "distance.name must be one of .*received L2",
    "loss: {name: contrastive, p: 1}": "argument of an object now: loss.distance: {name: lp, p: 1",
    "loss: {name: contrastive, class_weights: [1, 2]}":
        r"loss.reduction: {name: mean, class_weights: \[1.0, 2.0\]}",
    "loss: {name: arc_face, proxies_regularizer: lp}": "must be a regulariser, such as .* 'lp'",
    "loss: {name: arc_face, proxies_regularizer: {name: lp, weights: 1}}":
        "loss.proxies_regularizer.weights is not an argument of lp",
    "loss: {name: triplet, proxies_regularizer: {name: lp}}": "is not an argument of triplet",
    "loss: {name: weighted_sum}": "loss.terms must be a list of losses, such as",
    "loss: {name: weighted_sum, terms: [{margin: 1.0}]}": r"received \({'margin': 1.0},\)",
    "loss: {name: weighted_sum, terms: [{name: tripet}]}": "must be one of .* did you mean triplet",
    "loss: {name: weighted_sum, terms: [{name: triplet, margin: .inf}]}": "must be .* inf",
    "loss: {name: arc_face, proxies_regularizer: {name: lp, weight: .inf}}": "must be .* inf",
    "loss: {name: weighted_sum, terms: [{name: triplet, margins: 1.0}]}":
        "loss.margins is not an argument of triplet",
    "loss_wrapper: {name: cross_batch_memory}": "capacity is missing; cross_batch",
    "loss: {name: triplet}\nloss_wrapper: {name: matryoshka, dims: [8, 32]}":
        "must be embedding.dim=64",
    "loss_wrapper: {name: matryoshka, dims: [8, 64]}\nhead: {name: dense_branches}":
        "matryoshka takes one embedding; head.name=dense_br",
    "loss: {name: proxy_nca}\nminer: {name: multi_similarity}":
        "chooses pairs, and loss.name=proxy_nca is",
    "miner: {epsilon: 0.1}": "miner.name is missing; there are angular, .*distance_w",
    # Heads.
    "loss_weights: {first: 1.0}": "loss_weights must be of none with head=null",
    "head: {name: coded_residual, num_prototypes: [4, 4], hidden_dim: 3}\n"
    "loss_weights: {third: 1.0}":
        "loss_weights must be of first and second with head.name=coded_residual, received",
    "{head: {name: dense_branches}, loss_weights: {first: -1.0}}": "loss_weights must be a",
    "{zero_shot: {weight: 0.1}, pooling: {name: crow}}":
        "needs the attributes of pooling.name=gsp, gsp_max",
    "{embedding: {dim: 12}, head: {name: linear_grouping, num_groups: 3}}":
        "needs loss_wrapper.name=grouped.*null with 3",
    GROUPED: "received loss_wrapper=grouped with no groups",
    GROUPED + "embedding: {dim: 12}\nhead: {name: linear_grouping, num_groups: 5}":
        "embedding.dim=12 does not divide into head.num_groups=5",
    "head: {name: coded_residual}": "head.num_prototypes is missing; coded_residual",
    "{embedding: {dim: 8, map: mlp}, head: {name: global_local, key_dim: 4}}":
        "embedding.map must be linear with head.name=global_local, received mlp",
    "{embedding: {dim: null}, backbone: {name: dinov2_small, tokens: both}}":
        "backbone.tokens must be patch or class without a linear map to a number",
    "{pooling: {name: gap}, training: {adapt_batches: 2}}":
        "training.adapt_batches must be 0 with pooling.name=gap",
    # Cached features.
    "data: {feature_cache: features}": "must be null without backbone.frozen_to",
    FROZEN + "data: {feature_cache: features, min_crop_area: 0.5}":
        "data.feature_cache must be null with data.min_crop_area below 1",
    "data: {views: 2, feature_cache: maps}\n" + OF_NT_XENT:
        "data.feature_cache must be null with data.views: features are of one fixed view",
    # Views and images without a class.
    "data: {name: unlabelled}": "data.views must be 2 with data.name=unlabelled, whose",
    WITHOUT.replace("views", "name: unlabelled, views") + "protocol: {name: mlrc}\n"
    "loss: {name: nt_xent}":
        "protocol.name must be fractions with data.name=unlabelled",
    WITHOUT.replace("views", "name: unlabelled, image_size: 32, resize: 36, views")
    + OF_NT_XENT:
        "data.resize must be null with data.name=unlabelled, whose views",
    "data: {unlabelled: more}": "data.unlabelled must be null with data.views=1",
    "data: {views: 2, unlabelled_per_batch: 8}": "data.unlabelled_per_batch must be 0",
    WITHOUT + "loss: {name: proxy_anchor}": "needs the class of each image, and .* draws",
    WITHOUT + OF_NT_XENT: "view_loss must be null with data.classes_per_batch=0: loss is",
    VIEWS: "data.views=2 needs a loss that compares views: view_loss besides",
    VIEWS + OF_NT_XENT + "trainer: ccp\ntraining: {patience: null}":
        "trainer must be fit with data.views=2, received ccp",
    VIEWS + OF_NT_XENT + "zero_shot: {weight: 0.1}": "zero_shot.weight must be 0 with data",
    "data: {augmentation: [{name: mix_up}]}": "it mixes images of .*similarity_mixup",
    "data: {augmentation: [{name: rotation}]}": r"data.augmentation\[0\].factor is missing",
    "data: {augmentation: [{name: grayscale, factor: 2}]}": r"data.augmentation\[0\]",
    # Callbacks.
    "callbacks: {wandb: {projet: a}}": "callbacks.wandb.projet is not an argument of wandb; did",
    "callbacks: {wandb: {mode: on}}": "wandb.mode must be one of online, offline, disabled",
    "callbacks: {lambda: {}}": "callbacks.lambda is not a callback; there are csv_logger",
    "callbacks: {csv_logger: {filename: ../a.csv}}": "must be a path within the run folder",
    "callbacks: {reduce_lr_on_plateau: {}}\ntraining: {schedule: {name: cosine}}":
        "reduce_lr_on_plateau needs training.schedule.name=constant, received cosine",
    CLASSIFIER + "embedding: {whitening: true, position: after_pooling}":
        "must be false with trainer=classification",
    "callbacks: {model_checkpoint: {filepath: a.keras}}\ntraining: {ema_momentum: 0.9}":
        "callbacks.model_checkpoint needs training.ema_momentum=0",
    FROZEN + "callbacks: {model_checkpoint: {filepath: a.keras}}\ndata: {feature_cache: f}":
        "callbacks.model_checkpoint needs data.feature_cache=null",
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), REFUSED.items(), ids=range(len(REFUSED)))
def test_a_recipe_is_refused_when_it_is_read(text, message, tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=f"^{file}: .*{message}"):
        load_recipe(file)
