#!/usr/bin/env python3
"""A log of measurements that grows while others read it: rows of a time, a sensor and a value in one array.

    measurements.py HEAP record SENSOR VALUE...     appends rows; each run goes on where the last one has stopped
    measurements.py HEAP summary                    reads beside the recorder, without a copy
"""

import sys

import numpy

import holdfast

ROW = numpy.dtype([("when", "M8[us]"), ("sensor", "U12"), ("value", "f8")])


def record(path, sensor, *values):
    """Appends one row for each value, in one transaction."""
    rows = numpy.zeros(len(values), ROW)
    rows["when"] = numpy.datetime64("now", "us")
    rows["sensor"] = sensor
    rows["value"] = values
    with holdfast.open(path) as heap:
        if "log" not in heap:
            heap.array("log", 0, ROW)
        with heap.transaction():
            heap.append("log", rows)
        print(f"{len(heap['log'])} rows")


def summary(path):
    """The mean of each sensor."""
    with holdfast.open(path, mode="r") as heap:
        log = heap["log"]
        for sensor in numpy.unique(log["sensor"]):
            values = log["value"][log["sensor"] == sensor]
            print(f"{sensor}: {len(values)} values, mean {values.mean():.2f}")


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[2] not in ("record", "summary"):
        sys.exit(__doc__)
    {"record": record, "summary": summary}[sys.argv[2]](sys.argv[1], *sys.argv[3:])
