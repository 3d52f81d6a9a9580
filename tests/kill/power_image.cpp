#include "kill/power_image.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

namespace holdfast::test {

#if HOLDFAST_MUTANTS

namespace {

constexpr std::size_t line_bytes = 64;
constexpr std::size_t word_bytes = 8;

power_image* in_use = nullptr;

}  // namespace

void power_image::begin(const std::string& path, void (*step)()) {
    step_ = step;
    find_mappings(path);
    for (const mapping& each : mappings_) {
        auto& file = durable_[each.file];
        file.resize(std::max(file.size(), each.offset + static_cast<std::size_t>(each.end - each.begin)));
        std::memcpy(&file[each.offset], each.begin, static_cast<std::size_t>(each.end - each.begin));
    }
    in_use = this;
    persist::set_media_function(tell);
    persist::set_step_function([](persist::site /*where*/) { in_use->step_(); });
}

void power_image::find_mappings(const std::string& path) {
    std::ifstream maps("/proc/self/maps");
    std::map<std::string, std::size_t> files;
    for (std::string line; std::getline(maps, line);) {
        std::istringstream fields(line);
        std::uintptr_t begin = 0;
        std::uintptr_t end = 0;
        char dash = 0;
        std::string permissions;
        std::size_t offset = 0;
        std::string device;
        std::string inode;
        std::string name;
        fields >> std::hex >> begin >> dash >> end >> permissions >> offset >> device >> inode >> name;
        if (!name.starts_with(path) || !permissions.starts_with("rw")) {
            continue;
        }
        const std::size_t file = files.try_emplace(name, files.size()).first->second;
        mappings_.push_back({reinterpret_cast<std::byte*>(begin), reinterpret_cast<std::byte*>(end), file, offset});
    }
    durable_.resize(files.size());
}

std::byte* power_image::durable(const mapping& in, const std::byte* at) noexcept {
    return &durable_[in.file][in.offset + static_cast<std::size_t>(at - in.begin)];
}

void power_image::tell(persist::media_step step, const void* begin, std::size_t bytes) {
    in_use->step_();
    if (step == persist::media_step::fence) {
        in_use->settle();
    } else if (step != persist::media_step::store) {
        in_use->pending_.push_back({static_cast<const std::byte*>(begin), bytes});
    }
}

/// A fence: the lines that were written back are durable as they are now.
void power_image::settle() {
    for (const range& each : pending_) {
        const auto address = reinterpret_cast<std::uintptr_t>(each.begin);
        const auto* const first = each.begin - address % line_bytes;
        for (const std::byte* at = first; at < each.begin + each.bytes; at += line_bytes) {
            const auto in =
                std::ranges::find_if(mappings_, [at](const mapping& one) { return at >= one.begin && at < one.end; });
            if (in != mappings_.end()) {
                std::memcpy(durable(*in, at), at, line_bytes);
            }
        }
    }
    pending_.clear();
}

void power_image::lose(loss which, std::uint64_t seed) {
    persist::set_media_function(nullptr);
    persist::set_step_function(nullptr);
    if (which == loss::nothing) {
        return;
    }
    std::mt19937_64 random(seed);
    const std::size_t unit = which == loss::words ? word_bytes : line_bytes;
    for (const mapping& each : mappings_) {
        for (std::byte* at = each.begin; at < each.end; at += unit) {
            const std::byte* const old = durable(each, at);
            if (std::memcmp(at, old, unit) != 0 && (which == loss::everything || random() % 2 == 0)) {
                std::memcpy(at, old, unit);
            }
        }
    }
}

#endif

}  // namespace holdfast::test
