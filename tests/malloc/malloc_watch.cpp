// Stands between a program and libholdfast-malloc.so, and names each function of the C library that is called within
// malloc and its family although it takes a lock: whoever holds that lock may call malloc, and wait for a fork that
// waits for this call. Prints "sound".
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <link.h>

namespace {

thread_local unsigned calls_of_malloc = 0;
std::atomic<unsigned> found{0};

struct within_malloc {
    within_malloc() noexcept { ++calls_of_malloc; }
    within_malloc(const within_malloc&) = delete;
    within_malloc& operator=(const within_malloc&) = delete;
    ~within_malloc() { --calls_of_malloc; }
};

/// The function of that name which the next library has.
template <class Function>
Function* next(const char* name) noexcept {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void note(const char* name) noexcept {
    if (calls_of_malloc != 0) {
        ++found;
        [[maybe_unused]] const auto first = ::write(STDERR_FILENO, name, std::strlen(name));
        [[maybe_unused]] const auto second = ::write(STDERR_FILENO, "() within malloc\n", 17);
    }
}

}  // namespace

namespace {

void allocate_and_free() {
    std::array<void*, 200> blocks{};
    for (std::size_t i = 0; i < 20'000; ++i) {
        void*& one = blocks[i * 7 % blocks.size()];
        std::free(one);
        one = i % 3 == 0 ? std::calloc(1, 1 + i % 3000) : std::malloc(i % 100 == 0 ? 200'000 : 1 + i * 37 % 20'000);
    }
    for (void* const one : blocks) {
        std::free(one);
    }
}

/// More than one look at the number of mappings.
void move_large_blocks() {
    for (int i = 0; i < 300; ++i) {
        void* block = std::malloc(600'000);
        void* const behind = std::malloc(600'000);
        block = std::realloc(block, 1'800'000);
        std::free(behind);
        std::free(block);
    }
}

void fail() {
    volatile std::size_t too_much = SIZE_MAX / 4;
    void* const block = std::malloc(100);
    std::free(std::malloc(too_much));
    std::free(std::realloc(block, too_much));
    std::free(std::aligned_alloc(too_much / 2 + 1, 100));
    std::free(block);
    std::free(block);  // a second time
    // As many mappings as the process may have.
    std::vector<void*> mappings(70'000);
    std::size_t mapped = 0;
    while (mapped < mappings.size()) {
        const int rights = mapped % 2 == 0 ? PROT_READ : PROT_READ | PROT_WRITE;
        void* const one = ::mmap(nullptr, 4096, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (one == MAP_FAILED) {
            break;
        }
        mappings[mapped++] = one;
    }
    volatile std::size_t large = 50'000'000;
    for (int i = 0; i < 5; ++i) {
        std::free(std::malloc(large));
    }
    for (std::size_t i = 0; i < mapped; ++i) {
        ::munmap(mappings[i], 4096);
    }
}

void fill() {
    std::vector<void*> blocks(100'000);
    for (void*& one : blocks) {
        one = std::malloc(2000);
    }
    for (void* const one : blocks) {
        std::free(one);
    }
}

}  // namespace

int main() {
    allocate_and_free();
    for (int i = 0; i < 3; ++i) {
        std::thread(allocate_and_free).join();
    }
    move_large_blocks();
    fail();
    fill();
    if (found != 0) {
        return 1;
    }
    std::puts("sound");
    return 0;
}

// NOLINTBEGIN(bugprone-reserved-identifier,cert-*,readability-inconsistent-declaration-parameter-name)
#define HF_WITHIN(name, type, parameters, arguments)                 \
    extern "C" type name parameters noexcept {                       \
        static auto* const following = next<type parameters>(#name); \
        const within_malloc here;                                    \
        return following arguments;                                  \
    }
#define HF_WATCHED(name, type, parameters, arguments)                \
    extern "C" type name parameters {                                \
        static auto* const following = next<type parameters>(#name); \
        note(#name);                                                 \
        return following arguments;                                  \
    }

HF_WITHIN(malloc, void*, (std::size_t bytes), (bytes))                            // lint-allow(hand-memory): watched
HF_WITHIN(calloc, void*, (std::size_t count, std::size_t bytes), (count, bytes))  // lint-allow(hand-memory): watched
HF_WITHIN(realloc, void*, (void* block, std::size_t bytes), (block, bytes))       // lint-allow(hand-memory): watched
HF_WITHIN(aligned_alloc, void*, (std::size_t alignment, std::size_t bytes), (alignment, bytes))
HF_WITHIN(free, void, (void* block), (block))

// The loader's locks.
HF_WATCHED(__cxa_thread_atexit_impl, int, (void (*end)(void*), void* object, void* library), (end, object, library))
HF_WATCHED(dlopen, void*, (const char* name, int how), (name, how))
HF_WATCHED(dlclose, int, (void* library), (library))
HF_WATCHED(dladdr, int, (const void* address, Dl_info* about), (address, about))
HF_WATCHED(dl_iterate_phdr, int, (int (*each)(dl_phdr_info*, std::size_t, void*), void* with), (each, with))
HF_WATCHED(pthread_create, int, (pthread_t * thread, const pthread_attr_t* how, void* (*work)(void*), void* with),
           (thread, how, work, with))
// The list of streams, and streams.
HF_WATCHED(fopen, FILE*, (const char* path, const char* how), (path, how))
HF_WATCHED(fopen64, FILE*, (const char* path, const char* how), (path, how))
HF_WATCHED(fdopen, FILE*, (int file, const char* how), (file, how))
HF_WATCHED(fflush, int, (FILE * stream), (stream))
HF_WATCHED(fwrite, std::size_t, (const void* from, std::size_t bytes, std::size_t count, FILE* stream),
           (from, bytes, count, stream))
// Translations, the environment, handlers.
HF_WATCHED(strerror, char*, (int number), (number))
HF_WATCHED(setlocale, char*, (int category, const char* name), (category, name))
HF_WATCHED(setenv, int, (const char* name, const char* value, int replace), (name, value, replace))
HF_WATCHED(__cxa_atexit, int, (void (*end)(void*), void* object, void* library), (end, object, library))
HF_WATCHED(__register_atfork, int, (void (*before)(), void (*parent)(), void (*child)(), void* library),
           (before, parent, child, library))
// NOLINTEND(bugprone-reserved-identifier,cert-*,readability-inconsistent-declaration-parameter-name)
