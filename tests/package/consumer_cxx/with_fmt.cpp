// A program that links fmt's static library, beside a heap, which has fmt's functions, too. with_fmt HEAP-DIRECTORY
#include <exception>

#include <fmt/format.h>
#include <holdfast/manager.hpp>

int main(int argc, char** argv) {
    if (argc != 2) {
        fmt::print(stderr, "usage: with_fmt HEAP-DIRECTORY\n");
        return 2;
    }
    try {
        const holdfast::manager heap(holdfast::open_read_only, argv[1]);
        fmt::print("with_fmt: the answer is {}, {:.2f}\n", *heap.find<int>("answer").first, 0.25);
        const holdfast::manager none(holdfast::open_read_only, fmt::format("{}-{}", argv[1], 2));
    } catch (const holdfast::error& failure) {
        return failure.reason() == holdfast::errc::not_found ? 0 : 1;
    } catch (const std::exception& failure) {
        fmt::print(stderr, "with_fmt: {}\n", failure.what());
    }
    return 1;
}
