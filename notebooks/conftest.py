import os

os.environ["GSP_TF_SHORT"] = "1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
