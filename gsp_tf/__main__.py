"""`python -m gsp_tf` is `gsp-tf`."""

from gsp_tf.cli import main

if __name__ == "__main__":
    main()
