// A log that an adversary wrote, with repaired checksums, opens with the records before the first that does not count,
// each as it was written or forged as a whole, or is refused with a failure that tells why. It then takes records,
// which come back. Input: edits of 8 bytes: u16 place in the file, u8 what, u8 count, u32 value.
#include <algorithm>
#include <cstring>
#include <vector>

#include "log/log.hpp"
#include "simulator/storage/simulated_storage.hpp"

namespace {

using namespace holdfast;  // NOLINT(google-build-using-namespace): a program of one file

constexpr std::uint64_t key = 7;
constexpr std::uint64_t file_size = holdfast::log::least_file_size;

struct edit {
    std::uint16_t place;
    std::uint8_t what;
    std::uint8_t count;
    std::uint32_t value;
};
static_assert(sizeof(edit) == 8);

holdfast::log::log_options options() { return {{"log", "log.", file_size}, key, 1}; }

void must(bool right) {
    if (!right) {
        __builtin_trap();
    }
}

/// Sums and chain of what lies at the beginnings of records, as far as headers lead.
void repair(std::vector<std::byte>& file) {
    std::uint64_t before = 0;
    std::uint64_t sequence = 0;
    for (std::uint64_t at = 0; at + holdfast::log::header_size <= file.size();) {
        holdfast::log::record_header_on_media header{};
        std::memcpy(&header, file.data() + at, sizeof header);
        const std::uint64_t space = holdfast::log::space_of(header.size);
        if (space > file.size() - at) {
            return;
        }
        header.before = before;
        header.sequence = ++sequence;
        header.payload_checksum =
            base::checksum64(std::span(file).subspan(at + holdfast::log::header_size, header.size), key);
        header.checksum = checksum_of(header, key);
        std::memcpy(file.data() + at, &header, sizeof header);
        before = header.checksum;
        at += space;
    }
}

std::vector<std::byte> forged(std::span<const std::uint8_t> input) {
    std::vector<std::byte> file(file_size);
    repair(file);  // records without payload, up to the end
    for (; input.size() >= sizeof(edit); input = input.subspan(sizeof(edit))) {
        edit one{};
        std::memcpy(&one, input.data(), sizeof one);
        const std::uint64_t at = one.place % (file_size - sizeof one.value);
        switch (one.what % 4) {
            case 0: std::memcpy(file.data() + at, &one.value, sizeof one.value); break;
            case 1:
                std::memset(file.data() + at, one.count, std::min<std::uint64_t>(one.value % 512, file_size - at));
                break;
            case 2:
                file.resize(std::max<std::uint64_t>(at, 64));
                file.resize(file_size);
                break;
            default: repair(file);
        }
    }
    return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    simulator::simulated_storage storage(512);
    storage.run_in_peace();
    must(storage.make_directory("log", "fuzz").ok());
    const auto media = forged({data, size});
    must(storage.create("log/log.000000", "fuzz").value()->write_at(0, media, "fuzz").ok());
    std::uint64_t records = 0;
    std::uint64_t bytes = 0;
    const auto count = [&](const holdfast::log::record& each) {
        must(each.end.sequence == ++records);
        must(each.end.position % holdfast::log::record_alignment == 0);
        bytes += each.payload.size();
        return base::result<void>();
    };
    {
        auto opened = holdfast::log::log::open(storage, options(), {}, count);
        must(opened.ok());
        must(bytes <= file_size);
        const std::uint64_t before = records;
        for (std::uint64_t i = 1; i <= 3; ++i) {
            const std::vector<std::byte> payload(i * 1000, std::byte{1});
            const auto appended = (*opened)->append(1, payload);
            must(appended.ok() && appended->sequence == before + i && (*opened)->wait(before + i).ok());
        }
    }
    const std::uint64_t written = records + 3;
    records = 0;
    must(holdfast::log::log::open(storage, options(), {}, count).ok());
    must(records == written);
    return 0;
}
