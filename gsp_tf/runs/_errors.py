"""Find the cause in the message of an error."""

from gsp_tf._files import full_disk


def reason(error: BaseException) -> str:
    """The line of an error that says what happened; in one of TensorFlow, that of its cause."""
    full = full_disk(error)
    message = None if full else getattr(error, "message", None)
    if message is None:
        return str(full or error)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    causes = [line for line in lines if "Error: " in line]
    return (causes or lines)[0]
