#include "kill/reports.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>

namespace holdfast::test {

static_assert(sizeof(report) <= PIPE_BUF);

void report_writer::write(report record, std::string_view text) const noexcept {
    const std::size_t length = std::min(text.size(), sizeof record.text);
    std::memcpy(&record.text[0], text.data(), length);
    record.text_length = static_cast<std::uint32_t>(length);
    while (::write(fd_, &record, sizeof record) < 0 && errno == EINTR) {
    }
}

report_pipe::report_pipe() {
    if (::pipe2(&ends_[0], O_CLOEXEC) != 0) {
        throw std::system_error(errno, std::generic_category(), "pipe");
    }
}

report_pipe::~report_pipe() {
    close_write_end();
    ::close(ends_[0]);
}

void report_pipe::close_write_end() noexcept {
    if (ends_[1] >= 0) {
        ::close(ends_[1]);
        ends_[1] = -1;
    }
}

report_pipe::outcome report_pipe::read(report& record, int timeout_ms) const {
    pollfd ready{ends_[0], POLLIN, 0};
    int count = 0;
    do {
        count = ::poll(&ready, 1, timeout_ms);
    } while (count < 0 && errno == EINTR);
    if (count == 0) {
        return outcome::silence;
    }
    ssize_t length = 0;
    do {
        length = ::read(ends_[0], &record, sizeof record);
    } while (length < 0 && errno == EINTR);
    return length == static_cast<ssize_t>(sizeof record) ? outcome::record : outcome::end;
}

}  // namespace holdfast::test
