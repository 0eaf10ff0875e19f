"""Speaks the Lean REPL's protocol over a plain `lean`: JSON commands and answers, each followed by an empty line.

An environment is the text that led to it. Words in a command make it misbehave, as a REPL can. Run with the path of `lean`.
"""

import json
import os
import subprocess
import sys

texts = []


def commands():
    lines = []
    for line in sys.stdin:
        if line.strip():
            lines.append(line)
        elif lines:
            yield json.loads("".join(lines))
            lines = []


def misbehave(text):
    if "standin_dies" in text:
        os._exit(1)
    if "standin_overflows" in text:
        print("\nStack overflow detected. Aborting.", file=sys.stderr, flush=True)
        os.abort()
    if "standin_babbles" in text:
        print("Could not parse JSON\n", flush=True)
    if "standin_answers_twice" in text:
        print('{"env": 1}\n', flush=True)
    if "standin_refuses" in text:
        print('{"message": "Unknown environment."}\n', flush=True)
    if "standin_burns" in text:
        while True:
            pass
    if "standin_eats" in text:
        held = []
        while True:
            held.append(bytearray(2**24))


for command in commands():
    before = texts[command["env"]] if "env" in command else ""
    misbehave(command["cmd"])
    whole = before + command["cmd"] + "\n"
    output = subprocess.run([sys.argv[1], "--json", "--stdin"], input=whole, capture_output=True, text=True).stdout
    offset = before.count("\n")
    messages = []
    for message in map(json.loads, output.splitlines()):
        if message["pos"]["line"] > offset:
            severity = {"information": "info"}.get(message["severity"], message["severity"])
            place = {"line": message["pos"]["line"] - offset, "column": message["pos"]["column"]}
            messages.append({"severity": severity, "pos": place, "endPos": None, "data": message["data"]})
    texts.append(whole)
    answer = {"env": len(texts) - 1}
    if messages:
        answer["messages"] = messages
    print(json.dumps(answer, indent=1) + "\n", flush=True)
