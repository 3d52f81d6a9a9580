/* The smallest C program of a user: an int that outlives its handle. consumer HEAP-DIRECTORY */
#include <holdfast/index.h>
#include <stdio.h>

static int failed(void) {
    fprintf(stderr, "consumer: %s\n", hf_errormsg());
    return 1;
}

int main(int count, char** arguments) {
    hf_heap* heap = NULL;
    int* answer = NULL;
    hf_index* index = NULL;
    if (count != 2) {
        fprintf(stderr, "usage: consumer HEAP-DIRECTORY\n");
        return 2;
    }
    if (hf_create(arguments[1], NULL, &heap) != HF_OK || (answer = hf_allocate(heap, sizeof *answer)) == NULL) {
        return failed();
    }
    *answer = 42;
    if (hf_index_open(heap, "index", &index) != HF_OK || hf_index_insert(index, 1, 42) != HF_OK) {
        return failed();
    }
    hf_index_close(index);
    if (hf_root_set(heap, 0, answer) != HF_OK || hf_close(heap) != HF_OK ||
        hf_open_read_only(arguments[1], NULL, &heap) != HF_OK) {
        return failed();
    }
    answer = hf_root_get(heap, 0);
    if (answer == NULL || *answer != 42) {
        fprintf(stderr, "consumer: the answer is lost\n");
        return 1;
    }
    hf_close(heap);
    puts("consumer: the answer is there");
    return 0;
}
