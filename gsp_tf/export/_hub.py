"""Models on Hugging Face: their addresses, their download and their upload."""

from pathlib import Path

from gsp_tf._console import to_install

_SCHEME = "hf://"


def is_on_hub(place):
    """Whether a place is an address such as hf://USER/NAME, not a folder."""
    return str(place).startswith(_SCHEME)


def download(source, revision, files):
    """The folder of a model after its download; only files of these names are loaded."""
    hub = _hub_for(source)
    try:
        name = str(source).removeprefix(_SCHEME)
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=list(files)))
    except Exception as error:  # connections and the hub raise all kinds
        raise OSError(f"{source} cannot be downloaded: {_reason(error)}") from error


def checked_repository(target):
    """USER/NAME of an address that a model can be uploaded to by the one who is logged in."""
    hub, name = _hub_for(target), str(target).removeprefix(_SCHEME)
    try:
        hub.utils.validate_repo_id(name)
        is_valid = name.count("/") == 1
    except hub.utils.HFValidationError:
        is_valid = False
    if not is_valid:
        raise ValueError(f"A model on Hugging Face is named {_SCHEME}USER/NAME; received {target}.")
    if hub.get_token() is None:
        raise PermissionError(
            f"{target} needs a login at Hugging Face: run hf auth login, or set HF_TOKEN."
        )
    return name


def upload(folder, target, files):
    """Create the repository of an address unless it exists, and make these files those of it."""
    hub, name = _hub_for(target), str(target).removeprefix(_SCHEME)
    try:  # as keras-hub's upload_preset, which takes a folder of save_to_preset alone
        hub.create_repo(name, exist_ok=True)
        hub.upload_folder(
            repo_id=name,
            folder_path=folder,
            commit_message="Upload model",
            allow_patterns=list(files),
            delete_patterns=list(files),  # those of an earlier model
        )
    except Exception as error:
        raise OSError(f"{target} cannot be uploaded: {_reason(error)}") from error


def _hub_for(place):
    try:
        import huggingface_hub
    except ImportError as error:
        raise ImportError(f"{place} needs huggingface_hub: {to_install('hub')}.") from error
    return huggingface_hub


def _reason(error):
    return " ".join(str(error).split())[:300]
