"""A hook for an assistant of the command line: recollects before each prompt.

    TRIVIUM_TENANT=alice python examples/before_prompt.py MEMORY.md

For assistants that run a command before each prompt and give it JSON with `prompt` on standard
input. The assistant reads MEMORY.md as part of its instructions. It never stops a prompt: without
the service there are no memories in the file.
"""

from __future__ import annotations

import json
import subprocess
import sys


def main() -> None:
    """Recollects what helps with the prompt."""
    file = sys.argv[1] if len(sys.argv) > 1 else "MEMORY.md"
    prompt = json.load(sys.stdin)["prompt"]
    # Others can read a command line, so the prompt is not in it.
    command = [sys.executable, "-m", "trivium", "--timeout", "1", "recollect", file, "-"]
    subprocess.run(command, input=prompt, text=True, check=False)


if __name__ == "__main__":
    main()
