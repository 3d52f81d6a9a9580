/* Expectations of the C tests: each that fails is printed and counted. */
#pragma once

#include <holdfast/holdfast.h>
#include <stdio.h>
#include <stdlib.h>

static int failures = 0;

#define EXPECT(condition)                                                                                  \
    do {                                                                                                   \
        if (!(condition)) {                                                                                \
            fprintf(stderr, "%s:%d: %s: last error: %s\n", __FILE__, __LINE__, #condition, hf_errormsg()); \
            ++failures;                                                                                    \
        }                                                                                                  \
    } while (0)
/* Without the heap there is nothing left to test. */
#define REQUIRE(condition)                    \
    do {                                      \
        const int failures_before = failures; \
        EXPECT(condition);                    \
        if (failures != failures_before) {    \
            exit(EXIT_FAILURE);               \
        }                                     \
    } while (0)
