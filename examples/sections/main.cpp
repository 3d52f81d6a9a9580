// sections HEAP PROGRAM [MOST]: goes on with a program (n-queens, cholesky, barnes-hut, documents) from where the last
// process left it, at most so many sections, by two threads.
#include <cstdio>
#include <exception>
#include <future>
#include <string>

#include "sections/persistent_program.hpp"

int main(int argc, char** argv) {
    const sections::program_kind* const kind = argc > 2 ? sections::find_program(argv[2]) : nullptr;
    if (kind == nullptr) {
        std::fprintf(stderr, "usage: sections HEAP PROGRAM [MOST]\nPROGRAM is one of");
        for (const auto& each : sections::all_programs()) {
            std::fprintf(stderr, " %s", each.name);
        }
        std::fprintf(stderr, "\n");
        return 2;
    }
    try {
        const unsigned long most = argc > 3 ? std::stoul(argv[3]) : ~0UL;
        holdfast::persistent_malloc heap(argv[1]);
        sections::persistent_program running(heap, *kind);
        std::fprintf(stderr, "goes on after %llu sections\n",
                     static_cast<unsigned long long>(running.inside().sections()));
        const auto work = [&] {
            for (unsigned long i = 0; i < most / 2 && running.advance(); ++i) {
            }
        };
        std::future<void> other = std::async(std::launch::async, work);
        work();
        other.get();
        if (const std::string problem = running.inside().problem(); !problem.empty()) {
            std::fprintf(stderr, "sections: %s\n", problem.c_str());
            return 1;
        }
        std::printf("%s\n", running.inside().answer().c_str());
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "sections: %s\n", failure.what());
        return 2;
    }
}
