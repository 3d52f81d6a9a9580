// The program of the README: each run finds what the runs before it have stored.
#include <cstdio>
#include <exception>

#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

int main(int argc, char** argv) {
    try {
        holdfast::manager heap(holdfast::open_or_create, argc > 1 ? argv[1] : "hello.hf");
        auto* runs = heap.find_or_construct<holdfast::vector<int>>("runs")();
        heap.transact([&] {  // all of it, or nothing
            runs->push_back(static_cast<int>(runs->size()) + 1);
        });  // from here on, not even a power cut takes it back
        std::printf("run %d\n", runs->back());
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "hello: %s\n", failure.what());
        return 1;
    }
}
