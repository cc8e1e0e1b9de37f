"""Settings under which small jobs are quick."""

from __future__ import annotations

# Many small plans, each run once: to compile them costs several times what running them does. The command line's tests
# run compiled plans, and the benchmark does.
UNCOMPILED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}

# of a process that ends soon: what the JIT's second tier would compile is hardly run again
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# of a session of its own, in this process or another
LOCAL = {
    **UNCOMPILED,
    "spark.driver.extraJavaOptions": JAVA,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # as in a session of the command line
}
