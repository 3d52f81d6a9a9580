#include "segment/commit/way_home.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/units.hpp"

namespace holdfast::segment {

namespace {

/// What the patches of one page leave of it, each byte once: a page that is home already shows no earlier version
/// again, to readers that have it mapped.
class final_bytes {
public:
    /// Takes the page's patches off.
    base::result<void> take(patch_reader& reader, std::span<const log_content::patch>& patches) {
        is_set_ = {};
        for (const std::uint64_t place = patches.front().place; !patches.empty() && patches.front().place == place;
             patches = patches.subspan(1)) {
            const log_content::patch& patch = patches.front();
            HF_TRY(reader.read(patch, std::span(page_).subspan(patch.offset, patch.length)));
            set(patch.offset, patch.offset + patch.length);
        }
        return {};
    }
    /// Calls `each(offset, bytes)`.
    template <class Each>
    base::result<void> for_each_run(Each&& each) {
        for (std::size_t begin = next(0, true); begin < base::page_size;) {
            const std::size_t end = next(begin, false);
            HF_TRY(each(begin, std::span<const std::byte>(page_).subspan(begin, end - begin)));
            begin = next(end, true);
        }
        return {};
    }

private:
    // By words: byte by byte they took 6 us a page, most of the time of a recovery of small commits.
    static constexpr std::size_t bits = 64;

    void set(std::size_t begin, std::size_t end) noexcept {
        for (std::size_t at = begin; at < end;) {
            const std::size_t until = std::min(end, base::align_up(at + 1, bits));
            const std::uint64_t ones = ~std::uint64_t{0} >> (bits - (until - at));
            is_set_[at / bits] |= ones << at % bits;
            at = until;
        }
    }
    /// The first byte from `at` on that is set, or is not; page_size: none.
    [[nodiscard]] std::size_t next(std::size_t at, bool is_set) const noexcept {
        while (at < base::page_size) {
            const std::uint64_t word = is_set ? is_set_[at / bits] : ~is_set_[at / bits];
            if (const std::uint64_t rest = word >> at % bits; rest != 0) {
                return at + static_cast<std::size_t>(std::countr_zero(rest));
            }
            at = base::align_up(at + 1, bits);
        }
        return base::page_size;
    }

    std::array<std::byte, base::page_size> page_{};
    std::array<std::uint64_t, base::page_size / bits> is_set_{};
};

}  // namespace

base::result<void> write_to_first_file(persist::file& home, patch_reader& reader,
                                       std::span<const log_content::patch>& patches, persist::site where,
                                       replay_meter& meter) {
    constexpr std::uint64_t most = 64 * base::page_size;
    std::vector<std::byte> bytes;
    std::uint64_t begin = 0;
    const auto write = [&] {
        meter.add(bytes.size());
        return home.write_at(begin, bytes, where);
    };
    const auto add = [&](std::uint64_t at, std::span<const std::byte> run) -> base::result<void> {
        const bool follows = at == begin + bytes.size() && bytes.size() + run.size() <= most;
        if (!bytes.empty() && !follows) {
            HF_TRY(write());
            bytes.clear();
        }
        if (bytes.empty()) {
            begin = at;
        }
        bytes.insert(bytes.end(), run.begin(), run.end());
        return {};
    };
    final_bytes page;
    for (const std::uint64_t id = file_of(patches.front().place);
         !patches.empty() && file_of(patches.front().place) == id;) {
        const std::uint64_t first = page_of_place(patches.front().place) * base::page_size;
        HF_TRY(page.take(reader, patches));
        const auto add_run = [&](std::size_t offset, std::span<const std::byte> run) {
            return add(first + offset, run);
        };
        HF_TRY(page.for_each_run(add_run));
    }
    return write();
}

}  // namespace holdfast::segment
