"""spark-submit entry of `recallk validate`: the same options and exit codes."""

import sys

from recallk_spark.cli import main

if __name__ == "__main__":
    sys.exit(main(["validate", *sys.argv[1:]]))
