/* inverted_index.cpp in C. Pointers in the heap are hf_ptr, because the next run may map it at another address. */
#include <ctype.h>
#include <holdfast/holdfast.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1 << 16, MAX_FILES = 1024, MAX_WORD = 40, MAX_PATH = 256 };

struct word { /* an entry of the table; `files` points to their numbers, in ascending order */
    hf_ptr next;
    hf_ptr files;
    uint32_t count;
    char text[MAX_WORD];
};
struct index {
    uint32_t files;
    char paths[MAX_FILES][MAX_PATH];
    hf_ptr buckets[BUCKETS];
};

static void require(int holds) {
    if (!holds) {
        fprintf(stderr, "inverted_index: %s\n", hf_errormsg());
        exit(1); /* without hf_close(): the last commit stands */
    }
}

static hf_ptr* bucket_of(struct index* index, const char* text) {
    uint32_t hash = 2166136261U; /* FNV-1a */
    while (*text != 0) {
        hash = (hash ^ (unsigned char)*text++) * 16777619U;
    }
    return &index->buckets[hash % BUCKETS];
}

static struct word* find_word(struct index* index, const char* text) {
    struct word* word = hf_ptr_get(bucket_of(index, text));
    while (word != NULL && strcmp(word->text, text) != 0) {
        word = hf_ptr_get(&word->next);
    }
    return word;
}

static void add_word(hf_heap* heap, struct index* index, const char* text) {
    struct word* word = find_word(index, text);
    if (word == NULL) {
        hf_ptr* bucket = bucket_of(index, text);
        word = hf_calloc(heap, 1, sizeof *word);
        require(word != NULL);
        strcpy(word->text, text);
        hf_ptr_set(&word->next, hf_ptr_get(bucket));
        hf_ptr_set(bucket, word);
    }
    uint32_t* files = hf_ptr_get(&word->files);
    if (word->count != 0 && files[word->count - 1] == index->files) {
        return;
    }
    files = hf_realloc(heap, files, (word->count + 1) * sizeof *files); /* moves when a size class is full */
    require(files != NULL);
    hf_ptr_set(&word->files, files);
    files[word->count++] = index->files;
}

static void add_file(hf_heap* heap, struct index* index, const char* path) {
    for (uint32_t i = 0; i < index->files; ++i) {
        if (strcmp(index->paths[i], path) == 0) {
            return;
        }
    }
    FILE* file = index->files < MAX_FILES && strlen(path) < MAX_PATH ? fopen(path, "r") : NULL;
    if (file == NULL) {
        fprintf(stderr, "inverted_index: %s cannot be read, is too long, or one too many\n", path);
        exit(1);
    }
    char text[MAX_WORD];
    while (fscanf(file, "%*[^A-Za-z0-9]"), fscanf(file, "%39[A-Za-z0-9]", text) == 1) {
        for (char* letter = text; *letter != 0; ++letter) {
            *letter = (char)tolower((unsigned char)*letter);
        }
        add_word(heap, index, text);
    }
    fclose(file);
    strcpy(index->paths[index->files++], path);
    require(hf_commit(heap) == HF_OK);
}

static void print_files_with_all(struct index* index, char** words, uint32_t count) {
    uint32_t hits[MAX_FILES] = {0};
    for (uint32_t i = 0; i < count; ++i) {
        const struct word* word = find_word(index, words[i]);
        for (uint32_t j = 0; word != NULL && j < word->count; ++j) {
            ++hits[((const uint32_t*)hf_ptr_get(&word->files))[j]];
        }
    }
    for (uint32_t number = 0; number < index->files; ++number) {
        if (hits[number] == count) {
            puts(index->paths[number]);
        }
    }
}

int main(int argc, char** argv) {
    const int adds = argc > 3 && strcmp(argv[2], "add") == 0;
    if (argc < 4 || (!adds && strcmp(argv[2], "find") != 0)) {
        fprintf(stderr, "usage: inverted_index HEAP add FILE... | find WORD...\n");
        return 2;
    }
    hf_heap* heap = NULL;
    struct index* index = NULL;
    require((adds ? hf_open_or_create(argv[1], NULL, &heap) : hf_open_read_only(argv[1], NULL, &heap)) == HF_OK);
    if (adds) {
        require(hf_object_find_or_create(heap, "index", "index", sizeof *index, 1, (void**)&index, NULL) == HF_OK);
        for (int i = 3; i < argc; ++i) {
            add_file(heap, index, argv[i]);
        }
    } else {
        require(hf_object_find(heap, "index", "index", sizeof *index, (void**)&index, NULL) == HF_OK);
        print_files_with_all(index, argv + 3, (uint32_t)argc - 3);
    }
    return hf_close(heap) == HF_OK ? 0 : 1;
}
