// The golden test of the layout: with a change that fails here, docs/format.md changes.
#include <algorithm>

#include <fmt/format.h>

#include "log/log_test_support.hpp"

namespace holdfast::log {
namespace {

std::string dump(std::span<const std::byte> bytes) {
    std::string text;
    for (std::size_t line = 0; line < bytes.size(); line += 16) {
        const auto part = bytes.subspan(line, std::min<std::size_t>(16, bytes.size() - line));
        if (std::ranges::all_of(part, [](std::byte each) { return each == std::byte{0}; })) {
            continue;
        }
        text += fmt::format("{:04x}:", line);
        for (const std::byte each : part) {
            text += fmt::format(" {:02x}", static_cast<unsigned>(each));
        }
        text += "\n";
    }
    return text;
}

TEST_F(log_test, layout_of_two_records) {
    log_options fixed = options();
    fixed.epoch = 0x2122232425262728;
    const auto opened =
        log::open(persist::posix_storage(), fixed, {}, [](const record& /*each*/) { return base::result<void>(); });
    ASSERT_TRUE(opened.ok());
    ASSERT_TRUE((*opened)->append(3, bytes_of("holdfast")).ok());
    put(**opened, "a log of commits!", 0x0102);
    std::vector<std::byte> all(file_size);
    ASSERT_TRUE(file(0)->read_at(0, all).ok());
    EXPECT_EQ(dump(all),
              "0000: 16 a0 a4 93 1d 6a ae 22 00 00 00 00 00 00 00 00\n"  // checksum, none before
              "0010: 01 00 00 00 00 00 00 00 28 27 26 25 24 23 22 21\n"  // sequence, epoch
              "0020: 84 36 bb 6c d5 77 07 d6 08 00 00 00 03 00 00 00\n"  // payload's checksum, size, kind
              "0030: 68 6f 6c 64 66 61 73 74 84 40 ab 89 32 70 de 66\n"  // "holdfast"; the second record
              "0040: 16 a0 a4 93 1d 6a ae 22 02 00 00 00 00 00 00 00\n"  // the first one's checksum
              "0050: 28 27 26 25 24 23 22 21 b5 99 43 fc 72 d8 1e b6\n"
              "0060: 11 00 00 00 02 01 01 00 61 20 6c 6f 67 20 6f 66\n"
              "0070: 20 63 6f 6d 6d 69 74 73 21 00 00 00 00 00 00 00\n");  // to a multiple of 8
    EXPECT_EQ((*opened)->end().position, 128U);
}

}  // namespace
}  // namespace holdfast::log
