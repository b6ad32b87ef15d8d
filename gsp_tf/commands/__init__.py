"""The commands of `gsp-tf`: one function for each.

The signature and the docstring of a function give the parser and the help of its command. It
returns the exit code, or `None` for 0. It imports what it needs when it runs, so that
`gsp-tf --help` starts at once.
"""

from gsp_tf.commands.bench import bench
from gsp_tf.commands.cleaning import clean, dedup
from gsp_tf.commands.evaluation import evaluate, rank, report, verify
from gsp_tf.commands.models import (
    backbones,
    convert_weights,
    embed,
    embed_collection,
    export,
    publish,
)
from gsp_tf.commands.searching import calibrate, explore, index, search
from gsp_tf.commands.training import adapt, check, demo, train, tune

COMMANDS = {
    function.__name__.replace("_", "-"): function
    for function in (
        *(train, adapt, tune, check, evaluate, rank, verify, report, demo),
        *(backbones, convert_weights, export, publish, bench),
        *(embed, embed_collection, index, search, calibrate, dedup, clean, explore),
    )
}
"""The functions by the names of their commands, in the order of the help."""
