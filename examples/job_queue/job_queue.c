/* job_queue.cpp in C: a queue of jobs that survives kill -9. In a transaction, hf_open_range() gives copies of ranges,
 * in which pointers are read and written with hf_ptr_get_in() and hf_ptr_set_in(). */
#include <holdfast/holdfast.h>
#include <holdfast/transaction.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct job {
    hf_ptr next;
    uint64_t number;
};
struct job_queue {
    hf_ptr first;
    hf_ptr last;
    uint64_t waiting;
    uint64_t done;
    uint64_t sum;
};

/* Ends the program on a failure; a transaction that is open then is as if it had never begun. */
static void require(int holds) {
    if (!holds) {
        fprintf(stderr, "job_queue: %s\n", hf_errormsg());
        exit(1);
    }
}

static void add(hf_heap* heap, struct job_queue* queue, uint64_t number) {
    hf_transaction* tx = NULL;
    require(hf_begin(heap, &tx) == HF_OK);
    struct job_queue* changed = hf_open_range(tx, queue, sizeof *queue);
    struct job* fresh = hf_allocate_in(tx, sizeof *fresh, NULL);
    require(changed != NULL && fresh != NULL);
    memset(fresh, 0, sizeof *fresh);
    fresh->number = number;
    struct job* last = hf_ptr_get_in(tx, &changed->last);
    hf_ptr* link = &changed->first;
    if (last != NULL) {
        last = hf_open_range(tx, last, sizeof *last);
        require(last != NULL);
        link = &last->next;
    }
    require(hf_ptr_set_in(tx, link, fresh) == HF_OK);
    require(hf_ptr_set_in(tx, &changed->last, fresh) == HF_OK);
    ++changed->waiting;
    require(hf_commit_transaction(tx) == HF_OK);
}

static uint64_t work_on(uint64_t number) {
    uint64_t steps = 0;
    for (; number > 1; ++steps) {
        number = number % 2 == 0 ? number / 2 : 3 * number + 1;
    }
    return steps;
}

/* Takes the first job out of the queue and enters its result, both at once. */
static void finish(hf_heap* heap, struct job_queue* queue, uint64_t result) {
    hf_transaction* tx = NULL;
    require(hf_begin(heap, &tx) == HF_OK);
    struct job_queue* changed = hf_open_range(tx, queue, sizeof *queue);
    require(changed != NULL);
    struct job* finished = hf_ptr_get(&queue->first);
    struct job* next = hf_ptr_get(&finished->next);
    require(hf_ptr_set_in(tx, &changed->first, next) == HF_OK);
    if (next == NULL) {
        require(hf_ptr_set_in(tx, &changed->last, NULL) == HF_OK);
    }
    require(hf_free_in(tx, finished) == HF_OK);
    --changed->waiting;
    ++changed->done;
    changed->sum += result;
    require(hf_commit_transaction(tx) == HF_OK);
}

int main(int argc, char** argv) {
    const char* command = argc > 2 ? argv[2] : "";
    if (strcmp(command, "add") != 0 && strcmp(command, "work") != 0 && strcmp(command, "status") != 0) {
        fprintf(stderr, "usage: job_queue HEAP add NUMBER... | work | status\n");
        return 2;
    }
    hf_options options = HF_OPTIONS_INIT;
    options.durability = HF_DURABILITY_ATOMIC;
    options.accept_process_crash_only = 1;
    hf_heap* heap = NULL;
    struct job_queue* queue = NULL;
    require(hf_open_or_create(argv[1], &options, &heap) == HF_OK);
    require(hf_object_find_or_create(heap, "jobs", "queue", sizeof *queue, 1, (void**)&queue, NULL) == HF_OK);
    for (int i = 3; i < argc && strcmp(command, "add") == 0; ++i) {
        add(heap, queue, strtoull(argv[i], NULL, 10));
    }
    while (strcmp(command, "work") == 0 && hf_ptr_get(&queue->first) != NULL) {
        const struct job* next = hf_ptr_get(&queue->first);
        finish(heap, queue, work_on(next->number)); /* a kill in work_on() leaves the job in the queue */
    }
    if (strcmp(command, "status") == 0) {
        printf("waiting %llu, done %llu, sum %llu\n", (unsigned long long)queue->waiting,
               (unsigned long long)queue->done, (unsigned long long)queue->sum);
    }
    require(hf_close(heap) == HF_OK);
    return 0;
}
