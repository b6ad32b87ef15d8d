"""`gsp-tf explore`: a model in the browser."""

from gsp_tf.commands.parsers import command_parser, require_run

HELP = "Explore a model in the browser."


def parser():
    """Its arguments."""
    arguments = command_parser(
        "Serve a page to explore the model of a run in the browser: neighbours, "
        "pooling weights and prototypes of an image, and the strongest patches of prototypes. "
        "Ctrl-C ends it."
    )
    arguments.add_argument("run", type=str, help="Run folder.")
    arguments.add_argument(
        "--index",
        type=str | None,
        help="What index wrote; null is the folder index in the run, or the run's test images if "
        "there is none.",
    )
    arguments.add_argument(
        "--host",
        type=str,
        default="127.0.0.1",
        help="Address to listen on; all but loopback let others upload to the page.",
    )
    arguments.add_argument(
        "--port", type=int | None, help="Port to listen on; null is 7860 or a free one."
    )
    arguments.add_argument("--k", type=int, default=10, help="Number of neighbours.")
    arguments.add_argument(
        "--max-upload-mb", type=float, default=10.0, help="Largest file that is taken, in MB."
    )
    arguments.add_argument(
        "--allowed-host",
        type=str,
        nargs="+",
        default=[],
        help="Further names that the page is reached by, such as that of a proxy.",
    )
    return arguments


def run(options, parser):
    """Its work; gives the exit code."""
    require_run(options.run)
    from gsp_tf.explore import explore_run

    explore_run(
        options.run,
        options.index,
        options.host,
        options.port,
        options.k,
        options.max_upload_mb,
        options.allowed_host,
    )
    return 0
