// What the ported programs share: each of their parts gets a path of its own, and a failure ends the program.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <string>

namespace port {

inline void require(bool condition, const char* what) {
    if (!condition) {
        std::fprintf(stderr, "failed: %s\n", what);
        std::exit(1);
    }
}

/// Runs the parts in the directory that the first argument names. Returns the program's exit status.
inline int run(int count, char** arguments, std::initializer_list<void (*)(const std::string& store)> parts) {
    const std::string directory = count > 1 ? arguments[1] : "port.data";
    try {
        std::filesystem::remove_all(directory);
        std::filesystem::create_directories(directory);
        int number = 0;
        for (const auto part : parts) {
            part(directory + "/" + std::to_string(++number));
        }
        std::filesystem::remove_all(directory);
        std::printf("%d parts are as they must be\n", number);
        return 0;
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "failed: %s\n", failure.what());
        return 1;
    }
}

}  // namespace port
