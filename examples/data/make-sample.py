#!/usr/bin/env python3
"""Makes packages-sample.xz, the package index for machines whose apt has none: all of Debian's, reduced to the fields
that examples/package_graph reads. Run it where apt has the index of a Debian release with its (security) updates:

    apt-get indextargets --format '$(FILENAME)' 'Created-By: Packages' \\
        | xargs /usr/lib/apt/apt-helper cat-file | examples/data/make-sample.py > examples/data/packages-sample.xz
"""

import lzma
import sys

FIELDS = ("Package", "Version", "Installed-Size", "Pre-Depends", "Depends", "Provides")


def reduce(stanza: str) -> str:
    kept, keeping = [], False
    for line in stanza.splitlines():
        if not line.startswith((" ", "\t")):
            keeping = line.split(":", 1)[0] in FIELDS
        if keeping:
            kept.append(line)
    return "\n".join(kept)


def main() -> None:
    stanzas = (reduce(stanza) for stanza in sys.stdin.read().split("\n\n"))
    text = "\n\n".join(stanza for stanza in stanzas if stanza) + "\n"
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
    sys.stdout.buffer.write(lzma.compress(text.encode(), check=lzma.CHECK_CRC64, filters=filters))


if __name__ == "__main__":
    main()
