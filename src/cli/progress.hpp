// How far a command is: one line on standard error that changes, where that is a terminal.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace holdfast_cli {

/// "check: 1.0 GiB of 4.0 GiB, 512.0 MiB/s, 6 s left", or with items in the place of bytes. `all` 0: it is not known.
[[nodiscard]] std::string progress_text(std::string_view what, std::uint64_t done, std::uint64_t all,
                                        std::chrono::duration<double> elapsed, bool are_bytes);

/// What this process has read or written by system calls since it began, in bytes; 0 where the kernel does not tell.
[[nodiscard]] std::uint64_t bytes_read();
[[nodiscard]] std::uint64_t bytes_written();

/// Shows it from a second on, five times a second, until end() or the destructor, which remove the line.
class progress {
public:
    struct settings {
        std::string what{};                     ///< "check"
        std::uint64_t all = 0;                  ///< 0: not known
        std::function<std::uint64_t()> done{};  ///< asked by a thread of this object's; empty: what update() says
        bool are_bytes = true;
        bool is_wanted = true;
        int terminal = 2;  ///< a descriptor; nothing is written where it is none of a terminal
        std::chrono::milliseconds begin{1000};
        std::chrono::milliseconds step{200};
    };
    explicit progress(settings how);
    progress(const progress&) = delete;
    progress& operator=(const progress&) = delete;
    ~progress();

    /// Removes the line. Nothing is shown from here on.
    void end();
    /// By any thread.
    void update(std::string_view what, std::uint64_t done, std::uint64_t all);

private:
    void run();
    void show(const std::string& line) const;

    settings how_;
    std::uint64_t told_ = 0;
    std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
    std::uint64_t before_ = 0;  ///< what done() said at the begin
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ends_ = false;
    std::thread shown_by_;
};

}  // namespace holdfast_cli
