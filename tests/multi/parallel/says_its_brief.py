"""A process of a crew that says what it was told."""

import os
import sys

from laminar.parallel.crew import read_brief


def main() -> int:
    brief = read_brief()
    told = brief.told
    brief.say({"done": [told["word"], told["rank"], os.environ.get("LAMINAR_WORD"), "torch" in sys.modules]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
