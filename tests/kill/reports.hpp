// What a victim reports before it dies: records of one size, each written to a pipe by one call, so that a record is
// complete or absent however the victim ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::test {

enum class event : std::uint32_t {
    opening,
    opened,           ///< the digest found
    about_to_commit,  ///< the digest to be committed
    committed,
    closing,  ///< as about_to_commit
    closed,
    making,  ///< a second heap, by snapshot, copy or create: its digest
    made,
    removing,  ///< the second heap
    removed,
    lights_out,  ///< shutting the file system down
    failed,      ///< by the exception in the text
    problem,     ///< an error of the library
};

struct report {
    event what = event::failed;
    std::uint32_t text_length = 0;
    std::uint64_t digest = 0;
    std::uint64_t sequence = 0;     ///< of the heap's last commit
    std::uint64_t duration_ns = 0;  ///< of the completed act
    char text[480] = {};

    [[nodiscard]] std::string_view message() const noexcept { return {&text[0], text_length}; }
};
static_assert(sizeof(report) == 512);

/// The victim's end. Thread-safe: a record is smaller than PIPE_BUF.
class report_writer {
public:
    explicit report_writer(int fd) noexcept : fd_(fd) {}
    void write(report record, std::string_view text = {}) const noexcept;

private:
    int fd_;
};

/// The observer's end of a new pipe; closes both ends.
class report_pipe {
public:
    report_pipe();
    report_pipe(const report_pipe&) = delete;
    report_pipe& operator=(const report_pipe&) = delete;
    ~report_pipe();

    [[nodiscard]] int write_end() const noexcept { return ends_[1]; }
    void close_write_end() noexcept;
    enum class outcome { record, silence, end };
    /// Waits for a record, the end of all writers, or the timeout (milliseconds; negative: none).
    outcome read(report& record, int timeout_ms) const;

private:
    int ends_[2] = {-1, -1};
};

}  // namespace holdfast::test
