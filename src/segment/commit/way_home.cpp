#include "segment/commit/way_home.hpp"

#include <vector>

#include "base/units.hpp"

namespace holdfast::segment {

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
    for (const std::uint64_t id = file_of(patches.front().place);
         !patches.empty() && file_of(patches.front().place) == id; patches = patches.subspan(1)) {
        const log_content::patch& patch = patches.front();
        const std::uint64_t at = page_of_place(patch.place) * base::page_size + patch.offset;
        const bool follows = at == begin + bytes.size() && bytes.size() + patch.length <= most;
        if (!bytes.empty() && !follows) {
            HF_TRY(write());
            bytes.clear();
        }
        if (bytes.empty()) {
            begin = at;
        }
        bytes.resize(bytes.size() + patch.length);
        HF_TRY(reader.read(patch, std::span(bytes).last(patch.length)));
    }
    return write();
}

}  // namespace holdfast::segment
