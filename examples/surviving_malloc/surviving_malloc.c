/* A malloc that survives: a program that keeps a list of lines in memory of malloc and free. Three things make it
 * persistent: the heap is opened, links are HF_PTR, and hf_commit() says when what was done counts. A crash leads back
 * to the last commit: blocks that were allocated or freed since are as they were then. */
#include <holdfast/holdfast.h>
#include <holdfast/typed.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct line {
    HF_PTR(struct line) next;
    char text[]; /* with a zero at its end */
};
struct lines {
    HF_PTR(struct line) first;
    unsigned long count;
};

static void require(int holds) {
    if (!holds) {
        fprintf(stderr, "surviving_malloc: %s\n", hf_errormsg());
        exit(1);
    }
}

static void push(hf_heap* heap, struct lines* all, const char* text) {
    const size_t size = strlen(text) + 1;
    struct line* made = hf_malloc(heap, sizeof *made + size);
    require(made != NULL);
    memcpy(made->text, text, size);
    HF_SET(made->next, HF_GET(all->first));
    HF_SET(all->first, made);
    ++all->count;
}

static void pop(hf_heap* heap, struct lines* all) {
    struct line* last = HF_GET(all->first);
    if (last != NULL) {
        HF_SET(all->first, HF_GET(last->next));
        --all->count;
        require(hf_free(heap, last) == HF_OK);
    }
}

int main(int argc, char** argv) {
    const char* command = argc > 2 ? argv[2] : "";
    if (strcmp(command, "push") != 0 && strcmp(command, "pop") != 0 && strcmp(command, "list") != 0) {
        fprintf(stderr, "usage: surviving_malloc HEAP push TEXT... | pop [TIMES] | list\n");
        return 2;
    }
    hf_heap* heap = NULL;
    require(hf_open_or_create(argv[1], NULL, &heap) == HF_OK);
    struct lines* all = HF_OBJECT(heap, "lines", struct lines);
    require(all != NULL);
    if (strcmp(command, "push") == 0) {
        for (int i = 3; i < argc; ++i) {
            push(heap, all, argv[i]);
            require(hf_commit(heap) == HF_OK);
        }
    } else if (strcmp(command, "pop") == 0) {
        for (long left = argc > 3 ? strtol(argv[3], NULL, 10) : 1; left > 0; --left) {
            pop(heap, all);
            require(hf_commit(heap) == HF_OK);
        }
    } else {
        for (const struct line* each = HF_GET(all->first); each != NULL; each = HF_GET(each->next)) {
            puts(each->text);
        }
        fprintf(stderr, "%lu lines\n", all->count);
    }
    require(hf_close(heap) == HF_OK);
    return 0;
}
