// Maps of numbers, and a queue of texts, that survive kill -9.
//
//     maps HEAP hash|btree|rbtree insert KEY VALUE [KEY VALUE]...    prints each key when it is there to stay
//     maps HEAP hash|btree|rbtree remove KEY...                      prints each key that is gone for good
//     maps HEAP hash|btree|rbtree lookup KEY...                      prints the values
//     maps HEAP hash|btree|rbtree print                              prints all keys and values
//     maps HEAP hash|btree|rbtree check                              says what is wrong with the structure, or how
//                                                                    many keys there are
//     maps HEAP queue insert TEXT...
//     maps HEAP queue remove [COUNT]                                 prints what it takes out
//     maps HEAP queue print
//
// Each change is one transaction in durability `atomic`, on the page cache: what the program has printed survives the
// process. (After a loss of power on an ordinary disk, too, without accept_process_crash_only.)
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include <holdfast/manager.hpp>

#include "open_map.hpp"
#include "ring_queue.hpp"

namespace {

constexpr const char* usage =
    "usage: maps HEAP hash|btree|rbtree insert KEY VALUE... | remove KEY... | lookup KEY... | print | check\n"
    "       maps HEAP queue insert TEXT... | remove [COUNT] | print\n";

using words = std::span<char* const>;

std::uint64_t number_of(const char* word) {
    char* end = nullptr;
    const std::uint64_t number = std::strtoull(word, &end, 10);
    if (end == word || *end != 0) {
        throw std::runtime_error(std::string("not a number: ") + word);
    }
    return number;
}

/// What others read while the program works, and it may be killed at any time.
void say(std::uint64_t key) {
    std::printf("%" PRIu64 "\n", key);
    std::fflush(stdout);
}

int print(const maps::map& map) {
    map.for_each([](std::uint64_t key, std::uint64_t value) {
        std::printf("%" PRIu64 " %" PRIu64 "\n", key, value);
        return true;
    });
    return 0;
}

int check(const maps::checked_map& map) {
    const std::string problem = map.problem();
    if (!problem.empty()) {
        std::fprintf(stderr, "maps: %s\n", problem.c_str());
        return 1;
    }
    std::printf("%" PRIu64 " keys\n", map.count());
    return 0;
}

int look_up(const maps::map& map, words keys) {
    int status = 0;
    for (const char* key : keys) {
        if (const auto value = map.look_up(number_of(key))) {
            std::printf("%" PRIu64 "\n", *value);
        } else {
            std::fprintf(stderr, "maps: there is no key %s\n", key);
            status = 1;
        }
    }
    return status;
}

/// Returns the exit status.
int run(maps::checked_map& map, std::string_view command, words arguments) {
    if (command == "insert" && arguments.size() % 2 == 0) {
        for (std::size_t i = 0; i < arguments.size(); i += 2) {
            const std::uint64_t key = number_of(arguments[i]);
            map.insert(key, number_of(arguments[i + 1]));
            say(key);
        }
        return 0;
    }
    if (command == "remove") {
        for (const char* word : arguments) {
            const std::uint64_t key = number_of(word);
            if (map.remove(key)) {
                say(key);
            }
        }
        return 0;
    }
    if (command == "lookup") {
        return look_up(map, arguments);
    }
    if (command == "print") {
        return print(map);
    }
    if (command == "check") {
        return check(map);
    }
    std::fputs(usage, stderr);
    return 2;
}

int run(maps::queue& queue, std::string_view command, words arguments) {
    if (command == "insert") {
        for (const char* text : arguments) {
            if (!queue.enqueue(text)) {
                throw std::runtime_error("the queue is full");
            }
        }
        return 0;
    }
    if (command == "remove") {
        for (std::uint64_t left = arguments.empty() ? 1 : number_of(arguments[0]); left > 0; --left) {
            const auto text = queue.dequeue();
            if (!text) {
                break;
            }
            std::printf("%s\n", text->c_str());
        }
        return 0;
    }
    if (command == "print") {
        queue.for_each([](std::string_view text) {
            std::printf("%.*s\n", static_cast<int>(text.size()), text.data());
            return true;
        });
        return 0;
    }
    std::fputs(usage, stderr);
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) {
        std::fputs(usage, stderr);
        return 2;
    }
    try {
        holdfast::open_options options;
        options.durability = holdfast::durability::atomic;
        options.accept_process_crash_only = true;
        holdfast::manager heap(holdfast::open_or_create, argv[1], options);
        const words arguments(argv + 4, static_cast<std::size_t>(argc - 4));
        if (const std::string_view kind = argv[2]; kind == "queue") {
            maps::ring_queue queue(heap, "queue");
            return run(queue, argv[3], arguments);
        } else if (const auto map = maps::open_map(heap, kind)) {
            return run(*map, argv[3], arguments);
        }
        std::fputs(usage, stderr);
        return 2;
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "maps: %s\n", failure.what());
        return 1;
    }
}
