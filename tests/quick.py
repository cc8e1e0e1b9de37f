"""Settings under which small jobs are quick."""

from __future__ import annotations

# Many small plans, each run once: compiling them (by Janino, then by the JIT's second tier) costs several times what
# running them does. The command line's tests run compiled plans, and the benchmark does.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
UNCOMPILED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

# of a session of its own, in this process or another
LOCAL = {
    **UNCOMPILED,
    "spark.driver.extraJavaOptions": JAVA,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # as in a session of the command line
}
