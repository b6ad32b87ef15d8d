"""Find the cause in the message of an error."""

from gsp_tf._files import full_disk


def reason(error: BaseException) -> str:
    """The line of an error that says what happened.

    Args:
        error: any exception. An error of TensorFlow gives the line of the exception that caused it.

    Example:
        >>> import tensorflow as tf
        >>> lines = "2 errors found.\\n (0) UNKNOWN: ValueError: a.png is broken\\nTraceback"
        >>> reason(tf.errors.UnknownError(None, None, lines))
        '(0) UNKNOWN: ValueError: a.png is broken'
        >>> reason(ValueError("epochs must be 1 or more"))
        'epochs must be 1 or more'
    """
    full = full_disk(error)
    message = None if full else getattr(error, "message", None)
    if message is None:
        return str(full or error)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    causes = [line for line in lines if "Error: " in line]
    return (causes or lines)[0]
