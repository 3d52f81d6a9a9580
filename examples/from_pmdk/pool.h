/* What the program kept in a pool of libpmemobj. */
#pragma once

#include <libpmemobj.h>
#include <stdint.h>

struct pool_note;
struct pool_notes;
POBJ_LAYOUT_BEGIN(notes);
POBJ_LAYOUT_ROOT(notes, struct pool_notes);
POBJ_LAYOUT_TOID(notes, struct pool_note);
POBJ_LAYOUT_END(notes);

struct pool_note {
    TOID(struct pool_note) next;
    int32_t stars;
    char text[100];
};
struct pool_notes {
    TOID(struct pool_note) first;
    uint64_t count;
};
