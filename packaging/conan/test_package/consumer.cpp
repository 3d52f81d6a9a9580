// Keeps a vector in a heap, and finds it again.
#include <cstdio>

#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

int main(int argc, char** argv) {
    if (argc != 2) {
        return 2;
    }
    holdfast::manager::remove(argv[1]);
    {
        holdfast::manager heap(holdfast::create_only, argv[1]);
        heap.construct<holdfast::vector<int>>("numbers")()->push_back(42);
        heap.commit();
    }
    const holdfast::manager heap(holdfast::open_read_only, argv[1]);
    const auto* const found = heap.find<holdfast::vector<int>>("numbers").first;
    const bool is_there = found != nullptr && found->size() == 1 && found->front() == 42;
    std::puts(is_there ? "consumer: the vector is there" : "consumer: the vector is lost");
    return is_there ? 0 : 1;
}
