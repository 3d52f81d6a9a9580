/* The notes in a heap, as after.c keeps them: with pointers of 8 bytes. */
#pragma once

#include <holdfast/typed.h>

struct note {
    HF_PTR(struct note) next;
    int32_t stars;
    char text[100];
};
struct notes {
    HF_PTR(struct note) first;
    uint64_t count;
};
