#!/usr/bin/env python3
"""Jobs that several processes do together, from one heap, without a server. Any of them may be killed.

    workers.py HEAP add N            adds N jobs
    workers.py HEAP work [WORKERS]   does jobs in so many processes (4) until none is left, and replaces those that die
    workers.py HEAP status           how many wait, how many are done, and the sum of the results

Each process opens the heap with shared=True. A transaction has the heap's turn among them, and is durable when it ends.
A worker takes a job in one turn, works without it, and stores the result in another one; what it had taken when it was
killed goes back to those that wait.
"""

import multiprocessing.connection
import sys

import holdfast


def open_jobs(path):
    """The heap, with its parts, which whichever process comes first makes."""
    heap = holdfast.open(path, shared=True)
    with heap.transaction():
        for name in ("waiting", "taken", "done"):
            heap.setdefault(name, {})
    return heap


def add(heap, count):
    """Adds jobs, all or none."""
    with heap.transaction():
        first = len(heap["waiting"]) + len(heap["done"])
        heap["waiting"].update({number: {"n": number} for number in range(first, first + count)})


def take(heap, worker):
    """A job for this worker; None where none waits."""
    with heap.transaction():
        if not heap["waiting"]:
            return None
        number, job = heap["waiting"].popitem()
        heap["taken"][number] = {**job, "worker": worker}
        return number, job


def work(path, worker):
    """In a process of its own: does jobs until none waits."""
    with open_jobs(path) as heap:
        while (taken := take(heap, worker)) is not None:
            number, job = taken
            result = job["n"] ** 2  # whatever takes its time: other processes have their turns
            with heap.transaction():
                del heap["taken"][number]
                heap["done"][number] = result


def put_back(heap, worker):
    """What a worker that was killed had taken waits again."""
    with heap.transaction():
        for number, job in heap["taken"].to_python().items():
            if job.pop("worker") == worker:
                del heap["taken"][number]
                heap["waiting"][number] = job


def supervise(path, heap, count):
    """Starts workers, and others in the place of those that die."""
    context = multiprocessing.get_context("spawn")
    running, started = {}, 0
    heap.refresh()
    while running or heap["waiting"]:
        while len(running) < count and heap["waiting"]:
            started += 1
            running[started] = context.Process(target=work, args=(path, started))
            running[started].start()
        multiprocessing.connection.wait([process.sentinel for process in running.values()])
        for worker, process in list(running.items()):
            if not process.is_alive():
                process.join()
                put_back(heap, worker)
                del running[worker]
        heap.refresh()


def main(path, command, *arguments):
    """One run of the program."""
    with open_jobs(path) as heap:
        if command == "add":
            add(heap, int(arguments[0]))
        elif command == "work":
            for worker in {job["worker"] for job in heap["taken"].values()}:  # of a run that was killed as a whole
                put_back(heap, worker)
            supervise(path, heap, int(arguments[0]) if arguments else 4)
        heap.refresh()
        print(f"{len(heap['waiting'])} waiting, {len(heap['done'])} done, sum {sum(heap['done'].values())}")


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[2] not in ("add", "work", "status"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
