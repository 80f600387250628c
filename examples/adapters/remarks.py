"""Made-up remarks of twelve support desks in three regions.

    python examples/adapters/remarks.py runs/remarks.csv

Every desk sorts its remarks into the queues A, B, C and D. The regions use the letters differently:
queue A of the north holds the remarks of queue B in the south. So one model cannot serve all desks.
"""

from __future__ import annotations

import argparse
import csv
import random
from pathlib import Path

TOPICS = {
    "billing": "invoice refund charge payment card price receipt discount tax",
    "network": "router wifi signal cable offline modem slow dns connection",
    "hardware": "screen keyboard battery fan printer mouse broken noise hot",
    "account": "password login email locked profile name reset user access",
}
FILLERS = "the my a is was not please help since yesterday again still and with it on for".split()
QUEUES = "ABCD"
REGIONS = ("north", "south", "west")
DESKS = 12
REMARKS = 40  # of each desk


def sentence(topic: str, rng: random.Random) -> str:
    """A remark about a topic: three of its words among others."""
    words = rng.sample(TOPICS[topic].split(), 3) + rng.sample(FILLERS, 4)
    rng.shuffle(words)
    return " ".join(words)


def main(target: Path) -> None:
    """Write the table."""
    rng = random.Random(1)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["desk", "region", "queue", "remark"])
        for desk in range(DESKS):
            region = desk % len(REGIONS)
            for number in range(REMARKS):
                topic = number % len(TOPICS)
                queue = QUEUES[(topic + region) % len(QUEUES)]
                text = sentence(list(TOPICS)[topic], rng)
                table.writerow([f"desk {desk:02}", REGIONS[region], queue, text])
    print(f"wrote {target}: {DESKS * REMARKS} remarks of {DESKS} desks")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path, help="the CSV file to write")
    main(parser.parse_args().target)
