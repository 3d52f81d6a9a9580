// stress.hpp on malloc, whoever provides it: prints "sound". malloc_stress [threads [generations [allocations]]]
#include <cstdio>
#include <cstdlib>
#include <string>

#include <malloc.h>

#include "malloc/stress.hpp"

namespace {

struct of_the_process {
    static void* allocate(std::size_t bytes) { return std::malloc(bytes); }  // lint-allow(hand-memory): tested
    static void* allocate_aligned(std::size_t bytes, std::size_t alignment) { return ::memalign(alignment, bytes); }
    static void* allocate_zeroed(std::size_t count, std::size_t bytes) {
        return std::calloc(count, bytes);  // lint-allow(hand-memory): tested
    }
    static void* reallocate(void* block, std::size_t bytes) {
        return std::realloc(block, bytes);  // lint-allow(hand-memory): tested
    }
    static void free(void* block) { std::free(block); }  // lint-allow(hand-memory): tested
};

unsigned argument(int argc, char** argv, int at, unsigned otherwise) {
    return argc > at ? static_cast<unsigned>(std::stoul(argv[at])) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
    holdfast::stress::exercise<of_the_process> all;
    const std::uint64_t wrong =
        all.run({argument(argc, argv, 1, 4), argument(argc, argv, 2, 3), argument(argc, argv, 3, 20'000)});
    if (wrong != 0) {
        std::fprintf(stderr, "%llu blocks were wrong\n", static_cast<unsigned long long>(wrong));
        return 1;
    }
    std::puts("sound");
    return 0;
}
