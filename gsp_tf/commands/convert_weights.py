"""`gsp-tf convert-weights`: PyTorch weights of a backbone for Keras."""

from typing import Literal

from gsp_tf.commands.parsers import command_parser

HELP = "Turn PyTorch weights of a backbone into Keras weights."


def parser():
    """Its arguments."""
    arguments = command_parser(
        "Turn a PyTorch state dict into Keras weights, for backbone.weights. "
        "Nothing in the file is run."
    )
    arguments.add_argument(
        "state_dict",
        type=str,
        help="A .safetensors file, or a .pth file of PyTorch 1.6 or later, of bn_inception of the "
        "package pretrainedmodels or of googlenet of torchvision.",
    )
    arguments.add_argument(
        "--architecture",
        type=Literal["bn_inception", "googlenet"],
        required=True,
        help="The network whose state dict it is.",
    )
    arguments.add_argument(
        "--out", type=str, required=True, help="File to write; its name ends in .weights.h5."
    )
    return arguments


def run(options, parser):
    """Its work; gives the exit code."""
    from gsp_tf.backbones import convert_weights

    conversion = convert_weights(options.state_dict, options.architecture, options.out)
    print(f"{conversion.path}: {conversion.num_tensors} tensors of {options.architecture}")
    if conversion.left_out:
        shown = ", ".join(key for key in conversion.left_out if "num_batches" not in key)
        print(f"Left out, for the backbone does not have them: {shown or 'counters of batches'}")
    return 0
