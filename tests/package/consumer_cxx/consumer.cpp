// The smallest program of a user: an int that outlives its process. consumer HEAP-DIRECTORY
#include <cstdio>
#include <exception>

#include <holdfast/manager.hpp>

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: consumer HEAP-DIRECTORY\n");
        return 2;
    }
    try {
        {
            holdfast::manager heap(holdfast::create_only, argv[1]);
            heap.construct<int>("answer")(42);
        }
        const holdfast::manager heap(holdfast::open_read_only, argv[1]);
        const auto found = heap.find<int>("answer");
        if (found.first == nullptr || found.second != 1 || *found.first != 42) {
            std::fprintf(stderr, "consumer: the answer is lost\n");
            return 1;
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "consumer: %s\n", error.what());
        return 1;
    }
    std::puts("consumer: the answer is there");
    return 0;
}
