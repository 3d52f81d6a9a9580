// An ordered index that outlives its process: each run adds its visit, and prints the last three.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include <holdfast/ordered_index.hpp>

int main(int count, char** arguments) {
    const std::string path = count > 1 ? arguments[1] : "visits.hf";
    try {
        holdfast::open_options options;
        options.durability = holdfast::durability::atomic;
        options.accept_process_crash_only = true;  // on a disk: the page cache keeps what a killed process has written
        holdfast::manager heap(holdfast::open_or_create, path, options);

        holdfast::ordered_index<std::uint64_t, std::string_view> visits(heap, "visits");
        const auto last = visits.last();
        const std::uint64_t number = last ? last->first + 1 : 1;
        visits.insert(number, "visit " + std::to_string(number));  // durable when it returns

        std::printf("%zu visits\n", visits.size());
        int left = 3;
        visits.scan_backward([&](std::uint64_t /*number*/, std::string_view text) {
            std::printf("%.*s\n", static_cast<int>(text.size()), text.data());
            return --left > 0;
        });
        return 0;
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "%s\n", failure.what());
        return 1;
    }
}
