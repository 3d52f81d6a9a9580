#include "log/record_chain.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.hpp"

namespace holdfast::log {

base::result<std::uint64_t> random_number() {
    std::uint64_t number = 0;
    while (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) {
        if (errno != EINTR) {
            return base::os_failure(errno, "getrandom", {});
        }
    }
    return number;
}

std::optional<record_header_on_media> next_header(std::span<const std::byte> bytes, const mark& before,
                                                  std::uint64_t key) noexcept {
    record_header_on_media header{};
    if (bytes.size() < sizeof header) {
        return {};
    }
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.sequence != before.sequence + 1 || header.checksum != checksum_of(header, key) ||
        header.before != before.checksum) {
        return {};
    }
    return header;
}

bool read_record(const record_header_on_media& header, std::span<const std::byte> bytes, std::uint64_t position,
                 std::uint64_t key, record& found) noexcept {
    const std::uint64_t space = space_of(header.size);
    if (space > bytes.size()) {
        return false;
    }
    const auto payload = bytes.subspan(header_size, header.size);
    if (header.payload_checksum != base::checksum64(payload, key)) {
        return false;
    }
    found = {header.kind, header.epoch, {position + space, header.sequence, header.checksum}, payload};
    return true;
}

mark seal(std::span<std::byte> bytes, std::uint64_t size, const mark& before,
          const record_identity& identity) noexcept {
    HF_ASSERT(bytes.size() == space_of(size));
    const auto payload = bytes.subspan(header_size, size);
    std::memset(payload.data() + size, 0, bytes.size() - header_size - size);
    record_header_on_media header{};
    header.before = before.checksum;
    header.sequence = before.sequence + 1;
    header.epoch = identity.epoch;
    header.payload_checksum = base::checksum64(payload, identity.key);
    header.size = static_cast<std::uint32_t>(size);
    header.kind = identity.kind;
    header.in_doubt = static_cast<std::uint16_t>(std::min(identity.in_doubt, most_in_doubt));
    header.checksum = checksum_of(header, identity.key);
    std::memcpy(bytes.data(), &header, sizeof header);
    return {before.position + bytes.size(), header.sequence, header.checksum};
}

}  // namespace holdfast::log
