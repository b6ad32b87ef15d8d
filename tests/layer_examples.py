"""Every layer on local features, with arguments that are not the defaults."""

from functools import partial

from gsp_tf import layers

LAYERS = {
    "attention": partial(layers.SecondOrderAttention, 3, 0.7),
    "attentive_grouping": partial(layers.AttentiveGrouping, 3, 4, 6),
    "average_max": layers.AverageMaxPooling,
    "cbam": partial(layers.CBAMPooling, 2, 3),
    "channel_grouping": partial(layers.ChannelGrouping, 3, 4, 2),
    "coded_residual": partial(layers.CodedResidualTransform, 6, 3, 4),
    "coded_residual_shared": partial(layers.CodedResidualTransform, 6, 3, 4, True),
    "crow": layers.CrowPooling,
    "delf": partial(layers.DelfPooling, 5),
    "gate_grouping": partial(layers.GateGrouping, 3, 4, 6),
    "generalized_max": partial(layers.GeneralizedMaxPooling, 0.5),
    "generalized_max_cg": partial(layers.GeneralizedMaxPooling, 0.5, "conjugate_gradient"),
    "generalized_mean": partial(layers.GeneralizedMeanPooling, 2.5),
    "gsop": partial(layers.GSoPPooling, 3),
    "gsp": partial(layers.GeneralizedSumPooling, 3),
    "gsp_max": partial(layers.GeneralizedSumMaxPooling, 3),
    "gsp_mean": partial(layers.GeneralizedSumMeanPooling, 3, p=2.5),
    "linear_grouping": partial(layers.LinearGrouping, 3, 4),
    "net_vlad": partial(layers.NetVLAD, 3),
    "optimal_transport": partial(layers.OptimalTransportPooling, 3, num_iterations=2),
    "smk": layers.SMKPooling,
    "solar": partial(layers.SolarPooling, 3),
    "weldon": partial(layers.WeldonPooling, 3, 2),
}
