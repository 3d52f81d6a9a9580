#include "segment/commit/page_copies.hpp"

#include <cstring>
#include <string>

#include <fmt/format.h>

#include "base/checksum.hpp"
#include "base/units.hpp"

namespace holdfast::segment {

base::result<void> page_copies::add(const page_run& pages, std::span<const std::uint64_t> checksums,
                                    replacement replace) {
    HF_ASSERT(pages.count <= room());
    const auto copies = std::span(bytes_).subspan(count_ * base::page_size, pages.count * base::page_size);
    for (std::uint64_t i = 0; i < pages.count; ++i) {
        const auto copy = copies.subspan(i * base::page_size, base::page_size);
        std::memcpy(copy.data(), pages.content + i * base::page_size, base::page_size);
        if (base::checksum64(copy) != checksums[i]) {
            HF_TRY(replace(i, copy));
        }
    }
    count_ += pages.count;
    return {};
}

base::failure stored_meanwhile(const std::string& path, std::uint64_t page) {
    return base::failure{base::failure_code::concurrent_modification,
                         path,
                         fmt::format("page {}", page),
                         "a store during commit()",
                         "all other threads standing still",
                         "the commit was refused, the last one stands",
                         0};
}

}  // namespace holdfast::segment
