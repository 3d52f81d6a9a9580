#include "progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "output.hpp"

namespace holdfast_cli {

namespace {

std::string amount_text(double amount, bool is_bytes) {
    return is_bytes ? short_size_text(static_cast<std::uint64_t>(amount)) : fmt::format("{:.0f}", amount);
}

std::string rest_text(double seconds) {
    constexpr double minute = 60;
    constexpr double hour = 3600;
    if (seconds >= hour) {
        return fmt::format("{:.0f} h {:.0f} min", std::floor(seconds / hour),
                           std::floor(std::fmod(seconds, hour) / minute));
    }
    return seconds >= 2 * minute ? fmt::format("{:.0f} min", std::ceil(seconds / minute))
                                 : fmt::format("{:.0f} s", std::ceil(seconds));
}

/// A line of /proc/self/io.
std::uint64_t counter_of_process(std::string_view name) {
    std::ifstream file("/proc/self/io");
    std::string word;
    std::uint64_t number = 0;
    while (file >> word >> number) {
        if (word == name) {
            return number;
        }
    }
    return 0;
}

}  // namespace

std::string progress_text(std::string_view what, std::uint64_t done, std::uint64_t all,
                          std::chrono::duration<double> elapsed, bool are_bytes) {
    const auto so_far = static_cast<double>(all == 0 ? done : std::min(done, all));
    const double rate = elapsed.count() > 0 ? so_far / elapsed.count() : 0;
    std::string text = fmt::format("{}: {}", what, amount_text(so_far, are_bytes));
    if (all != 0) {
        text += " of " + amount_text(static_cast<double>(all), are_bytes);
    }
    text += fmt::format(", {}/s", amount_text(rate, are_bytes));
    if (all != 0 && rate > 0) {
        text += fmt::format(", {} left", rest_text((static_cast<double>(all) - so_far) / rate));
    }
    return text;
}

std::uint64_t bytes_read() { return counter_of_process("rchar:"); }
std::uint64_t bytes_written() { return counter_of_process("wchar:"); }

progress::progress(settings how) : how_(std::move(how)) {
    if (!how_.is_wanted || ::isatty(how_.terminal) == 0) {
        return;
    }
    if (how_.done) {
        before_ = how_.done();
    }
    try {
        shown_by_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {  // no thread, no line: the work goes on
        return;
    }
}

progress::~progress() { end(); }

void progress::end() {
    {
        const std::lock_guard guard(mutex_);
        ends_ = true;
    }
    changed_.notify_all();
    if (shown_by_.joinable()) {
        shown_by_.join();
    }
}

void progress::update(std::string_view what, std::uint64_t done, std::uint64_t all) {
    const std::lock_guard guard(mutex_);
    if (how_.what != what) {  // another part begins
        how_.what = what;
        begun_ = std::chrono::steady_clock::now();
    }
    told_ = done;
    how_.all = all;
}

void progress::run() {
    std::unique_lock guard(mutex_);
    bool is_shown = false;
    const auto is_over = [this] { return ends_; };
    for (auto wait = how_.begin; !changed_.wait_for(guard, wait, is_over); wait = how_.step) {
        try {
            const std::uint64_t now = how_.done ? how_.done() : told_;
            const std::uint64_t done = now - std::min(now, before_);
            if (done != 0) {
                show(progress_text(how_.what, done, how_.all, std::chrono::steady_clock::now() - begun_,
                                   how_.are_bytes));
                is_shown = true;
            }
        } catch (const std::exception&) {  // what cannot be told is left out
            continue;
        }
    }
    if (is_shown) {
        show("");
    }
}

/// Over what the line said before.
void progress::show(const std::string& line) const {
    const std::string text = "\r\x1b[K" + line;
    const ssize_t ignored = ::write(how_.terminal, text.data(), text.size());
    static_cast<void>(ignored);
}

}  // namespace holdfast_cli
