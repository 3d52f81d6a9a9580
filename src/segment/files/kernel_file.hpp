// Files of the kernel, which have no length of their own.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>

#include "persist/descriptor.hpp"

namespace holdfast::segment {

/// Calls `each` for the parts of the file that are read. Not by a stream: opening one waits for the C library's list of
/// streams, whose holder may run code of the program that waits for this heap.
template <class Each>
void read_parts(const char* path, Each each) {
    const persist::descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
    std::array<char, 4096> text;  // NOLINT(*-member-init): written where it is read
    for (ssize_t got = 1; file.valid() && got != 0;) {
        got = ::read(file.get(), text.data(), text.size());
        if (got > 0) {
            each(std::span<const char>(text.data(), static_cast<std::size_t>(got)));
        } else if (got < 0 && errno != EINTR) {
            return;
        }
    }
}

}  // namespace holdfast::segment
