/* before.c after its port to Holdfast.
 *
 *     after HEAP add STARS TEXT... | list */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "notes.h"

static int add(hf_heap* heap, struct notes* root, int32_t stars, const char* text) {
    hf_transaction* tx = NULL;
    if (hf_begin(heap, &tx) != HF_OK) {
        return 1;
    }
    struct notes* notes = HF_OPEN(tx, root);
    struct note* made = HF_NEW_IN(tx, struct note);
    if (notes == NULL || made == NULL) {
        hf_abort(tx);
        return 1;
    }
    made->stars = stars;
    strncpy(made->text, text, sizeof made->text - 1);
    notes->count += 1;
    if (HF_SET_IN(tx, made->next, HF_GET_IN(tx, notes->first)) != HF_OK || HF_SET_IN(tx, notes->first, made) != HF_OK) {
        hf_abort(tx);
        return 1;
    }
    return hf_commit_transaction(tx) != HF_OK;
}

static void list(const struct notes* root) {
    for (const struct note* each = HF_GET(root->first); each != NULL; each = HF_GET(each->next)) {
        printf("%d %s\n", each->stars, each->text);
    }
    printf("%llu notes\n", (unsigned long long)root->count);
}

int main(int count, char** arguments) {
    if (count < 3) {
        fprintf(stderr, "usage: after HEAP add STARS TEXT... | list\n");
        return 2;
    }
    hf_options options = HF_OPTIONS_INIT;
    options.durability = HF_DURABILITY_ATOMIC;
    hf_heap* heap = NULL;
    struct notes* root = NULL;
    if (hf_open_or_create(arguments[1], &options, &heap) != HF_OK ||
        (root = HF_OBJECT(heap, "notes", struct notes)) == NULL) {
        fprintf(stderr, "after: %s\n", hf_errormsg());
        return 1;
    }
    int failed = 0;
    for (int i = 4; i < count && strcmp(arguments[2], "add") == 0; ++i) {
        failed |= add(heap, root, atoi(arguments[3]), arguments[i]);
    }
    if (strcmp(arguments[2], "list") == 0) {
        list(root);
    }
    if (failed != 0) {
        fprintf(stderr, "after: %s\n", hf_errormsg());
    }
    return hf_close(heap) != HF_OK || failed != 0;
}
