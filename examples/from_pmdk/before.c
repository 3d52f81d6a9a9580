/* A list of notes in a pool of libpmemobj: the program before it is ported.
 *
 *     before POOL add STARS TEXT... | list */
#include <unistd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool.h"

static int add(PMEMobjpool* pool, int32_t stars, const char* text) {
    TOID(struct pool_notes) root = POBJ_ROOT(pool, struct pool_notes);
    volatile int failed = 0;
    TX_BEGIN(pool) {
        TOID(struct pool_note) made = TX_ZNEW(struct pool_note);
        D_RW(made)->stars = stars;
        strncpy(D_RW(made)->text, text, sizeof D_RW(made)->text - 1);
        D_RW(made)->next = D_RO(root)->first;
        TX_ADD(root);
        D_RW(root)->first = made;
        D_RW(root)->count += 1;
    }
    TX_ONABORT { failed = 1; }
    TX_END
    return failed;
}

static void list(PMEMobjpool* pool) {
    TOID(struct pool_notes) root = POBJ_ROOT(pool, struct pool_notes);
    for (TOID(struct pool_note) each = D_RO(root)->first; !TOID_IS_NULL(each); each = D_RO(each)->next) {
        printf("%d %s\n", D_RO(each)->stars, D_RO(each)->text);
    }
    printf("%llu notes\n", (unsigned long long)D_RO(root)->count);
}

int main(int count, char** arguments) {
    if (count < 3) {
        fprintf(stderr, "usage: before POOL add STARS TEXT... | list\n");
        return 2;
    }
    PMEMobjpool* pool = access(arguments[1], F_OK) == 0
                            ? pmemobj_open(arguments[1], POBJ_LAYOUT_NAME(notes))
                            : pmemobj_create(arguments[1], POBJ_LAYOUT_NAME(notes), PMEMOBJ_MIN_POOL, 0600);
    if (pool == NULL) {
        fprintf(stderr, "before: %s\n", pmemobj_errormsg());
        return 1;
    }
    int failed = 0;
    for (int i = 4; i < count && strcmp(arguments[2], "add") == 0; ++i) {
        failed |= add(pool, atoi(arguments[3]), arguments[i]);
    }
    if (strcmp(arguments[2], "list") == 0) {
        list(pool);
    }
    pmemobj_close(pool);
    return failed;
}
