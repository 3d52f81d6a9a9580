/* Transactions as a C11 program uses them. Usage: c_api_transaction_test DIRECTORY, which is created and emptied. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <holdfast/transaction.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static char heap_path[1024];

/* A list of accounts, and what they have together. */
struct account {
    hf_ptr next;
    int64_t balance;
    char name[12]; /* the last word is not filled */
};
struct bank {
    hf_ptr first;
    uint64_t accounts;
    hf_ptr last;
};

static hf_heap* open_heap(uint32_t durability) {
    hf_options options = HF_OPTIONS_INIT;
    options.durability = durability;
    options.domain = durability == HF_DURABILITY_COMMIT ? HF_DOMAIN_DETECT : HF_DOMAIN_EMULATED;
    options.accept_process_crash_only = 1;
    options.check_transactions = durability == HF_DURABILITY_COLLECT;
    options.segment_size = (uint64_t)2 << 20;
    options.reservation = (uint64_t)1 << 30;
    hf_heap* heap = NULL;
    REQUIRE(hf_open_or_create(heap_path, &options, &heap) == HF_OK);
    return heap;
}

static struct bank* bank_of(hf_heap* heap) {
    void* bank = NULL;
    REQUIRE(hf_object_find_or_create(heap, "bank", "bank", sizeof(struct bank), 1, &bank, NULL) == HF_OK);
    return bank;
}

static hf_transaction* begin(hf_heap* heap) {
    hf_transaction* tx = NULL;
    REQUIRE(hf_begin(heap, &tx) == HF_OK);
    return tx;
}

static struct bank* open_bank(hf_transaction* tx, struct bank* in_heap) {
    struct bank* copy = hf_open_range(tx, in_heap, sizeof *in_heap);
    REQUIRE(copy != NULL);
    return copy;
}

/* Adds an account in front. */
static void add_in(hf_transaction* tx, struct bank* in_heap, int64_t balance) {
    struct bank* bank = open_bank(tx, in_heap);
    struct account* fresh = hf_allocate_in(tx, sizeof *fresh, NULL);
    REQUIRE(fresh != NULL);
    memset(fresh, 0, sizeof *fresh);
    snprintf(fresh->name, sizeof fresh->name, "%d", (int)balance);
    fresh->balance = balance;
    EXPECT(hf_ptr_set_in(tx, &fresh->next, hf_ptr_get_in(tx, &bank->first)) == HF_OK);
    EXPECT(hf_ptr_set_in(tx, &bank->first, fresh) == HF_OK);
    if (hf_ptr_get_in(tx, &bank->last) == NULL) {
        EXPECT(hf_ptr_set_in(tx, &bank->last, fresh) == HF_OK);
    }
    EXPECT(hf_ptr_get_in(tx, &bank->first) == fresh);
    ++bank->accounts;
}

/* The balances from the front, as digits; -1 where the list is not sound. */
static int64_t digits_of(const struct bank* bank) {
    int64_t digits = 0;
    uint64_t count = 0;
    const struct account* last = NULL;
    for (const struct account* at = hf_ptr_get(&bank->first); at != NULL; at = hf_ptr_get(&at->next)) {
        digits = digits * 10 + at->balance;
        last = at;
        ++count;
    }
    return count == bank->accounts && last == hf_ptr_get(&bank->last) ? digits : -1;
}

static int count_block(const hf_block_info* block, void* context) {
    (void)block;
    ++*(size_t*)context;
    return 0;
}

static size_t blocks_of(const hf_heap* heap) {
    size_t count = 0;
    EXPECT(hf_for_each_block(heap, count_block, &count) == HF_OK);
    return count;
}

static void commits_all_and_aborts_all(hf_heap* heap) {
    struct bank* bank = bank_of(heap);
    void* counter = NULL;
    REQUIRE(hf_object_create(heap, "counter", "u64", 8, 1, &counter) == HF_OK);
    const size_t blocks = blocks_of(heap);
    hf_transaction* tx = begin(heap);
    add_in(tx, bank, 1);
    add_in(tx, bank, 2);
    EXPECT(hf_store_in(tx, counter, 77) == HF_OK);
    EXPECT(hf_ptr_set_in(tx, hf_root(heap, 4), bank) == HF_OK);
    EXPECT(digits_of(bank) == 0 && hf_ptr_get(hf_root(heap, 4)) == NULL);
    EXPECT(hf_commit_transaction(tx) == HF_OK);
    EXPECT(digits_of(bank) == 21);
    EXPECT(*(const uint64_t*)counter == 77 && hf_ptr_get(hf_root(heap, 4)) == bank);
    EXPECT(blocks_of(heap) == blocks + 2);

    tx = begin(heap);
    add_in(tx, bank, 3);
    EXPECT(hf_free_in(tx, hf_ptr_get_in(tx, &bank->last)) == HF_OK);
    hf_abort(tx);
    EXPECT(digits_of(bank) == 21 && blocks_of(heap) == blocks + 2);
}

static void parts_are_dropped_alone(hf_heap* heap) {
    struct bank* bank = bank_of(heap);
    hf_transaction* tx = begin(heap);
    add_in(tx, bank, 4);
    EXPECT(hf_begin_inner(tx) == HF_OK);
    add_in(tx, bank, 5);
    EXPECT(hf_begin_inner(tx) == HF_OK);
    add_in(tx, bank, 6);
    EXPECT(hf_commit_transaction(tx) == HF_OK); /* to the part that is dropped next */
    hf_abort(tx);
    EXPECT(hf_begin_inner(tx) == HF_OK);
    struct bank* copy = open_bank(tx, bank);
    struct account* second = hf_ptr_get_in(tx, &((struct account*)hf_ptr_get_in(tx, &copy->first))->next);
    struct account* changed = hf_open_range(tx, second, sizeof *second);
    REQUIRE(changed != NULL);
    EXPECT(changed->balance == 2 && strcmp(changed->name, "2") == 0);
    changed->balance = 7;
    strcpy(changed->name, "seven");
    EXPECT(hf_ptr_get_in(tx, &changed->next) == hf_ptr_get(&second->next));
    EXPECT(hf_commit_transaction(tx) == HF_OK);
    EXPECT(digits_of(bank) == 21);
    EXPECT(hf_commit_transaction(tx) == HF_OK);
    EXPECT(digits_of(bank) == 471 && strcmp(second->name, "seven") == 0);
}

static void many_ranges_find_their_pointers(hf_heap* heap) {
    enum { count = 100 };
    hf_ptr* words[count];
    for (size_t i = 0; i < count; ++i) {
        words[i] = hf_allocate_to(heap, hf_root(heap, 8 + i), 64, &(hf_traits){sizeof(hf_traits), 0, 1, 0});
        REQUIRE(words[i] != NULL);
    }
    hf_transaction* tx = begin(heap);
    for (size_t i = 0; i < count; ++i) {
        hf_ptr* copy = hf_open_range(tx, words[i], 64);
        REQUIRE(copy != NULL);
        EXPECT(hf_open_range(tx, words[i], 64) == copy);
        EXPECT(hf_ptr_set_in(tx, &copy[i % 8], words[(i + 1) % count]) == HF_OK);
        EXPECT(hf_ptr_get_in(tx, &copy[i % 8]) == words[(i + 1) % count]);
        EXPECT(hf_ptr_get_in(tx, &copy[(i + 1) % 8]) == NULL);
    }
    EXPECT(hf_commit_transaction(tx) == HF_OK);
    for (size_t i = 0; i < count; ++i) {
        EXPECT(hf_ptr_get(&words[i][i % 8]) == words[(i + 1) % count]);
        EXPECT(hf_free_from(heap, hf_root(heap, 8 + i), NULL) == HF_OK);
    }
}

/* Where transactions wait for a sync (on a disk), those of the same thread see them in their copies. */
static void those_that_wait_are_seen_and_synced(hf_heap* heap) {
    struct bank* bank = bank_of(heap);
    hf_ticket first = {7, 7};
    hf_ticket second = {7, 7};
    hf_transaction* tx = begin(heap);
    open_bank(tx, bank)->accounts += 5;
    EXPECT(hf_ptr_set_in(tx, hf_root(heap, 5), bank) == HF_OK);
    EXPECT(hf_begin_inner(tx) == HF_OK);
    EXPECT(hf_commit_later(tx, &first) == HF_INVALID_ARGUMENT); /* a part is open */
    EXPECT(hf_commit_transaction(tx) == HF_OK);
    EXPECT(hf_commit_later(tx, &first) == HF_OK);
    tx = begin(heap);
    EXPECT(hf_ptr_get_in(tx, hf_root(heap, 5)) == bank);
    open_bank(tx, bank)->accounts -= 5;
    EXPECT(hf_ptr_set_in(tx, hf_root(heap, 5), NULL) == HF_OK);
    EXPECT(hf_commit_later(tx, &second) == HF_OK);
    EXPECT(hf_sync(heap, second) == HF_OK && hf_sync(heap, first) == HF_OK && hf_sync_all(heap) == HF_OK);
    EXPECT(hf_ptr_get(hf_root(heap, 5)) == NULL);
    EXPECT(digits_of(bank) == 471);
    EXPECT(hf_commit_later(NULL, &first) == HF_INVALID_ARGUMENT);
    EXPECT(hf_sync(NULL, first) == HF_INVALID_ARGUMENT && hf_sync_all(NULL) == HF_INVALID_ARGUMENT);
}

static void* begin_elsewhere(void* heap) {
    hf_transaction* tx = NULL;
    REQUIRE(hf_begin(heap, &tx) == HF_OK);
    return tx;
}

static void* abort_elsewhere(void* tx) {
    hf_abort(tx);
    return NULL;
}

static void* in_a_thread(void* (*run)(void*), void* of) {
    pthread_t thread;
    void* result = NULL;
    REQUIRE(pthread_create(&thread, NULL, run, of) == 0 && pthread_join(thread, &result) == 0);
    return result;
}

/* Each thread counts its own: a close refuses what any of them has open, also where another one ends it. */
static void open_transactions_of_all_threads_are_counted(hf_heap* heap) {
    hf_transaction* of_thread = in_a_thread(begin_elsewhere, heap);
    hf_transaction* own = begin(heap);
    EXPECT(hf_close(heap) == HF_INVALID_ARGUMENT && strstr(hf_errormsg(), "2 open transactions") != NULL);
    hf_abort(of_thread);
    EXPECT(hf_close(heap) == HF_INVALID_ARGUMENT && strstr(hf_errormsg(), "1 open transactions") != NULL);
    in_a_thread(abort_elsewhere, own);
    for (int i = 0; i < 100; ++i) {
        hf_transaction* first = begin(heap);
        hf_transaction* second = begin(heap);
        hf_abort(first);
        hf_abort(second);
    }
    EXPECT(hf_commit(heap) == HF_OK);
}

static void misuse_is_an_error(hf_heap* heap) {
    struct bank* bank = bank_of(heap);
    char outside[16] = {0};
    hf_transaction* tx = NULL;
    EXPECT(hf_begin(NULL, &tx) == HF_INVALID_ARGUMENT && hf_begin(heap, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_begin_inner(NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_commit_transaction(NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_open_range(NULL, bank, 8) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    hf_abort(NULL);
    tx = begin(heap);
    EXPECT(hf_open_range(tx, outside, sizeof outside) == NULL && hf_errorcode() == HF_BAD_ADDRESS);
    EXPECT(hf_open_range(tx, (char*)bank + 4, 8) == NULL && hf_errorcode() == HF_BAD_ADDRESS);
    EXPECT(hf_open_range(tx, bank, SIZE_MAX) == NULL && hf_errorcode() == HF_BAD_ADDRESS);
    EXPECT(hf_open_range(tx, bank, 0) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    EXPECT(hf_open_range(tx, NULL, 8) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    EXPECT(hf_open_range(tx, bank, sizeof *bank) != NULL);
    EXPECT(hf_open_range(tx, bank, 8) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    EXPECT(strstr(hf_errormsg(), "24 bytes, as it was opened before") != NULL);
    EXPECT(hf_allocate_in(tx, SIZE_MAX / 2, NULL) == NULL);
    EXPECT(hf_free_in(tx, NULL) == HF_OK);
    EXPECT(hf_close(heap) == HF_INVALID_ARGUMENT);
    EXPECT(strstr(hf_errormsg(), "1 open transactions") != NULL);
    EXPECT(hf_free_in(tx, (char*)bank + 8) == HF_OK);
    EXPECT(hf_commit_transaction(tx) == HF_BAD_ADDRESS); /* and ends it */
    void* const block = hf_allocate(heap, 64);
    tx = begin(heap);
    EXPECT(hf_free_in(tx, block) == HF_OK && hf_free_in(tx, block) == HF_OK);
    EXPECT(hf_commit_transaction(tx) == HF_BAD_ADDRESS && strstr(hf_errormsg(), "freed already") != NULL);
    EXPECT(hf_free(heap, block) == HF_OK);
    tx = begin(heap);
    struct bank* const copy = open_bank(tx, bank);
    EXPECT(hf_ptr_set_in(tx, &copy->last, copy) == HF_INVALID_ARGUMENT);
    EXPECT(strstr(hf_errormsg(), "copy of an opened object (24 bytes)") != NULL);
    EXPECT(hf_ptr_set_in(tx, hf_root(heap, 5), outside) == HF_INVALID_ARGUMENT);
    hf_abort(tx);
    EXPECT(digits_of(bank) == 471);
}

/* With hf_options.check_transactions. */
static void broken_rules_are_named(hf_heap* heap) {
    struct bank* bank = bank_of(heap);
    hf_transaction* tx = begin(heap);
    struct bank* copy = open_bank(tx, bank);
    hf_transaction* second = begin(heap);
    EXPECT(hf_open_range(second, &bank->accounts, 8) == NULL && hf_errorcode() == HF_CONCURRENT_MODIFICATION);
    EXPECT(strstr(hf_errormsg(), "another transaction that is open has 24 bytes at offset") != NULL);
    EXPECT(hf_store_in(second, &bank->accounts, 7) == HF_CONCURRENT_MODIFICATION);
    hf_abort(second);
    copy->accounts = 7;
    ++bank->accounts;
    EXPECT(hf_commit_transaction(tx) == HF_CONCURRENT_MODIFICATION);
    EXPECT(strstr(hf_errormsg(), "byte 8 was stored to while a transaction had it open") != NULL);
    --bank->accounts;
    EXPECT(digits_of(bank) == 471);
}

static void kill_behind_a_commit(void) {
    const pid_t child = fork();
    if (child == 0) {
        hf_heap* heap = open_heap(HF_DURABILITY_ATOMIC);
        struct bank* bank = bank_of(heap);
        hf_transaction* tx = begin(heap);
        add_in(tx, bank, 8);
        EXPECT(hf_commit_transaction(tx) == HF_OK);
        tx = begin(heap);
        add_in(tx, bank, 9);
        kill(failures == 0 ? getpid() : 0, SIGKILL);
        _exit(1);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Its end touched the handle's memory, which was gone. */
static void outlives_a_heap_that_is_discarded(uint32_t durability) {
    hf_heap* heap = open_heap(durability);
    struct bank* bank = bank_of(heap);
    const int64_t digits = digits_of(bank);
    hf_transaction* aborted = begin(heap);
    hf_transaction* committed = begin(heap);
    add_in(committed, bank, 9);
    EXPECT(hf_discard(heap) == HF_OK);
    EXPECT(hf_allocate_in(aborted, 100, NULL) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    hf_abort(aborted);
    EXPECT(hf_commit_transaction(committed) == HF_INVALID_ARGUMENT);
    heap = open_heap(durability);
    EXPECT(digits_of(bank_of(heap)) == digits);
    EXPECT(hf_close(heap) == HF_OK);
}

static void* end_without_an_end(void* heap) {
    EXPECT(hf_transact_begin(heap) == HF_OK);
    return NULL;
}

static uint64_t* counts_of(hf_heap* heap) { return hf_ptr_get(hf_root(heap, 7)); }

static void everything_counts_or_nothing(hf_heap* heap) {
    EXPECT(hf_transact_end(heap) == HF_INVALID_ARGUMENT);
    EXPECT(hf_transact_begin(heap) == HF_OK);
    uint64_t* counts = hf_allocate(heap, 100 * sizeof *counts);
    REQUIRE(counts != NULL);
    memset(counts, 0, 100 * sizeof *counts);
    counts[3] = 1;
    EXPECT(hf_root_set(heap, 7, counts) == HF_OK);
    EXPECT(hf_close(heap) == HF_INVALID_ARGUMENT && hf_commit(heap) == HF_INVALID_ARGUMENT);
    EXPECT(hf_transact_end(heap) == HF_OK);

    EXPECT(hf_transact_begin(heap) == HF_OK);
    counts[3] = 2;
    EXPECT(hf_transact_begin(heap) == HF_OK);
    counts[3] = 3;
    EXPECT(hf_free(heap, counts) == HF_OK);
    EXPECT(hf_transact_abort(heap) == HF_OK);
    EXPECT(counts[3] == 2);
    EXPECT(hf_transact_end(heap) == HF_OK);

    EXPECT(hf_transact_begin(heap) == HF_OK);
    counts[3] = 4;
    EXPECT(hf_transact_abort(heap) == HF_OK && counts[3] == 2);

    hf_ticket ticket = {0, 0};
    EXPECT(hf_transact_begin(heap) == HF_OK);
    counts[4] = 5;
    EXPECT(hf_transact_end_later(heap, &ticket) == HF_OK && hf_sync(heap, ticket) == HF_OK);
    EXPECT(hf_commit_heap_later(heap, &ticket) == HF_OK && hf_sync(heap, ticket) == HF_OK);
    EXPECT(hf_commit_heap_later(heap, NULL) == HF_INVALID_ARGUMENT);

    EXPECT(hf_read_begin(heap) == HF_OK);
    EXPECT(hf_transact_begin(heap) == HF_INVALID_ARGUMENT);
    EXPECT(hf_read_end(heap) == HF_OK);

    pthread_t other;
    REQUIRE(pthread_create(&other, NULL, end_without_an_end, heap) == 0);
    REQUIRE(pthread_join(other, NULL) == 0);
    EXPECT(hf_transact_begin(heap) == HF_OK && hf_transact_abort(heap) == HF_OK);
    EXPECT(hf_discard(heap) == HF_OK);
    heap = open_heap(HF_DURABILITY_COMMIT);
    counts = counts_of(heap);
    EXPECT(counts[3] == 2 && counts[4] == 5);
    EXPECT(hf_free(heap, counts) == HF_OK && hf_root_set(heap, 7, NULL) == HF_OK);
    EXPECT(hf_close(heap) == HF_OK);
}

/* Two of one process are as two processes. */
static void processes_take_turns(const char* directory) {
    char path[4200];
    hf_options options = HF_OPTIONS_INIT;
    options.segment_size = (uint64_t)2 << 20;
    options.reservation = (uint64_t)1 << 30;
    options.shared = 1;
    snprintf(path, sizeof path, "%s/shared", directory);
    hf_heap* one = NULL;
    hf_heap* other = NULL;
    hf_remove(path);
    REQUIRE(hf_create(path, &options, &one) == HF_OK);
    REQUIRE(hf_open(path, &options, &other) == HF_OK);
    EXPECT(hf_allocate(one, 8) == NULL && hf_errorcode() == HF_READ_ONLY);
    for (uint64_t i = 0; i < 20; ++i) {
        hf_heap* heap = i % 2 == 0 ? one : other;
        EXPECT(hf_transact_begin(heap) == HF_OK);
        uint64_t* count = hf_ptr_get(hf_root(heap, 7));
        EXPECT(i == 0 ? count == NULL : *count == i);
        uint64_t* next = hf_allocate(heap, sizeof *next);
        REQUIRE(next != NULL);
        *next = i + 1;
        EXPECT(hf_free(heap, count) == HF_OK && hf_root_set(heap, 7, next) == HF_OK);
        EXPECT(hf_transact_end(heap) == HF_OK);
    }
    EXPECT(hf_commit(one) == HF_OK);
    EXPECT(*(uint64_t*)hf_root_get(one, 7) == 20);
    EXPECT(hf_close(one) == HF_OK && hf_close(other) == HF_OK);
}

static void run(const char* directory, const char* name, uint32_t durability) {
    snprintf(heap_path, sizeof heap_path, "%s/%s", directory, name);
    hf_remove(heap_path);
    hf_heap* heap = open_heap(durability);
    commits_all_and_aborts_all(heap);
    parts_are_dropped_alone(heap);
    many_ranges_find_their_pointers(heap);
    those_that_wait_are_seen_and_synced(heap);
    open_transactions_of_all_threads_are_counted(heap);
    misuse_is_an_error(heap);
    if (durability == HF_DURABILITY_COLLECT) {
        broken_rules_are_named(heap);
    }
    EXPECT(hf_close(heap) == HF_OK);
    if (durability == HF_DURABILITY_ATOMIC) {
        kill_behind_a_commit();
    }
    outlives_a_heap_that_is_discarded(durability);
    heap = open_heap(durability);
    if (durability == HF_DURABILITY_COMMIT) {
        everything_counts_or_nothing(heap);
    } else {
        EXPECT(hf_transact_begin(heap) == HF_UNSUPPORTED);
        EXPECT(hf_close(heap) == HF_OK);
    }
    heap = open_heap(durability);
    EXPECT(digits_of(bank_of(heap)) == (durability == HF_DURABILITY_ATOMIC ? 8471 : 471));
    size_t problems = 1;
    EXPECT(hf_check(heap, 1, &problems, NULL, NULL) == HF_OK && problems == 0);
    EXPECT(hf_close(heap) == HF_OK);
    EXPECT(hf_remove(heap_path) == HF_OK);
}

int main(int argc, char** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: c_api_transaction_test DIRECTORY\n");
        return 2;
    }
    mkdir(argv[1], 0777);
    run(argv[1], "in_commit", HF_DURABILITY_COMMIT);
    run(argv[1], "in_collect", HF_DURABILITY_COLLECT);
    run(argv[1], "in_atomic", HF_DURABILITY_ATOMIC);
    processes_take_turns(argv[1]);
    printf("%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
