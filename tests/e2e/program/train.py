"""A training program as people write them: reads its settings from the card, logs a line a step, resumes from its own checkpoint."""

import json
import sys
import time
from pathlib import Path

card, out = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
settings, seed, steps = card["command"]["settings"], card["seed"], card["target_steps"]
checkpoint = out / "step.txt"
done = int(checkpoint.read_text()) if checkpoint.exists() else 0
if settings.get("fail") == "crash":
    raise SystemExit("CUDA error: device-side assert")
last = settings.get("stop_at", steps)
if settings.get("fail") == "silent":
    raise SystemExit(0)
with (out / "log.jsonl").open("a") as log:
    for step in range(done + 1, last + 1):
        gradient = float("nan") if settings.get("fail") == "nan" and step > 5 else 0.1
        reward = 0.2 + settings["gain"] * step + seed / 1000
        log.write(json.dumps({"step": step, "reward": reward, "clipped": 0.1, "zero": 0.0, "grad_norm": gradient}) + "\n")
        log.flush()
        checkpoint.write_text(str(step))
        time.sleep(settings.get("seconds", 0))
