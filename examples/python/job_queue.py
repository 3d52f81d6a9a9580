#!/usr/bin/env python3
"""A job queue that survives kill -9: no job is lost, and none is done twice.

    job_queue.py HEAP add N       adds N jobs
    job_queue.py HEAP work        does jobs until none is left; kill it and start it again
    job_queue.py HEAP status      how many wait, how many are done, and the sum of the results

The heap is open in durability "atomic": a transaction that has ended survives the process, for the price of one record
in the log, and no call of the file system. Without accept_process_crash_only it survives a loss of power, too, and
waits for a write to the disk.
"""

import sys

import holdfast


def open_queue(path):
    """The heap, with the queue's parts."""
    heap = holdfast.open(path, durability="atomic", accept_process_crash_only=True)
    with heap.transaction():
        heap.setdefault("waiting", {})
        heap.setdefault("done", {})
        heap.setdefault("next", 0)
    return heap


def add(heap, count):
    """Adds jobs, all or none."""
    with heap.transaction():
        for number in range(heap["next"], heap["next"] + count):
            heap["waiting"][number] = {"n": number, "text": f"job {number}"}
        heap["next"] += count


def work(heap):
    """Takes a job and keeps its result, in one transaction: a kill leaves the job waiting or done."""
    waiting, done = heap["waiting"], heap["done"]
    print(f"{len(waiting)} jobs to do", flush=True)
    while waiting:
        with heap.transaction():
            number = next(iter(waiting))
            job = waiting.pop(number)
            done[number] = job["n"] ** 2


def status(heap):
    """Prints what there is."""
    print(f"{len(heap['waiting'])} waiting, {len(heap['done'])} done, sum {sum(heap['done'].values())}")


def main(path, command, *arguments):
    """One run of the program."""
    with open_queue(path) as heap:
        if command == "add":
            add(heap, int(arguments[0]))
        elif command == "work":
            work(heap)
        status(heap)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[2] not in ("add", "work", "status"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
