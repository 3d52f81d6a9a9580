/* graph.cpp in C: nodes that point to each other.
 *
 * A search marks the nodes. It has the heap open read-only, so that its marks are this process's own and are gone when
 * the heap is closed. */
#include <holdfast/holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    hf_ptr next;  /* of all nodes */
    hf_ptr edges; /* the first of them */
    hf_ptr came_from;
    hf_ptr queued; /* the next one to visit */
    char name[];
};
struct edge {
    hf_ptr next;
    hf_ptr to;
};

static void require(int holds) {
    if (!holds) {
        fprintf(stderr, "graph: %s\n", hf_errormsg());
        exit(1); /* without hf_close(): the last commit stands */
    }
}

static void* new_block(hf_heap* heap, size_t bytes) {
    void* block = hf_calloc(heap, 1, bytes);
    require(block != NULL);
    return block;
}

static struct node* find(hf_heap* heap, const char* name) {
    struct node* node = hf_root_get(heap, 0);
    while (node != NULL && strcmp(node->name, name) != 0) {
        node = hf_ptr_get(&node->next);
    }
    return node;
}

static struct node* find_or_add(hf_heap* heap, const char* name) {
    struct node* node = find(heap, name);
    if (node == NULL) {
        node = new_block(heap, sizeof *node + strlen(name) + 1);
        strcpy(node->name, name);
        hf_ptr_set(&node->next, hf_root_get(heap, 0));
        require(hf_root_set(heap, 0, node) == HF_OK);
    }
    return node;
}

static void connect(hf_heap* heap, struct node* from, struct node* to) {
    for (const struct edge* edge = hf_ptr_get(&from->edges); edge != NULL; edge = hf_ptr_get(&edge->next)) {
        if (hf_ptr_get(&edge->to) == to) {
            return;
        }
    }
    struct edge* edge = new_block(heap, sizeof *edge);
    hf_ptr_set(&edge->to, to);
    hf_ptr_set(&edge->next, hf_ptr_get(&from->edges));
    hf_ptr_set(&from->edges, edge);
}

/* Breadth first, from the end to the beginning, so that came_from leads the way. */
static void print_path(struct node* from, struct node* to) {
    struct node* last = to;
    hf_ptr_set(&to->came_from, to);
    for (struct node* node = to; node != NULL; node = hf_ptr_get(&node->queued)) {
        for (const struct edge* edge = hf_ptr_get(&node->edges); edge != NULL; edge = hf_ptr_get(&edge->next)) {
            struct node* neighbour = hf_ptr_get(&edge->to);
            if (hf_ptr_get(&neighbour->came_from) == NULL) {
                hf_ptr_set(&neighbour->came_from, node);
                hf_ptr_set(&last->queued, neighbour);
                last = neighbour;
            }
        }
    }
    for (struct node* node = hf_ptr_get(&from->came_from) == NULL ? NULL : from; node != NULL;) {
        puts(node->name);
        node = node == to ? NULL : hf_ptr_get(&node->came_from);
    }
}

int main(int argc, char** argv) {
    hf_heap* heap = NULL;
    if (argc > 4 && argc % 2 == 1 && strcmp(argv[2], "add") == 0) {
        require(hf_open_or_create(argv[1], NULL, &heap) == HF_OK);
        for (int i = 3; i + 1 < argc; i += 2) {
            struct node* a = find_or_add(heap, argv[i]);
            struct node* b = find_or_add(heap, argv[i + 1]);
            connect(heap, a, b);
            connect(heap, b, a);
        }
    } else if (argc == 5 && strcmp(argv[2], "path") == 0) {
        require(hf_open_read_only(argv[1], NULL, &heap) == HF_OK);
        struct node* from = find(heap, argv[3]);
        struct node* to = find(heap, argv[4]);
        if (from == NULL || to == NULL) {
            fprintf(stderr, "graph: there is no node %s\n", from == NULL ? argv[3] : argv[4]);
            return 1;
        }
        print_path(from, to);
    } else {
        fprintf(stderr, "usage: graph HEAP add A B [C D]... | path A B\n");
        return 2;
    }
    require(hf_close(heap) == HF_OK); /* commits: all edges of this run, or none */
    return 0;
}
