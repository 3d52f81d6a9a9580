#include "progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

namespace package_graph {

progress_bar::progress_bar(bool shown, std::string what, std::uint64_t total)
    : shown_(shown),
      terminal_(::isatty(STDERR_FILENO) != 0),
      what_(std::move(what)),
      total_(std::max<std::uint64_t>(total, 1)) {}

progress_bar::~progress_bar() {
    if (line_open_) {
        std::fputc('\n', stderr);
    }
}

void progress_bar::update(std::uint64_t done, std::uint64_t commits) {
    if (!shown_) {
        return;
    }
    if (!terminal_) {
        if (const std::uint64_t tenths = done * 10 / total_; tenths > tenths_) {
            tenths_ = tenths;
            fmt::print(stderr, "  {} {:>3} % ({} of {}), {} commits\n", what_, tenths * 10, done, total_, commits);
        }
        return;
    }
    const clock::time_point now = clock::now();
    if (done >= total_ || now - last_draw_ >= std::chrono::milliseconds(50)) {
        last_draw_ = now;
        draw(done, commits);
    }
}

void progress_bar::draw(std::uint64_t done, std::uint64_t commits) {
    constexpr std::uint64_t width = 40;
    const std::uint64_t filled = std::min(done * width / total_, width);
    fmt::print(stderr, "\r  {} [{:#<{}}{:.<{}}] {:>3} %  {} of {}, {} commits\033[K", what_, "", filled, "",
               width - filled, done * 100 / total_, done, total_, commits);
    std::fflush(stderr);
    line_open_ = done < total_;
    if (!line_open_) {
        std::fputc('\n', stderr);
    }
}

}  // namespace package_graph
