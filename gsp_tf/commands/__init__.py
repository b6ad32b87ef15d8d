"""The commands of `gsp-tf`: one module with a function `command` for each.

The signature and the docstring of the function give the parser and the help of the command. The
function returns the exit code, or `None` for 0. It imports what it needs when it runs, so that
`gsp-tf --help` starts at once.
"""

from gsp_tf.commands import (
    adapt,
    backbones,
    bench,
    calibrate,
    check,
    clean,
    convert_weights,
    dedup,
    demo,
    embed,
    embed_collection,
    evaluate,
    explore,
    export,
    index,
    publish,
    rank,
    report,
    search,
    train,
    tune,
    verify,
)

COMMANDS = {
    "train": train,
    "adapt": adapt,
    "tune": tune,
    "check": check,
    "evaluate": evaluate,
    "rank": rank,
    "verify": verify,
    "report": report,
    "demo": demo,
    "backbones": backbones,
    "convert-weights": convert_weights,
    "export": export,
    "publish": publish,
    "bench": bench,
    "embed": embed,
    "embed-collection": embed_collection,
    "index": index,
    "search": search,
    "calibrate": calibrate,
    "dedup": dedup,
    "clean": clean,
    "explore": explore,
}
