"""What a new user does with an installed package: runs the example of the README given here."""

import re
import subprocess
import sys
import time

start = time.perf_counter()
import numpy as np  # noqa: E402

numpys = time.perf_counter() - start
start = time.perf_counter()
import syncline  # noqa: E402

print(f"import: numpy {1e3 * numpys:.0f} ms, syncline {1e3 * (time.perf_counter() - start):.1f} ms")
with open(sys.argv[1]) as readme:
    example = re.search(r"```python\n(.*?)```", readme.read(), re.DOTALL)[1]
exec(example)
warm = globals()["warm"]
assert isinstance(warm, np.ndarray) and warm.shape == (1000, 1000)
with syncline.Pool(1) as pool:
    assert pool.submit(abs, -3).result() == 3
told = subprocess.run(
    [sys.executable, "-m", "syncline", "--version"], capture_output=True, text=True
)
print(sys.version.split()[0], syncline.__version__, told.stdout.strip() or told.stderr.strip())
