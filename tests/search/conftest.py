from served import *  # noqa: F403
