#include "segment/commit/way_home.hpp"

#include <array>
#include <bitset>
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
        is_set_.reset();
        for (const std::uint64_t place = patches.front().place; !patches.empty() && patches.front().place == place;
             patches = patches.subspan(1)) {
            const log_content::patch& patch = patches.front();
            HF_TRY(reader.read(patch, std::span(page_).subspan(patch.offset, patch.length)));
            for (std::size_t i = 0; i < patch.length; ++i) {
                is_set_.set(patch.offset + i);
            }
        }
        return {};
    }
    /// Calls `each(offset, bytes)`.
    template <class Each>
    base::result<void> for_each_run(Each&& each) {
        for (std::size_t begin = 0; begin < base::page_size;) {
            std::size_t end = begin;
            while (end < base::page_size && is_set_[end]) {
                ++end;
            }
            if (end > begin) {
                HF_TRY(each(begin, std::span<const std::byte>(page_).subspan(begin, end - begin)));
            }
            begin = end + 1;
        }
        return {};
    }

private:
    std::array<std::byte, base::page_size> page_{};
    std::bitset<base::page_size> is_set_;
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
