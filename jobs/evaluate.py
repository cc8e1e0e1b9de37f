"""spark-submit entry of `recallk evaluate`: the same options, exit codes and output."""

import sys

from recallk_spark.cli import main

if __name__ == "__main__":
    sys.exit(main(["evaluate", *sys.argv[1:]]))
