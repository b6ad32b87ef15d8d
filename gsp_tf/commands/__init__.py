"""The commands of `gsp-tf`, a module each: `HELP`, `parser()` and `run(options, parser)`.

They import what they need when they run, so that `gsp-tf --help` starts at once.
"""

from gsp_tf.commands import (
    bench,
    check,
    convert_weights,
    demo,
    embed,
    embed_collection,
    evaluate,
    explore,
    export,
    index,
    report,
    search,
    train,
)

TAKING_RECIPES = {"train": train, "check": check}
COMMANDS = {
    **TAKING_RECIPES,
    "evaluate": evaluate,
    "report": report,
    "demo": demo,
    "convert-weights": convert_weights,
    "export": export,
    "bench": bench,
    "embed": embed,
    "embed-collection": embed_collection,
    "index": index,
    "search": search,
    "explore": explore,
}
