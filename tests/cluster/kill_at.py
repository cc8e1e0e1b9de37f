"""Kills a process group the moment files appear: python -c SOURCE PATTERN COUNT PIDFILE SECONDS.

It runs inside the driver's container, where it is as quick as the moment is short.
"""

import glob
import os
import signal
import sys
import time

pattern, count, pidfile, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
end = time.monotonic() + seconds
while len(glob.glob(pattern)) < count:
    if time.monotonic() > end:
        sys.exit(f"waited in vain for {count} of {pattern}")
    time.sleep(0.001)
with open(pidfile) as file:
    os.killpg(int(file.read()), signal.SIGKILL)
