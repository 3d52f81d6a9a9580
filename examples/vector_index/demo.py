#!/usr/bin/env python3
"""The vector index, shown: built over real texts, killed twice, opened at once by four processes, and checked.

    demo.py --program vector_index --work DIR (--lists DIR | --texts FILE) [--limit N] [--twice]

Texts are the sentences in the descriptions of Debian's packages (--lists: a directory with apt's lists), or the lines
of a file. Each becomes 64 numbers by TF-IDF and a singular value decomposition; one in 200 is no part of the index, and
asked for. The builder is killed half way and when it is done, with SIGKILL. The answers are compared with those of a
search through all vectors. Beside the open of the heap stand the times to load the same vectors from other files, each
in a new process with the file in the page cache. Exit status: 0; 1 where something is not as it must be.
"""

import argparse
import pathlib
import pickle
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

import hnswlib
import numpy
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

DIMENSIONS = 64
LINKS = 16
EFFORT = 100
COUNT = 10
READERS = 4
EFFORTS = (50, 100, 200)  # of a search; the recall of the last one is judged
LEAST_RECALL = 0.95

LOAD = {
    "the index's own file (hnswlib)": """
import sys, time, hnswlib, numpy
begin = time.perf_counter()
index = hnswlib.Index("l2", int(sys.argv[2])); index.load_index(sys.argv[1])
""",
    "pickle (of hnswlib's index)": """
import sys, time, pickle, hnswlib, numpy
begin = time.perf_counter()
index = pickle.load(open(sys.argv[1], "rb"))
""",
    "numpy.load (vectors alone, no index)": """
import sys, time, numpy
begin = time.perf_counter()
index = numpy.load(sys.argv[1])
""",
}


def say(text):
    """A line, at once."""
    print(text, flush=True)


def sentences(lines):
    """The sentences of descriptions, in the format of apt's Translation-en, each once."""
    seen, paragraph = {}, []

    def end():
        for sentence in re.split(r"(?<=[.!?:;])\s+", " ".join(paragraph)):
            if len(sentence) >= 20:
                seen.setdefault(sentence)
        paragraph.clear()

    for line in lines:
        summary = line.startswith("Description-en: ")
        if summary or not line.startswith(" ") or line.startswith((" .", "  ")):
            end()
        if summary or (line.startswith(" ") and not line.startswith(" .")):
            paragraph.append(line.removeprefix("Description-en: ").strip(" *-"))
        if summary:
            end()
    end()
    return list(seen)


def texts_of(options):
    """All texts, in an order that tells nothing about them."""
    if options.texts:
        found = list(dict.fromkeys(line for line in options.texts.read_text().splitlines() if len(line) >= 20))
    else:
        lists = sorted(options.lists.glob("*_Translation-en*"))
        if not lists:
            sys.exit(f"{options.lists}: there is no list of descriptions (Translation-en)")
        told = (subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", file], stdout=subprocess.PIPE) for file in lists)
        found = sentences(line for each in told for line in each.stdout.decode(errors="replace").splitlines())
    random.Random(1).shuffle(found)
    return found[: options.limit]


def embed(texts):
    """A vector of length 1 for each text, and the texts: those without a word that another one has are left out."""
    weights = TfidfVectorizer(sublinear_tf=True, min_df=2, max_features=50000, dtype=numpy.float32).fit_transform(texts)
    reduced = TruncatedSVD(DIMENSIONS, n_iter=2, random_state=1).fit_transform(weights)
    vectors = normalize(reduced).astype("f4")
    known = numpy.linalg.norm(vectors, axis=1) > 0.5  # zeros are near to all by distance, and to none by angle
    return [text for text, is_known in zip(texts, known) if is_known], vectors[known]


class Index:
    """The program, and the heap that it works on."""

    def __init__(self, program, heap, vectors):
        self.program, self.heap, self.vectors = program, heap, vectors

    def start(self, command, *arguments):
        """Starts the program."""
        line = [self.program, command, "--heap", self.heap, *map(str, arguments)]
        return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def build(self, until, commit_every, heap=None):
        """Runs the builder until it says so, and kills it. How many were there at first, and what it told last."""
        builder = Index(self.program, heap or self.heap, self.vectors).start(
            "build", "--vectors", self.vectors, "--dimensions", DIMENSIONS, "--links", LINKS, "--effort", EFFORT,
            "--commit-every", commit_every, "--stay",
        )  # fmt: skip
        there = int(builder.stdout.readline().split()[0])
        told = there
        for line in builder.stdout:
            if line.startswith("committed"):
                told = int(line.split()[1])
            if until(line, told):
                break
        time.sleep(0 if line.startswith("stays") else 0.3)  # into the work for the next commit
        builder.send_signal(signal.SIGKILL)
        rest = [line for line in builder.stdout if line.startswith("committed")]
        if builder.wait() != -signal.SIGKILL:
            sys.exit("the builder has ended by itself")
        return there, int(rest[-1].split()[1]) if rest else told

    def verify(self):
        """What the program says of the graph."""
        told = subprocess.run([self.program, "verify", "--heap", self.heap], stdout=subprocess.PIPE, text=True)
        if told.returncode != 0:
            sys.exit(f"verify: {told.stdout}")
        return told.stdout.strip()

    def query_all(self, queries, work, effort):
        """The answers of several processes that have the heap open at once, and what they said."""
        parts = numpy.array_split(queries, READERS)
        readers, opened = [], []
        for number, part in enumerate(parts):
            part.tofile(work / f"queries{number}")
            readers.append(self.start(
                "query", "--vectors", work / f"queries{number}", "--count", COUNT, "--effort", effort,
                "--output", work / f"answers{number}", "--wait",
            ))  # fmt: skip
            opened.append(readers[-1].stdout.readline().strip())
        for reader in readers:  # all of them have it open
            reader.stdin.write("\n")
            reader.stdin.flush()
        speeds = [float(reader.communicate()[0].split()[0]) for reader in readers]
        if any(reader.returncode != 0 for reader in readers):
            sys.exit("a reader has failed")
        answers = [numpy.fromfile(work / f"answers{n}", "u4").reshape(-1, COUNT) for n in range(READERS)]
        return numpy.concatenate(answers), opened, statistics.median(speeds)


def nearest(vectors, queries):
    """The true answers."""
    found = []
    for part in numpy.array_split(queries, max(1, len(queries) // 50)):
        nearness = part @ vectors.T  # of vectors of length 1: the order of the distances
        found.append(numpy.argpartition(-nearness, COUNT, axis=1)[:, :COUNT])
    return numpy.concatenate(found)


def recall(answers, vectors, queries, truth):
    """The share of the true answers that was found; of vectors at the same distance, each is right."""
    nearness = numpy.einsum("qd,qkd->qk", queries, vectors[answers])
    least = numpy.einsum("qd,qkd->qk", queries, vectors[truth]).min(axis=1)
    return float((nearness >= least[:, None] - 1e-5).mean())


def build_and_kill(index, count, options):
    """Builds, kills half way, goes on, kills again."""
    commit_every = max(100, count // 40)
    half = count // 2
    begin = time.perf_counter()
    _, told = index.build(lambda line, told: told >= half, commit_every)
    there, _ = index.build(lambda line, told: line.startswith("stays"), commit_every)
    say(f"killed with SIGKILL after the commit of {told} vectors; the next process found {there}, and went on")
    say(f"all {count} were added in {time.perf_counter() - begin:.0f} s, with a commit each {commit_every};"
        " killed with SIGKILL again, its heap open")  # fmt: skip
    whole = there % commit_every == 0 or there == count  # a quick builder was at the end
    if there < told or there > told + commit_every or not whole:
        sys.exit("what was there is not the last commit")
    told = index.verify()
    say(told)
    if options.twice:
        other = Index(index.program, f"{index.heap}.other", index.vectors)
        other.build(lambda line, told: line.startswith("stays"), commit_every)
        if other.verify() != told:
            sys.exit(f"an index that was not killed is another one: {other.verify()}")
        say("an index that was not killed is the same")
        shutil.rmtree(other.heap)


def load_times(vectors, queries, truth, work):
    """Makes the other files, and measures how long each takes to load."""
    begin = time.perf_counter()
    index = hnswlib.Index("l2", DIMENSIONS)
    index.init_index(len(vectors), M=LINKS, ef_construction=EFFORT, random_seed=1)
    index.add_items(vectors)
    built = time.perf_counter() - begin
    index.set_ef(EFFORTS[-1])
    found = recall(index.knn_query(queries, COUNT)[0], vectors, queries, truth)
    say(f"\nhnswlib has built its index of the same vectors in {built:.0f} s; effort {EFFORTS[-1]}: recall {found:.4f}")
    paths = dict(zip(LOAD, (str(work / name) for name in ("hnswlib", "pickle", "vectors.npy"))))
    own, pickled, plain = paths.values()
    index.save_index(own)
    with open(pickled, "wb") as file:
        pickle.dump(index, file, protocol=5)
    numpy.save(plain, vectors)
    times = {}
    for name, program in LOAD.items():
        command = [sys.executable, "-c", program + "print(time.perf_counter() - begin)", paths[name], str(DIMENSIONS)]
        told = [float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout) for _ in range(3)]
        times[name] = 1000 * statistics.median(told)
    return times


def main():
    """The demo."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--program", required=True)
    options.add_argument("--work", required=True, type=pathlib.Path)
    options.add_argument("--lists", type=pathlib.Path)
    options.add_argument("--texts", type=pathlib.Path)
    options.add_argument("--limit", type=int, default=10**9)
    options.add_argument("--twice", action="store_true", help="compare with an index that was not killed")
    options = options.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    work = options.work
    begin = time.perf_counter()
    texts, everything = embed(texts_of(options))
    asked = max(len(texts) // 200, READERS)
    queries, vectors = everything[:asked], everything[asked:]
    say(f"{len(texts)} texts, each {DIMENSIONS} numbers, in {time.perf_counter() - begin:.0f} s; {asked} are asked for")
    index = Index(options.program, str(work / "vectors.hf"), str(work / "vectors.f4"))
    shutil.rmtree(index.heap, ignore_errors=True)
    vectors.tofile(index.vectors)
    build_and_kill(index, len(vectors), options)

    truth = nearest(vectors, queries)
    say(f"\n{READERS} processes have the heap open at once, read-only:")
    for effort in EFFORTS:
        answers, opened, speed = index.query_all(queries, work, effort)
        found = recall(answers, vectors, queries, truth)
        if effort == EFFORTS[0]:
            say("\n".join(opened))
        say(f"effort {effort}: {speed:.0f} us a query in each, recall at {COUNT}: {found:.4f}")
    if found < LEAST_RECALL:
        sys.exit(f"the recall is below {LEAST_RECALL}")
    say(f"\n  {texts[0]}")
    for number in answers[0][:3]:
        say(f"    {texts[asked + number]}")

    others = load_times(vectors, queries, truth, work)
    ours = statistics.median(float(re.search(r"in ([0-9.]+) ms", line).group(1)) for line in opened)
    say(f"\nuntil {len(vectors)} vectors can be searched:\n")
    say(f"{'holdfast, opened read-only':40} {ours:9.1f} ms")
    for name, time_taken in others.items():
        say(f"{name:40} {time_taken:9.1f} ms")


if __name__ == "__main__":
    main()
