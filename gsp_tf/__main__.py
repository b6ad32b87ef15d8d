"""`python -m gsp_tf` runs `gsp-tf`."""

from gsp_tf.cli import main

if __name__ == "__main__":
    main()
