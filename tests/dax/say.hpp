// A line for the host, on the guest's console.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace holdfast::dax {

/// One write for each line, so that lines of two threads do not mix.
template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    const std::string line = "hf " + fmt::format(format, std::forward<Arguments>(arguments)...) + "\n";
    if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
        std::abort();
    }
}

}  // namespace holdfast::dax
