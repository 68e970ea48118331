#!/usr/bin/env python3
"""Takes the blocks of a page that belong to one test out of it.

  page.py PAGE                lists the tests of the page
  page.py PAGE TEST FOLDER    writes them: "sh" blocks as run.sh, a block with
                              file=NAME as that file, "output" blocks as expect
"""

import os
import re
import sys

BLOCK = re.compile(r"^```(\w+)((?: \w+=\S+)+)\n(.*?)^```$", re.M | re.S)


def blocks(page):
    with open(page, encoding="utf-8") as f:
        for kind, attributes, text in BLOCK.findall(f.read()):
            a = dict(x.split("=", 1) for x in attributes.split())
            if "test" in a:
                yield a["test"], kind, a.get("file"), text


def main():
    page, *rest = sys.argv[1:]
    if not rest:
        print("\n".join(dict.fromkeys(test for test, *_ in blocks(page))))
        return
    test, folder = rest
    found = False
    for name, kind, file, text in blocks(page):
        if name != test:
            continue
        target = file or {"sh": "run.sh", "output": "expect"}[kind]
        with open(os.path.join(folder, target), "a", encoding="utf-8") as f:
            f.write(text)
        found = True
    if not found:
        sys.exit(f"{page} has no block of the test {test}")


if __name__ == "__main__":
    main()
