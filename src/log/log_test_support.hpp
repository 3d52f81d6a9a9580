#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/scratch_test_support.hpp"
#include "log/log.hpp"

namespace holdfast::log {

struct seen_record {
    std::uint16_t kind = 0;
    std::uint64_t sequence = 0;
    std::string payload;
    mark end;
};

[[nodiscard]] inline std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

[[nodiscard]] inline std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A log in a directory that goes with the test.
class log_test : public testing::Test {
protected:
    static constexpr std::uint64_t file_size = 4 * base::page_size;

    [[nodiscard]] log_options options() const { return {{scratch_.path(), "log.", file_size}, 0x1122334455667788, {}}; }

    /// What it visits comes to `seen`.
    base::result<std::unique_ptr<log>> open(const mark& begin = {}) {
        seen.clear();
        return log::open(persist::posix_storage(), options(), begin, [this](const record& each) {
            seen.push_back({each.kind, each.end.sequence, text_of(each.payload), each.end});
            return base::result<void>();
        });
    }
    /// Durable on return.
    static mark put(log& to, const std::string& text, std::uint16_t kind = 0) {
        const auto appended = to.append(kind, bytes_of(text));
        EXPECT_TRUE(appended.ok()) << (appended.ok() ? "" : appended.error().message());
        EXPECT_TRUE(to.wait(appended.value().sequence).ok());
        return appended.value();
    }
    [[nodiscard]] std::string path_of(unsigned number) const {
        return log_files(persist::posix_storage(), options().place).path_of(number);
    }
    [[nodiscard]] std::vector<std::uint64_t> numbers() const {
        return log_files(persist::posix_storage(), options().place).numbers().value();
    }
    /// Of the log, from its first file on.
    [[nodiscard]] std::unique_ptr<persist::file> file(unsigned number) const {
        return persist::posix_storage().open(path_of(number), persist::access_mode::read_write).value();
    }
    void flip(std::uint64_t position) const {
        const auto changed = file(static_cast<unsigned>(position / file_size));
        std::byte one{};
        ASSERT_TRUE(changed->read_at(position % file_size, {&one, 1}).ok());
        one ^= std::byte{0x10};
        ASSERT_TRUE(changed->write_at(position % file_size, {&one, 1}, "test.flip").ok());
    }

    std::vector<seen_record> seen;

private:
    base::scratch_directory scratch_;
};

}  // namespace holdfast::log
