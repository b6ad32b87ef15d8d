"""`gsp-tf explore`: a model in the browser."""

from gsp_tf._numbers import Count, Port, Positive
from gsp_tf.runs import run_folder


def command(
    run: str,
    *,
    index: str | None = None,
    host: str = "127.0.0.1",
    port: Port | None = None,
    k: Count = 10,
    max_upload_mb: Positive = 10.0,
    allowed_host: list[str] = (),
    thresholds: str | None = None,
):
    """Explore a model in the browser.

    Serves a page with the neighbours, pooling weights and prototypes of an image, and the strongest
    patches of prototypes. Ctrl-C stops the server.

    Args:
        run: Run folder, or a pretrained network as it is, such as efficientnet_lite0 or
            hub:dinov2_small.
        index: Folder that index wrote; null is the folder index in the run, which is built of the
            images that embed has embedded, or the test images of the run without such images.
        host: Address to listen on; any address but loopback lets others upload to the page.
        port: Port to listen on; null is 7860 or a free one.
        k: Number of neighbours.
        max_upload_mb: Largest accepted file, in MB.
        allowed_host: Further host names of the page, such as that of a proxy.
        thresholds: File that calibrate wrote; null is thresholds.json in the index or the run, if
            there is one.
    """
    run = run_folder(run)
    from gsp_tf.search import explore_run

    explore_run(run, index, host, port, k, max_upload_mb, allowed_host, thresholds)
